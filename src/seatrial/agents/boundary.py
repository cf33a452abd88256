"""The border to foreign code: timeouts that hold, and every exception caught and named."""

import inspect
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from seatrial.vocabulary.conversation import ErrorKind
from seatrial.vocabulary.failures import AgentFailure, TrialError

from .loops import AgentLoop
from .outcome import Outcome
from .threads import AgentThreads


class Boundary:
    """Runs foreign functions, sync or async, for one run; never on the runner's own loop."""

    def __init__(self) -> None:
        self._threads = AgentThreads()
        self._loop = AgentLoop()

    async def call(self, function: Callable[[], Any], *, is_async: bool, timeout: float) -> Any:
        """What the function returns. Raises AgentFailure for what it raised, TrialError(limit) when it was too slow."""
        try:
            outcome = await (
                self._loop.call(function, timeout=timeout)
                if is_async
                else self._threads.call(function, timeout=timeout)
            )
            if outcome.raised is None and inspect.isawaitable(outcome.value):
                outcome = await self._loop.call(_awaiting(outcome.value), timeout=timeout)
        except TimeoutError:
            raise overran(timeout) from None
        return _value(outcome)

    @property
    def abandoned(self) -> int:
        """Calls that overran and were left behind."""
        return self._threads.abandoned + self._loop.abandoned

    def close(self) -> None:
        self._threads.close()
        self._loop.close()


def overran(seconds: float) -> TrialError:
    return TrialError(
        ErrorKind.LIMIT,
        f"the agent did not answer within {seconds:g} s",
        hint="raise timeout_seconds (default_timeout in suite.config) if it needs longer",
    )


def _awaiting(awaitable: Awaitable[Any]) -> Callable[[], Awaitable[Any]]:
    async def wait() -> Any:
        return await awaitable

    return wait


def _value(outcome: Outcome) -> Any:
    raised = outcome.raised
    if raised is None:
        return outcome.value
    if isinstance(raised, TrialError):
        raise raised
    text = str(raised)
    if isinstance(raised, SystemExit):
        message = f"the agent called sys.exit({'' if raised.code is None else raised.code!r})"
    else:
        message = f"{type(raised).__name__}: {text}" if text else type(raised).__name__
    raise AgentFailure(message, traceback=_foreign_traceback(raised)) from None


def _foreign_traceback(raised: BaseException) -> str:
    """The traceback from the user's first line on; our own frames would only be in the way."""
    frames = traceback.extract_tb(raised.__traceback__)
    while frames and "/seatrial/agents/" in frames[0].filename.replace("\\", "/"):
        frames.pop(0)
    return "".join(
        [
            *traceback.format_list(frames),
            *traceback.format_exception_only(raised),
        ]
    ).rstrip()

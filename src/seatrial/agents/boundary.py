"""The border to foreign code: timeouts that hold, and every exception caught and named."""

import asyncio
import inspect
import traceback
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

from seatrial.by_hand import ForeignCall, Outcome, ask, hall, move_to_loop, on_loop
from seatrial.vocabulary.conversation import ErrorKind
from seatrial.vocabulary.failures import AgentFailure, TrialError
from seatrial.vocabulary.roles import AgentReply

from .loops import AgentLoop
from .threads import AgentThreads


class Boundary:
    """Runs foreign functions, sync or async, for one run; never on the runner's own loop.

    `one_at_a_time`: whoever drives by hand waits for the call. (Else it is a thread for agents, and calls by itself.)
    """

    def __init__(self, *, one_at_a_time: bool = False) -> None:
        self._hall: asyncio.AbstractEventLoop | None = None
        self._one_at_a_time = one_at_a_time
        self._threads = AgentThreads()
        self._loop = AgentLoop()

    async def call(self, function: Callable[[], Any], *, is_async: bool, timeout: float) -> Any:
        """What the function returns. Raises AgentFailure for what it raised, TrialError(limit) when it was too slow."""
        started = perf_counter()
        try:
            if is_async:
                outcome = await self._await(function, timeout)
            elif on_loop():
                self._serve(asyncio.get_running_loop())
                outcome = await self._threads.call(function, timeout=timeout)
            elif self._one_at_a_time:
                self._serve(hall())
                outcome = await self._threads.call_in_place(function, timeout=timeout)
            else:
                outcome = await ask(ForeignCall(function, timeout))
            if type(outcome.value) is not AgentReply and inspect.isawaitable(outcome.value):
                left = timeout - (perf_counter() - started)
                outcome = await self._await(_awaiting(outcome.value), left)
        except TimeoutError:
            raise overran(timeout) from None
        return _value(outcome)

    async def _await(self, make: Callable[[], Any], timeout: float) -> Outcome:
        await move_to_loop()
        self._serve(asyncio.get_running_loop())
        return await self._loop.call(make, timeout=timeout)

    def _serve(self, hall: asyncio.AbstractEventLoop) -> None:
        """Threads and loops give their answers to one hall; an agent that is run again has another."""
        if self._hall is not hall:
            self.close()
            self._hall = hall
            self._threads = AgentThreads()
            self._loop = AgentLoop()

    @property
    def abandoned(self) -> int:
        """Calls that overran and were left behind."""
        return self._threads.abandoned + self._loop.abandoned

    def close(self) -> None:
        self._hall = None
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
    raise AgentFailure(_describe(raised), traceback=_foreign_traceback(raised)) from None


def _describe(raised: BaseException) -> str:
    if isinstance(raised, SystemExit):
        return f"the agent called sys.exit({'' if raised.code is None else repr(raised.code)})"
    name = type(raised).__name__
    try:
        text = str(raised)
    except Exception as broken:
        # Its text is foreign code as well.
        text = f"(its text cannot be shown: {type(broken).__name__})"
    return f"{name}: {text}" if text else name


def _foreign_traceback(raised: BaseException) -> str:
    """The traceback from the user's first line on; our own frames would only be in the way."""
    shown = traceback.TracebackException.from_exception(raised)
    while shown.stack and "/seatrial/agents/" in shown.stack[0].filename.replace("\\", "/"):
        shown.stack.pop(0)
    return "".join(shown.format()).rstrip()

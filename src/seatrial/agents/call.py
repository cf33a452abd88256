"""Calls of an agent's own code: what goes wrong there is named as the agent's failure."""

from collections.abc import Callable
from typing import Any

from seatrial.foreign import AGENTS, ForeignCode, ForeignError, LoopBlocked
from seatrial.model.conversation import ErrorKind
from seatrial.model.results import AgentFailure, RepeatTrial, TrialError


async def call_agent(function: Callable[[], Any], *, timeout: float, code: ForeignCode = AGENTS) -> Any:
    """What the agent's function returns. Raises AgentFailure for what it raises, TrialError(limit) when it is slow."""
    try:
        return await code.call(function, timeout=timeout)
    except TimeoutError:
        raise overran(timeout) from None
    except LoopBlocked as blocked:
        raise RepeatTrial(str(blocked)) from None
    except ForeignError as failure:
        raised = failure.raised
        if isinstance(raised, TrialError):
            raise raised from None
        raise AgentFailure(_describe(failure), traceback=failure.traceback) from None


def overran(seconds: float) -> TrialError:
    return TrialError(
        ErrorKind.LIMIT,
        f"the agent did not answer within {seconds:g} s",
        hint="raise timeout_seconds (default_timeout in suite.config) if it needs longer",
    )


def _describe(failure: ForeignError) -> str:
    raised = failure.raised
    if isinstance(raised, SystemExit):
        return f"the agent called sys.exit({'' if raised.code is None else repr(raised.code)})"
    return str(failure)

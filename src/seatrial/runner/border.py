"""The border to code that we did not write: evaluators, hooks, and whatever else a trial meets.

Nothing they raise may end the run, `sys.exit(0)` least of all: that would end the process as if all were well. Nor is
it for them to say how a test ends: `pytest.skip()`, as others do, raises what is no Exception. A cancellation is ours
only where this very task was cancelled; else somebody raised it.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

FOREIGN: Final = BaseException
"""What to catch at the border; `require_foreign` then lets pass what is not foreign after all."""


def require_foreign(raised: BaseException) -> None:
    """Raise it again where it is Ctrl-C, our own end, or the cancellation of the task that we run in."""
    if isinstance(raised, KeyboardInterrupt | GeneratorExit):
        raise raised
    if isinstance(raised, asyncio.CancelledError):
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise raised


async def within(seconds: float, awaitable: Awaitable[Any]) -> Any:
    """What it gives. Raises TimeoutError, with the limit in its text, for one that would be waited for in vain."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await awaitable
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"no answer within {seconds:g} s (trial_timeout_seconds)") from None


def describe(raised: BaseException) -> str:
    """`ValueError: what it says`."""
    try:
        text = str(raised)
    except Exception as broken:
        # Its text is foreign code as well.
        text = f"(its text cannot be shown: {type(broken).__name__})"
    return f"{type(raised).__name__}: {text}" if text else type(raised).__name__

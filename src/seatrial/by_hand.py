"""Coroutines that are driven by hand, where no event loop runs.

On an event loop a coroutine waits for futures, and wakes the loop with each. But the trial of a plain function waits
for nothing except that function. So it can be driven without a loop, in any thread, and asks for what only its driver
has: a call of foreign code, the loop of the run, or to be taken to that loop, where it may wait for whatever it likes.
While foreign code is called the coroutine stands still, and whoever gives up on the call may go on with it elsewhere:
that is how timeouts hold.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from enum import Enum, auto
from types import coroutine
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Outcome(NamedTuple):
    """How a call into foreign code ended: with a value, or with whatever it raised."""

    value: Any = None
    raised: BaseException | None = None


def attempt(function: Callable[[], Any]) -> Outcome:
    """Call foreign code and keep everything it may raise, `sys.exit()` included."""
    try:
        return Outcome(function())
    except BaseException as raised:
        return Outcome(None, raised)


class ForeignCall(NamedTuple):
    """A call that may hang or raise anything. The answer is its Outcome; a TimeoutError when it takes too long."""

    function: Callable[[], Any]
    timeout: float


class Request(Enum):
    HALL = auto()
    """The event loop of the run."""
    MOVE = auto()
    """To be driven by that loop from here on."""


Asked = ForeignCall | Request


@coroutine
def ask(what: Asked) -> Generator[Asked, Any, Any]:
    """What the driver answers."""
    return (yield what)


def on_loop() -> bool:
    """Whether an event loop drives the code that asks."""
    return asyncio._get_running_loop() is not None


async def hall() -> asyncio.AbstractEventLoop:
    """The event loop of the run, whoever drives us."""
    found: asyncio.AbstractEventLoop = asyncio._get_running_loop() or await ask(Request.HALL)
    return found


async def move_to_loop() -> None:
    """Return on the event loop of the run: what comes next waits for futures."""
    if not on_loop():
        await ask(Request.MOVE)


@coroutine
def go_on(
    begun: Coroutine[Any, Any, T], *, answer: Any = None, raising: BaseException | None = None
) -> Generator[Any, Any, T]:
    """Drive a coroutine on from where it stands: its last question is answered, or `raising` is raised there."""
    try:
        asked = begun.send(answer) if raising is None else begun.throw(raising)
        while True:
            try:
                answer = yield asked
            except BaseException as raised:
                asked = begun.throw(raised)
            else:
                asked = begun.send(answer)
    except StopIteration as end:
        found: T = end.value
        return found

"""Coroutines that are driven by hand, where no event loop runs.

On an event loop a coroutine waits for futures, and wakes the loop with each. But the trial of a plain function waits
for nothing except that function. So it can be driven without a loop, in any thread, and asks its driver for what it
needs: a call of foreign code, or to be taken to the loop of the run, where it may wait for whatever it likes. While
foreign code is called the coroutine stands still, and whoever gives up on the call may go on with it elsewhere: that is
how timeouts hold.
"""

import asyncio
import os
import traceback
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from types import coroutine
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Outcome(NamedTuple):
    """How a call into foreign code ended: with a value, or with whatever it raised."""

    value: Any = None
    raised: BaseException | None = None


def attempt(function: Callable[[], Any]) -> Outcome:
    """Call foreign code and keep everything it may raise, `sys.exit()` included."""
    here = os.getpid()
    try:
        outcome = Outcome(function())
    except BaseException as raised:
        outcome = Outcome(None, raised)
    end_forks(outcome, here)
    return outcome


def end_forks(outcome: Outcome, here: int) -> None:
    """End the process if it is not `here`, but a fork that foreign code made and did not end.

    It would go on in our place: play the trials that are left once more, and then wait for ever.
    """
    if os.getpid() == here:
        return
    raised = outcome.raised
    if isinstance(raised, SystemExit):
        code = raised.code if isinstance(raised.code, int) else int(raised.code is not None)
        os._exit(code & 0xFF)
    if raised is not None:
        traceback.print_exception(raised)
    os._exit(0 if raised is None else 1)


class ForeignCall(NamedTuple):
    """A call that may hang or raise anything. The answer is its Outcome; a TimeoutError when it takes too long."""

    function: Callable[[], Any]
    timeout: float


class Move:
    """To be driven by the event loop of the run from here on."""


Asked = ForeignCall | Move

_hall: ContextVar[asyncio.AbstractEventLoop] = ContextVar("hall")


@coroutine
def ask(what: Asked) -> Generator[Asked, Any, Any]:
    """What the driver answers."""
    return (yield what)


def on_loop() -> bool:
    """Whether an event loop drives the code that asks."""
    return asyncio._get_running_loop() is not None


def hall() -> asyncio.AbstractEventLoop:
    """The event loop of the run: the one that drives us, or that our driver works for."""
    return asyncio._get_running_loop() or _hall.get()


def work_for(loop: asyncio.AbstractEventLoop) -> None:
    """Say, in a thread that drives coroutines by hand, whose they are."""
    _hall.set(loop)


async def move_to_loop() -> None:
    """Return on the event loop of the run: what comes next waits for futures."""
    if not on_loop():
        await ask(Move())


@coroutine
def go_on(begun: Coroutine[Any, Any, T], *, raising: BaseException | None = None) -> Generator[Any, Any, T]:
    """Drive a coroutine on, on a loop, from where it stands; `raising` is what its last question is answered by."""
    try:
        asked = begun.send(None) if raising is None else begun.throw(raising)
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

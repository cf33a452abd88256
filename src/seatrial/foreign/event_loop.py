"""An event loop in a daemon thread for async user code. It measures which call uses the loop.

A call that blocks the loop must time out, and must not let other calls time out. Every callback runs in the context of
the call that scheduled it, also in sub-tasks and timers, so the loop can measure the time of each call. The time that
*other* calls used the loop does not count for a call's timeout. If a call still blocks the loop after its timeout, the
loop is abandoned, and the other calls on it raise LoopBlocked: they must be run again.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar, copy_context
from time import perf_counter
from typing import Any

from .threads import Outcome, attempt, end_forked_child

if sys.platform == "win32":
    from asyncio import ProactorEventLoop as _Base
else:
    from asyncio import SelectorEventLoop as _Base

GRACE_SECONDS = 1.0
"""How long a loop may be blocked, or a call may clean up, after a timeout."""

Make = Callable[[], Awaitable[Any]]


class LoopBlocked(Exception):
    """Another call blocked the event loop that this one shared with it."""


class _Call:
    """One call on a loop."""

    __slots__ = ("future", "held", "others_at_start", "started", "task", "timeout")

    def __init__(self, future: "asyncio.Future[Outcome]", timeout: float | None) -> None:
        self.future = future
        """The result, on the loop that waits for the call."""
        self.timeout = timeout
        self.started = 0.0
        self.held = 0.0
        """Seconds in which this call used the loop."""
        self.others_at_start = 0.0
        self.task: asyncio.Task[None] | None = None


_current_call: ContextVar[_Call | None] = ContextVar("current_call", default=None)


class AsyncCalls:
    """Runs coroutines of user code. Starts a new loop after one was blocked."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: _ForeignLoop | None = None
        self.abandoned = 0

    async def call(self, make: Make, *, timeout: float | None) -> Outcome:
        """What the coroutine returns or raises. Raises TimeoutError, and LoopBlocked when another call blocked."""
        here = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = _ForeignLoop(self._name)
        loop = self._loop
        call = _Call(here.create_future(), timeout)
        loop.submit(call, make)
        timer = None if timeout is None else here.call_later(timeout, self._check_deadline, loop, call)
        try:
            return await call.future
        except BaseException:
            loop.cancel(call)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _check_deadline(self, loop: "_ForeignLoop", call: _Call) -> None:
        if call.future.done():
            return
        if loop.is_stuck():
            self._abandon(loop)
            return
        here = call.future.get_loop()
        assert call.timeout is not None
        remaining = call.timeout - loop.time_on(call)
        if remaining > 0.001:
            here.call_later(remaining, self._check_deadline, loop, call)
            return
        call.future.set_exception(TimeoutError())
        here.call_later(GRACE_SECONDS, self._check_responsive, loop, call)

    def _check_responsive(self, loop: "_ForeignLoop", call: _Call) -> None:
        """Abandon the loop if a cancelled call is still on it: the loop is blocked."""
        if loop is not self._loop or call not in loop.calls:
            return
        holder = loop.holder
        if holder is None or holder.future.done():
            self._abandon(loop)
        else:  # another call uses the loop, and has not timed out
            call.future.get_loop().call_later(GRACE_SECONDS, self._check_responsive, loop, call)

    def _abandon(self, loop: "_ForeignLoop") -> None:
        self.abandoned += 1
        if loop is self._loop:
            self._loop = None
        loop.stop()
        for call in list(loop.calls):
            call.future.get_loop().call_soon_threadsafe(_raise_blocked, call.future)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.stop()
            self._loop = None


def _raise_blocked(future: "asyncio.Future[Outcome]") -> None:
    if not future.done():
        future.set_exception(LoopBlocked("another call blocked the event loop that this one shared with it"))


class _MeasuringLoop(_Base):
    """An event loop that measures the time of the callbacks of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.holder: _Call | None = None
        self.held_since = 0.0
        self.held_by_all = 0.0

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._measure, callback, args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when, self._measure, callback, args, context=context)

    def _measure(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        call = _current_call.get()
        if call is None:
            callback(*args)
            return
        began = self.held_since = perf_counter()
        self.holder = call
        try:
            callback(*args)
        finally:
            self.holder = None
            spent = perf_counter() - began
            self.held_by_all += spent
            call.held += spent

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Without an executor, use a daemon thread: asyncio's threads would delay the end of the process."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        future: asyncio.Future[Any] = self.create_future()
        context = copy_context()

        def work() -> None:
            outcome = attempt(lambda: context.run(func, *args))
            try:
                self.call_soon_threadsafe(_settle, future, outcome)
            except RuntimeError:
                return  # the loop has closed: the result is not needed

        threading.Thread(target=work, name="seatrial-executor", daemon=True).start()
        return future


def _settle(future: "asyncio.Future[Any]", outcome: Outcome) -> None:
    if future.done():
        return
    if outcome.raised is None:
        future.set_result(outcome.value)
    elif isinstance(outcome.raised, StopIteration):
        future.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        future.set_exception(outcome.raised)


class _ForeignLoop:
    """One event loop in its thread. Other threads call the methods without an underscore."""

    def __init__(self, name: str) -> None:
        self._loop = _MeasuringLoop()
        self._stopped = False
        self.calls: set[_Call] = set()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def holder(self) -> _Call | None:
        """The call that uses the loop now."""
        return self._loop.holder

    def submit(self, call: _Call, make: Make) -> None:
        self.calls.add(call)
        context = copy_context()
        context.run(_current_call.set, call)
        self._tell(self._begin, call, make, context)

    def time_on(self, call: _Call) -> float:
        """Seconds that count for this call's timeout: since its start, without the time of other calls."""
        if call.task is None:
            return 0.0
        now = perf_counter()
        loop = self._loop
        holder, running = loop.holder, now - loop.held_since
        if holder is None:
            running = 0.0
        held_by_call = call.held + (running if holder is call else 0.0)
        others = loop.held_by_all + running - call.others_at_start - held_by_call
        return now - call.started - others

    def is_stuck(self) -> bool:
        """Whether a call that has ended or timed out blocks the loop."""
        holder = self._loop.holder
        return holder is not None and holder.future.done() and perf_counter() - self._loop.held_since > GRACE_SECONDS

    def cancel(self, call: _Call) -> None:
        self._tell(self._cancel, call)

    def stop(self) -> None:
        """End the loop after its current callback. Remaining tasks are cancelled."""
        self._stopped = True
        self._tell(self._loop.stop)

    def _tell(self, callback: Callable[..., object], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            return  # it has ended

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._stopped:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # sys.exit() in a task of user code ends run_forever, but the loop still works.
                continue
        try:
            self._loop.run_until_complete(_cancel_remaining_tasks(self._loop))
        except (SystemExit, KeyboardInterrupt):
            return
        self._loop.close()

    def _begin(self, call: _Call, make: Make, context: Context) -> None:
        if call.future.done():
            self.calls.discard(call)
            return
        call.started = perf_counter()
        call.others_at_start = self._loop.held_by_all
        call.task = self._loop.create_task(self._perform(call, make), context=context)

    def _cancel(self, call: _Call) -> None:
        if call.task is not None:
            call.task.cancel()
        self.calls.discard(call)

    async def _perform(self, call: _Call, make: Make) -> None:
        process = os.getpid()
        try:
            outcome = Outcome(await make())
        except BaseException as raised:
            outcome = Outcome(None, raised)
        end_forked_child(outcome, process)
        self.calls.discard(call)
        try:
            call.future.get_loop().call_soon_threadsafe(_deliver, call.future, outcome)
        except RuntimeError:
            return  # the caller's loop has closed: the result is not needed


def _deliver(future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


async def _cancel_remaining_tasks(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=GRACE_SECONDS)
    await loop.shutdown_asyncgens()

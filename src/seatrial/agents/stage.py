"""One event loop in a daemon thread, for agents, and the account of who holds it.

Every callback runs in the context of the call that scheduled it, sub-tasks and timers included. So the loop can book
the time that each callback takes on that call's account, and it is known at any moment who keeps it from going on.
"""

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context, ContextVar, copy_context
from time import perf_counter
from typing import Any

from seatrial.by_hand import Outcome, attempt, end_forks

if sys.platform == "win32":
    from asyncio import ProactorEventLoop as _Base
else:
    from asyncio import SelectorEventLoop as _Base

GRACE_SECONDS = 1.0
"""How long a loop may take to come round, or an agent to clean up after its time was over."""

Make = Callable[[], Awaitable[Any]]


class Call:
    """One agent call on a stage."""

    __slots__ = ("due", "future", "held", "others_at_start", "started", "task", "timeout")

    def __init__(self, future: "asyncio.Future[Outcome]", timeout: float) -> None:
        self.future = future
        self.timeout = timeout
        self.started = 0.0
        self.held = 0.0
        """Seconds for which it held the loop."""
        self.others_at_start = 0.0
        self.task: asyncio.Task[None] | None = None
        self.due = future.get_loop().time() + timeout
        """When to look whether its time is over; what others took is added then."""


_on_stage: ContextVar[Call | None] = ContextVar("on_stage", default=None)


class _BookingLoop(_Base):
    """An event loop that books the time of each callback on the call it belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.holder: Call | None = None
        self.held_since = 0.0
        self.held_by_all = 0.0

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._book, callback, args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when, self._book, callback, args, context=context)

    def _book(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        call = _on_stage.get()
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
        """As ever; but without an executor in a daemon thread: those of asyncio are joined when the process ends."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        future: asyncio.Future[Any] = self.create_future()
        context = copy_context()

        def work() -> None:
            outcome = attempt(lambda: context.run(func, *args))
            try:
                self.call_soon_threadsafe(_settle, future, outcome)
            except RuntimeError:
                return  # the loop has closed: nobody waits for this any more

        threading.Thread(target=work, name="seatrial-agent-executor", daemon=True).start()
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


class Stage:
    """Takes calls from the runner's loop, the hall, and gives their outcomes back to it."""

    def __init__(self, hall: asyncio.AbstractEventLoop) -> None:
        self._hall = hall
        self._loop = _BookingLoop()
        self._arrivals: deque[tuple[Call, Make, Context]] = deque()
        self._results: deque[tuple[Call, Outcome]] = deque()
        self._arrival_pending = False
        self._result_pending = False
        self._stopped = False
        self.calls: set[Call] = set()
        threading.Thread(target=self._run, name="seatrial-agent-loop", daemon=True).start()

    # The runner's side.

    @property
    def holder(self) -> Call | None:
        """Whose code the loop runs at this moment."""
        return self._loop.holder

    def submit(self, call: Call, make: Make) -> None:
        self.calls.add(call)
        context = copy_context()
        context.run(_on_stage.set, call)
        self._arrivals.append((call, make, context))
        # One wake-up serves all that come until the hall has come round: before, the stage would only wait for its turn
        # in Python.
        if not self._arrival_pending:
            self._arrival_pending = True
            self._hall.call_soon(self._tell, self._begin)

    def time_on(self, call: Call) -> float:
        """Seconds on this call's clock, which stands until it has begun, and while others hold the loop."""
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
        """Whether a call that is over, answered or out of time, has been holding the loop for long."""
        holder = self._loop.holder
        return holder is not None and holder.future.done() and perf_counter() - self._loop.held_since > GRACE_SECONDS

    def cancel(self, call: Call) -> None:
        self._tell(self._cancel, call)

    def stop(self) -> None:
        """End the loop as soon as it comes round; what is left on it is cancelled."""
        self._stopped = True
        self._tell(self._loop.stop)

    def _tell(self, callback: Callable[..., object], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            return  # it has ended already

    def deliver(self) -> None:
        """Give the hall what has been answered."""
        self._result_pending = False
        while self._results:
            call, outcome = self._results.popleft()
            self.calls.discard(call)
            if not call.future.done():
                call.future.set_result(outcome)

    # The agents' side.

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._stopped:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # sys.exit() in a task of the agent's own ends run_forever; the loop is still good.
                continue
        try:
            self._loop.run_until_complete(_clear(self._loop))
        except (SystemExit, KeyboardInterrupt):
            return
        self._loop.close()

    def _begin(self) -> None:
        self._arrival_pending = False
        while self._arrivals:
            call, make, context = self._arrivals.popleft()
            if not call.future.done():
                call.started = perf_counter()
                call.others_at_start = self._loop.held_by_all
                call.task = self._loop.create_task(self._perform(call, make), context=context)

    def _cancel(self, call: Call) -> None:
        if call.task is not None:
            call.task.cancel()
        self.calls.discard(call)

    async def _perform(self, call: Call, make: Make) -> None:
        here = os.getpid()
        try:
            outcome = Outcome(await make())
        except BaseException as raised:
            outcome = Outcome(None, raised)
        end_forks(outcome, here)
        self._results.append((call, outcome))
        if not self._result_pending:
            self._result_pending = True
            self._loop.call_soon(self._report)

    def _report(self) -> None:
        """Wake the hall, once for all who answered in this round. Where somebody blocks before, it looks by itself."""
        try:
            self._hall.call_soon_threadsafe(self.deliver)
        except RuntimeError:
            return  # the run is over: nobody waits for this any more


async def _clear(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what agents left running, and give it a moment to end."""
    left = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=GRACE_SECONDS)
    await loop.shutdown_asyncgens()

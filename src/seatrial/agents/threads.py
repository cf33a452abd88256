"""Where sync agents run: daemon threads of our own.

`concurrent.futures` joins its threads when the interpreter ends, so one agent that never returns would keep the process
alive for ever. These threads are daemons; a call that overruns is abandoned where it stands, and counted.

Waking a thread costs more than a quick agent takes to answer. So while calls are quick one thread takes them one after
the other, and more are called in only when calls begin to wait: at once where the last call was slow, else when every
thread has been in one call for a while. A thread that merely waits for its turn in Python needs no help: another would
wait beside it.

Where trials are driven by hand and come one at a time with other work between them, as in pytest, waking a loop for an
answer costs four times as much as waiting for it in place (260 µs against 60). So for quick answers that is done.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from seatrial.by_hand import Outcome, attempt, hall, move_to_loop

_Job = tuple["asyncio.Future[Outcome]", Callable[[], Any], Context]

_QUICK_SECONDS = 0.001
_PATIENCE_SECONDS = 0.002
_WATCH_SECONDS = 0.02
"""How late a timeout may be noticed."""


class AgentThreads:
    """Runs blocking calls for one event loop; calls that block get a thread each."""

    def __init__(self) -> None:
        self._waits: deque[None] = deque()
        """One while somebody waits in place. Whoever takes it out decides how the answer goes: by bell, or by loop."""
        self._bell = threading.Lock()
        self._bell.acquire()
        self._jobs: deque[_Job] = deque()
        self._done: deque[tuple[asyncio.Future[Outcome], Outcome]] = deque()
        self._summons: SimpleQueue[bool] = SimpleQueue()
        """One True for each thread that shall look for jobs; False ends the thread that takes it."""
        self._leavers: deque[None] = deque()
        """One for each thread that found no more jobs. Counted on the loop: only there do numbers change."""
        self._summoned = 0
        """Threads that look for jobs, or are in one."""
        self._threads = 0
        self._last_was_quick = True
        self._answers_quickly = False
        """Known of an agent once it did."""
        self._summon_pending = False
        self._wake_pending = False
        self._help_pending = False
        self._begun: dict[int, float] = {}
        """Since when each thread is in its call."""
        self._in_calls: dict[int, float] = {}
        """The same, when it was last looked at."""
        self._deadlines: dict[asyncio.Future[Outcome], tuple[float, float]] = {}
        """When each began to be waited for, and until when it is."""
        self._watching = False
        self._watch_due = 0.0
        self.abandoned = 0

    async def call(self, function: Callable[[], Any], *, timeout: float) -> Outcome:
        """What the function returned or raised. Raises TimeoutError when it takes too long; it then goes on unheard."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._jobs.append((future, function, copy_context()))
        if self._answers_quickly and self._summoned == len(self._leavers):
            self._summon_soon(loop)
        else:
            self._call_in_threads(loop)
        return await self._wait(future, timeout)

    async def call_in_place(self, function: Callable[[], Any], *, timeout: float) -> Outcome:
        """As `call`, for whoever drives by hand and waits for nothing else: one that is not quick moves to the loop."""
        loop = hall()
        started = perf_counter()
        future: asyncio.Future[Outcome] = loop.create_future()
        waits = self._last_was_quick
        if waits:
            self._waits.append(None)
        self._jobs.append((future, function, copy_context()))
        self._call_in_threads(loop)
        try:
            if waits:
                self._wait_in_place(min(timeout, _QUICK_SECONDS))
            if not future.done():
                await move_to_loop()
        except BaseException:
            self._leave_behind(future)
            raise
        return future.result() if future.done() else await self._wait(future, timeout - (perf_counter() - started))

    async def _wait(self, future: "asyncio.Future[Outcome]", timeout: float) -> Outcome:
        loop = future.get_loop()
        begun = loop.time()
        self._deadlines[future] = (begun, begun + timeout)
        if not self._watching:
            self._watching = True
            self._watch_again(loop)
        try:
            return await future
        except BaseException:
            self._leave_behind(future)
            raise
        finally:
            del self._deadlines[future]

    def _leave_behind(self, future: "asyncio.Future[Outcome]") -> None:
        """Nobody waits for this call any more, but its thread is still taken."""
        future.cancel()
        self.abandoned += 1

    def _wait_in_place(self, seconds: float) -> None:
        """Until the answer is there; but not for long, since the agent may need the loop to answer."""
        rang = False
        try:
            rang = self._bell.acquire(timeout=seconds)
        finally:
            if not rang and not self._took_wait():
                # It rings just now; or it did, and Ctrl-C came before it was heard.
                self._bell.acquire(timeout=_QUICK_SECONDS)
        self._deliver()

    def _took_wait(self) -> bool:
        try:
            self._waits.pop()
        except IndexError:
            return False
        return True

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the calls that took too long. One timer for all: a timer for each would cost more than a quick call."""
        self._deliver()
        now = loop.time()
        held = now - self._watch_due
        if held > _WATCH_SECONDS:
            # Something else held the loop, such as an evaluator that blocks: that is on nobody's clock.
            self._deadlines = {
                future: (begun, deadline + min(held, now - begun))
                for future, (begun, deadline) in self._deadlines.items()
            }
        for future, (_, deadline) in self._deadlines.items():
            if deadline <= now and not future.done():
                future.set_exception(TimeoutError())
        self._watching = bool(self._deadlines)
        if self._watching:
            self._watch_again(loop)

    def _watch_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watch_due = loop.time() + _WATCH_SECONDS
        loop.call_later(_WATCH_SECONDS, self._watch, loop)

    def _summon_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake a thread when the loop has come round: until then it would only wait for its turn in Python."""
        if not self._summon_pending:
            self._summon_pending = True
            loop.call_soon(self._summon_for_all, loop)

    def _summon_for_all(self, loop: asyncio.AbstractEventLoop) -> None:
        self._summon_pending = False
        for _ in range(len(self._jobs)):
            self._call_in_threads(loop)
            if self._help_pending:
                break

    def _call_in_threads(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._leavers:
            self._leavers.popleft()
            self._summoned -= 1
        if self._summoned == 0 or not self._last_was_quick:
            self._summon(loop)
        elif not self._help_pending:
            self._help_pending = True
            loop.call_later(_PATIENCE_SECONDS, self._help, loop)

    def _summon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let one more thread look for jobs."""
        self._summoned += 1
        if self._summoned > self._threads:
            self._threads += 1
            name = f"seatrial-agent-{self._threads}"
            threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()
        self._summons.put(True)

    def _help(self, loop: asyncio.AbstractEventLoop) -> None:
        """Jobs that wait behind calls that block get a thread each.

        A call blocks when it was there the last time, too: one that is merely old may have waited for the loop.
        """
        now = perf_counter()
        before, self._in_calls = self._in_calls, dict(self._begun)
        blocked = sum(
            before.get(thread) == begun and now - begun >= _QUICK_SECONDS for thread, begun in self._in_calls.items()
        )
        if blocked >= self._summoned - len(self._leavers) and not self._summon_pending:
            for _ in range(len(self._jobs)):
                self._summon(loop)
        self._help_pending = bool(self._jobs)
        if self._help_pending:
            loop.call_later(_PATIENCE_SECONDS, self._help, loop)
        self._deliver()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        me = threading.get_ident()
        while self._summons.get():
            while self._jobs:
                try:
                    future, function, context = self._jobs.popleft()
                except IndexError:
                    break  # another thread was quicker
                self._begun[me] = started = perf_counter()
                outcome = Outcome() if future.done() else context.run(attempt, function)
                self._answers_quickly = self._last_was_quick = perf_counter() - started < _QUICK_SECONDS
                del self._begun[me]
                self._done.append((future, outcome))
                if self._waits and self._took_wait():
                    self._bell.release()
                    continue
                # One wake-up serves all results that are there when the loop comes round: it is a system call. While
                # more jobs wait, and the loop will look by itself, it is not woken yet: it would wait for this thread.
                if not self._wake_pending and not (self._help_pending and self._jobs):
                    self._wake_pending = True
                    try:
                        loop.call_soon_threadsafe(self._deliver)
                    except RuntimeError:
                        return  # the run is over: nobody waits for this any more
            self._leavers.append(None)

    def _deliver(self) -> None:
        self._wake_pending = False
        while self._done:
            future, outcome = self._done.popleft()
            if future.done():
                self.abandoned -= 1
            else:
                future.set_result(outcome)

    def close(self) -> None:
        """Let idle threads end; those still in a call end with the process."""
        for _ in range(self._threads):
            self._summons.put(False)

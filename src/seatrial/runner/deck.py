"""Where plain trials are played from beginning to end: threads of our own, without an event loop.

On the loop, such a trial would go to a thread for each call of its agent and come back. Waking a thread takes longer
than a quick agent takes to answer, so here the whole trial is played in the thread, and the loop hears of many at once.
Timeouts hold all the same: while its agent is called a trial stands still, so that the loop can go on with it and leave
the thread behind (see `seatrial.by_hand`). The threads are daemons: one that never comes back keeps no process alive.

While agents answer quickly one thread plays all there are. More are called in when trials begin to wait: at once where
the last calls were slow, else when every thread has been in one call for a while. There are never more of them than
workers of the run that wait here, each of whom stands for one trial under way.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Literal

from seatrial.by_hand import ForeignCall, attempt, go_on, work_for
from seatrial.vocabulary.run import Trial

from .plan import Job

Playing = Coroutine[Any, Any, Trial]
"""A trial under way."""

_AHEAD = 100
"""How many trials may wait for a quick agent."""
_QUICK_SECONDS = 0.001
_PATIENCE_SECONDS = 0.002
_WATCH_SECONDS = 0.02
"""How late a timeout may be noticed."""
_FLUKE = 1
"""So many slow calls in a row say nothing: a single one may have waited for its turn in Python."""


class _InCall:
    """A trial whose agent is being called. Whoever takes it from the deck's list goes on with it."""

    __slots__ = ("begun", "deadline", "job", "trial")

    def __init__(self, job: Job, trial: Playing, timeout: float) -> None:
        self.job = job
        self.trial = trial
        self.begun = perf_counter()
        self.deadline = self.begun + timeout


class Deck:
    """Plays trials for the event loop it is made on.

    `play` makes the coroutine of a trial; `finished` is told of each that is over, on the loop.
    """

    def __init__(self, play: Callable[[Job], Playing], finished: Callable[[Job, Trial], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        """Agents see the variables of whoever runs them."""
        self._context.run(work_for, self._loop)
        self._play = play
        self._finished = finished
        self._jobs: deque[Job] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Those who stand for a trial each."""
        self._on_loop: set[asyncio.Task[None]] = set()
        """Trials that the loop goes on with."""
        self._begin_pending = False
        self._watching = False
        self._watch_due = 0.0
        self._closed = False
        self.abandoned = 0
        """Calls that took too long and were left behind."""
        # Threads put something in, the loop takes it out; numbers change on the loop alone.
        self._done: deque[tuple[Job, Trial]] = deque()
        self._moving: deque[tuple[Job, Playing]] = deque()
        self._broken: deque[BaseException] = deque()
        self._leavers: deque[None] = deque()
        """One for each thread that found no more jobs."""
        self._summons: SimpleQueue[bool] = SimpleQueue()
        """One True for each thread that shall look for jobs; False ends the thread that takes it."""
        self._summoned = 0
        """Threads that look for jobs, or are in one."""
        self._threads = 0
        self._in_calls: dict[int, _InCall] = {}
        self._seen: dict[int, _InCall] = {}
        """The same, when it was last looked at."""
        self._answers_quickly = False
        """Known of an agent once it did."""
        self._slow_calls = 0
        """In a row."""

    # The loop's side.

    @property
    def wants_more(self) -> bool:
        """Whether trials may be added that nobody stands for: they are played one after the other."""
        return self._answers_quickly and self._slow_calls <= _FLUKE and len(self._jobs) < _AHEAD

    @property
    def needs_hands(self) -> bool:
        """Whether there are trials that nobody stands for."""
        return len(self._waiting) < self._trials

    @property
    def _trials(self) -> int:
        """Those under way or about to be."""
        return self._summoned + len(self._on_loop) + len(self._jobs)

    def add(self, job: Job) -> None:
        self._jobs.append(job)

    async def wait(self) -> None:
        """Stand for one trial; return when there is none left to stand for."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        if not self._begin_pending:
            # Once all have come who are about to: one thread may do for them all.
            self._begin_pending = True
            self._loop.call_soon(self._begin)
        await future

    def _begin(self) -> None:
        self._begin_pending = False
        self._call_in()
        if not self._watching:
            self._watching = True
            self._watch_again()

    def _call_in(self) -> None:
        if self._slow_calls > _FLUKE:
            self._summon_for_all()
        elif self._jobs and self._summoned == 0:
            self._summon()

    def _summon_for_all(self) -> None:
        for _ in range(len(self._jobs)):
            self._summon()

    def _summon(self) -> None:
        """Let one more thread look for jobs, unless there are as many as may be."""
        if not self._may_summon:
            return
        self._summoned += 1
        if self._summoned > self._threads:
            self._threads += 1
            name = f"seatrial-agent-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._summons.put(True)

    @property
    def _may_summon(self) -> bool:
        return self._summoned + len(self._on_loop) < len(self._waiting)

    def _watch_again(self) -> None:
        is_quick = self._answers_quickly and not self._slow_calls
        seconds = _PATIENCE_SECONDS if self._jobs and self._may_summon and not is_quick else _WATCH_SECONDS
        self._watch_due = perf_counter() + seconds
        self._loop.call_later(seconds, self._watch)

    def _watch(self) -> None:
        """End the calls that took too long, and give trials that wait behind calls that block a thread each."""
        if self._closed:
            return
        now = perf_counter()
        held = now - self._watch_due
        before, self._seen = self._seen, dict(self._in_calls)
        blocked = 0
        for thread, call in self._seen.items():
            if held > _WATCH_SECONDS:
                # Something else held the loop, such as an evaluator that blocks: that is on nobody's clock.
                call.deadline += held
            if call.deadline <= now and self._in_calls.pop(thread, None) is not None:
                self._leave_behind(call)
            elif before.get(thread) is call and now - call.begun >= _QUICK_SECONDS:
                # It was there the last time, too: one that is merely old may have waited for the loop.
                blocked += 1
        self._deliver()
        if blocked >= self._summoned:
            self._summon_for_all()
        self._watching = self._summoned > 0
        if self._watching:
            self._watch_again()

    def _leave_behind(self, call: _InCall) -> None:
        """Go on with a trial whose agent took too long. Its thread ends when the agent comes back, if ever."""
        self.abandoned += 1
        self._summoned -= 1
        self._threads -= 1
        self._go_on(call.job, call.trial, raising=TimeoutError())

    def _go_on(self, job: Job, trial: Playing, *, raising: BaseException | None = None) -> None:
        task = self._loop.create_task(self._play_on(job, trial, raising), context=self._context.copy())
        self._on_loop.add(task)
        task.add_done_callback(self._let_go)

    async def _play_on(self, job: Job, trial: Playing, raising: BaseException | None) -> None:
        self._done.append((job, await go_on(trial, raising=raising)))

    def _let_go(self, task: "asyncio.Task[None]") -> None:
        self._on_loop.discard(task)
        if not task.cancelled() and (raised := task.exception()) is not None:
            self._broken.append(raised)
        self._deliver()

    def _deliver(self) -> None:
        """Take what the threads have for the loop, and let those go who have no trial to stand for."""
        if self._closed:
            return
        while self._leavers:
            self._leavers.popleft()
            self._summoned -= 1
        while self._done:
            try:
                self._finished(*self._done.popleft())
            except Exception as broken:  # whoever waits raises it: nobody would hear of it here
                self._broken.append(broken)
        while self._moving:
            self._go_on(*self._moving.popleft())
        self._call_in()
        trials = self._trials
        while self._waiting and (self._broken or len(self._waiting) > trials):
            future = self._waiting.popleft()
            if future.done():
                continue
            if self._broken:
                future.set_exception(self._broken.popleft())
                return
            future.set_result(None)

    def close(self) -> "set[asyncio.Task[None]]":
        """Begin nothing more, and end what is under way: the tasks that do, for whoever wants to wait for them."""
        self._closed = True
        self._jobs.clear()
        for task in self._on_loop:
            task.cancel()
        for thread in list(self._in_calls):
            call = self._in_calls.pop(thread, None)
            if call is not None:
                self._go_on(call.job, call.trial, raising=asyncio.CancelledError())
        for _ in range(self._threads):
            self._summons.put(False)
        return set(self._on_loop)

    # The threads' side.

    def _work(self) -> None:
        while self._summons.get():
            while self._jobs:
                try:
                    job = self._jobs.popleft()
                except IndexError:
                    break  # another thread was quicker
                try:
                    left = self._context.copy().run(self._drive, job)
                except BaseException as broken:  # whoever waits on the loop raises it
                    self._broken.append(broken)
                    break
                if left == "behind":
                    return
                if left == "to the loop":
                    break  # it is still under way: whether another may be begun is known there
                if self._jobs and self._slow_calls > _FLUKE:
                    self._tell_loop()
            self._leavers.append(None)
            self._tell_loop()

    def _drive(self, job: Job) -> Literal["behind", "to the loop"] | None:
        """Play the trial as far as it can be played here. Where it is not over: whether it is we who were left behind,
        or it is left to the loop."""
        me = threading.get_ident()
        trial = self._play(job)
        answer: Any = None
        while True:
            try:
                asked = trial.send(answer)
            except StopIteration as end:
                self._done.append((job, end.value))
                return None
            if isinstance(asked, ForeignCall):
                call = self._in_calls[me] = _InCall(job, trial, asked.timeout)
                answer = copy_context().run(attempt, asked.function)
                if self._in_calls.pop(me, None) is None:
                    return "behind"
                self._slow_calls = 0 if perf_counter() - call.begun < _QUICK_SECONDS else self._slow_calls + 1
                self._answers_quickly = self._answers_quickly or not self._slow_calls
            else:
                self._moving.append((job, trial))
                return "to the loop"

    def _tell_loop(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            return  # the run is over: nobody waits for this any more

"""Where async agents run: an event loop of their own, in a daemon thread, apart from the runner's.

An agent that blocks its loop must neither outlive its own timeout nor make others time out. So the loop keeps account
of who holds it: the time that *other* agents held it is taken off an agent's clock. When an agent overruns while
holding the loop, the loop cannot be saved: it is left behind, the culprit has timed out, and the trials that shared
the loop are told to begin again on a fresh one (PlayAgain).
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from time import perf_counter
from types import coroutine
from typing import Any

from seatrial.vocabulary.failures import PlayAgain

from .outcome import Outcome

_GRACE_SECONDS = 1.0


class _Call:
    """One agent call on the agents' loop."""

    __slots__ = ("deadline_timer", "future", "held", "others_at_start", "started", "task", "timeout")

    def __init__(self, future: "asyncio.Future[Outcome]", timeout: float) -> None:
        self.future = future
        self.timeout = timeout
        self.started = 0.0
        self.held = 0.0
        self.others_at_start = 0.0
        self.task: asyncio.Task[None] | None = None
        self.deadline_timer: asyncio.TimerHandle | None = None


class AgentLoop:
    """Runs coroutines of agents for the runner's loop."""

    def __init__(self) -> None:
        self._hall: asyncio.AbstractEventLoop | None = None
        self._stage: _Stage | None = None
        self.abandoned = 0

    async def call(self, make: Callable[[], Awaitable[Any]], *, timeout: float) -> Outcome:
        """What the coroutine returned or raised. Raises TimeoutError, or PlayAgain when another blocked the loop."""
        self._hall = asyncio.get_running_loop()
        if self._stage is None:
            self._stage = _Stage(self._hall)
        stage = self._stage
        call = _Call(self._hall.create_future(), timeout)
        stage.submit(call, make)
        call.deadline_timer = self._hall.call_later(timeout, self._check_deadline, stage, call)
        try:
            return await call.future
        except BaseException:
            stage.cancel(call)
            raise
        finally:
            call.deadline_timer.cancel()

    def _check_deadline(self, stage: "_Stage", call: _Call) -> None:
        if call.future.done():
            return
        assert self._hall is not None
        remaining = call.timeout - stage.time_on(call)
        if remaining > 0.001:
            call.deadline_timer = self._hall.call_later(remaining, self._check_deadline, stage, call)
            return
        call.future.set_exception(TimeoutError())
        if stage.holder is call:
            self._leave_behind(stage)
        else:
            self._hall.call_later(_GRACE_SECONDS, self._check_answering, stage, call)

    def _check_answering(self, stage: "_Stage", call: _Call) -> None:
        """A cancelled call that does not end, on a loop that does not answer: something untracked blocks it."""
        if stage is self._stage and call in stage.calls and not stage.answered_since(call):
            self._leave_behind(stage)

    def _leave_behind(self, stage: "_Stage") -> None:
        self.abandoned += 1
        if stage is self._stage:
            self._stage = None
        for call in list(stage.calls):
            if not call.future.done():
                call.future.set_exception(
                    PlayAgain("another agent blocked the event loop that this trial shared with it")
                )

    def close(self) -> None:
        if self._stage is not None:
            self._stage.stop()
            self._stage = None


class _Stage:
    """One loop in one daemon thread, and the account of who holds it."""

    def __init__(self, hall: asyncio.AbstractEventLoop) -> None:
        self._hall = hall
        self._loop = asyncio.new_event_loop()
        self._arrivals: deque[tuple[_Call, Callable[[], Awaitable[Any]]]] = deque()
        self._results: deque[tuple[_Call, Outcome]] = deque()
        self._arrival_pending = False
        self._result_pending = False
        self._stopped = False
        self.calls: set[_Call] = set()
        self.holder: _Call | None = None
        self._held_since = 0.0
        self._held_by_all = 0.0
        self._last_step = 0.0
        threading.Thread(target=self._run, name="seatrial-agent-loop", daemon=True).start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._stopped:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # sys.exit() in a task of the agent's own ends run_forever; the loop is still good.
                continue
        self._loop.close()

    # The runner's side.

    def submit(self, call: _Call, make: Callable[[], Awaitable[Any]]) -> None:
        call.started = perf_counter()
        call.others_at_start = self._held_by_all
        self.calls.add(call)
        self._arrivals.append((call, make))
        if not self._arrival_pending:
            self._arrival_pending = True
            self._loop.call_soon_threadsafe(self._begin)

    def time_on(self, call: _Call) -> float:
        """Seconds on this call's clock: those in which others held the loop do not count."""
        now = perf_counter()
        holder, since = self.holder, self._held_since
        running = now - since if holder is not None else 0.0
        held_by_all = self._held_by_all + running
        held_by_call = call.held + (running if holder is call else 0.0)
        others = (held_by_all - call.others_at_start) - held_by_call
        return now - call.started - others

    def answered_since(self, call: _Call) -> bool:
        return self._last_step > perf_counter() - _GRACE_SECONDS and self.holder is not call

    def cancel(self, call: _Call) -> None:
        self._loop.call_soon_threadsafe(self._cancel, call)

    def stop(self) -> None:
        self._stopped = True
        self._loop.call_soon_threadsafe(self._loop.stop)

    # The agents' side.

    def _begin(self) -> None:
        self._arrival_pending = False
        while self._arrivals:
            call, make = self._arrivals.popleft()
            if not call.future.done():
                call.task = self._loop.create_task(self._perform(call, make))

    def _cancel(self, call: _Call) -> None:
        self._last_step = perf_counter()
        if call.task is not None:
            call.task.cancel()
        self.calls.discard(call)

    async def _perform(self, call: _Call, make: Callable[[], Awaitable[Any]]) -> None:
        try:
            outcome = Outcome(await self._tracked(call, make))
        except BaseException as raised:
            outcome = Outcome(None, raised)
        self._results.append((call, outcome))
        if not self._result_pending:
            self._result_pending = True
            try:
                self._hall.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                return

    @coroutine
    def _tracked(self, call: _Call, make: Callable[[], Awaitable[Any]]) -> Generator[Any, Any, Any]:
        """Drive the agent's coroutine step by step, so that it is known who holds the loop, and for how long."""
        with _Holding(self, call):
            steps = _steps(make())
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            try:
                with _Holding(self, call):
                    waiting_for = steps.send(sent) if thrown is None else steps.throw(thrown)
            except StopIteration as end:
                return end.value
            sent = thrown = None
            try:
                sent = yield waiting_for
            except BaseException as exception:
                thrown = exception

    def _deliver(self) -> None:
        self._result_pending = False
        while self._results:
            call, outcome = self._results.popleft()
            self.calls.discard(call)
            if not call.future.done():
                call.future.set_result(outcome)


class _Holding:
    """While inside, the call holds the loop."""

    __slots__ = ("_call", "_stage")

    def __init__(self, stage: _Stage, call: _Call) -> None:
        self._stage, self._call = stage, call

    def __enter__(self) -> None:
        self._stage._held_since = perf_counter()
        self._stage.holder = self._call

    def __exit__(self, *_: object) -> None:
        now = perf_counter()
        spent = now - self._stage._held_since
        self._stage.holder = None
        self._stage._last_step = now
        self._stage._held_by_all += spent
        self._call.held += spent


def _steps(awaitable: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    if isinstance(awaitable, Coroutine):
        return awaitable

    async def wait() -> Any:
        return await awaitable

    return wait()

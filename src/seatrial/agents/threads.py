"""Where sync agents run: daemon threads of our own.

`concurrent.futures` joins its threads when the interpreter ends, so one agent that never returns would keep the process
alive for ever. These threads are daemons; a call that overruns is abandoned where it stands, and counted.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

from .outcome import Outcome, attempt

_Job = tuple["asyncio.Future[Outcome]", Callable[[], Any], Context]


class AgentThreads:
    """Runs blocking calls for one event loop; as many threads as calls in flight."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._done: deque[tuple[asyncio.Future[Outcome], Outcome]] = deque()
        self._wake_pending = False
        self._threads = 0
        self._busy = 0
        self.abandoned = 0

    async def call(self, function: Callable[[], Any], *, timeout: float) -> Outcome:
        """What the function returned or raised. Raises TimeoutError when it takes too long; it then goes on unheard."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._busy += 1
        if self._busy > self._threads:
            self._start_thread(loop)
        self._jobs.put((future, function, copy_context()))
        timer = loop.call_later(timeout, _expire, future)
        try:
            return await future
        except BaseException:
            # Nobody waits for this call any more, but its thread is still taken.
            self.abandoned += 1
            raise
        finally:
            timer.cancel()

    def _start_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._threads += 1
        name = f"seatrial-agent-{self._threads}"
        threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._jobs.get()) is not None:
            future, function, context = job
            self._done.append((future, context.run(attempt, function)))
            # One wake-up serves all results that are there when the loop comes round: a wake-up is a system call.
            if not self._wake_pending:
                self._wake_pending = True
                try:
                    loop.call_soon_threadsafe(self._deliver)
                except RuntimeError:
                    return  # the run is over: nobody waits for this any more

    def _deliver(self) -> None:
        self._wake_pending = False
        while self._done:
            future, outcome = self._done.popleft()
            self._busy -= 1
            if future.done():
                self.abandoned -= 1
            else:
                future.set_result(outcome)

    def close(self) -> None:
        """Let idle threads end; those still in a call end with the process."""
        for _ in range(self._threads):
            self._jobs.put(None)


def _expire(future: "asyncio.Future[Outcome]") -> None:
    if not future.done():
        future.set_exception(TimeoutError())

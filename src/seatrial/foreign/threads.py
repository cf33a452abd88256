"""Daemon threads for sync user code.

`concurrent.futures` joins its threads when the interpreter ends, so one function that never returns would keep the
process alive. A call here never waits for another: when all threads are busy, a new one is started.
"""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from itertools import count
from queue import SimpleQueue
from typing import Any

from .outcome import Outcome, attempt

_Work = Callable[[], None]


class DaemonThreads:
    """As many threads as calls are under way at once; idle threads are used again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[SimpleQueue[_Work | None]] = []
        self._numbers = count(1)
        self._closed = False
        self.abandoned = 0
        """Calls that nobody waits for any more, and that have not returned."""

    async def call(self, function: Callable[[], Any]) -> Outcome:
        """What the function returns or raises. Cancelling this leaves the function running, unheard."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        context = copy_context()

        def work() -> None:
            outcome = context.run(attempt, function)
            try:
                loop.call_soon_threadsafe(self._deliver, future, outcome)
            except RuntimeError:
                return  # the loop has closed, so nobody waits for this

        self._submit(work)
        try:
            return await future
        except BaseException:
            self.abandoned += 1
            raise

    def _deliver(self, future: "asyncio.Future[Outcome]", outcome: Outcome) -> None:
        if future.done():
            self.abandoned -= 1
        else:
            future.set_result(outcome)

    def _submit(self, work: _Work) -> None:
        try:
            queue = self._idle.pop()
        except IndexError:
            queue = SimpleQueue()
            name = f"{self._name}-{next(self._numbers)}"
            threading.Thread(target=self._serve, args=(queue,), name=name, daemon=True).start()
        queue.put(work)

    def _serve(self, queue: "SimpleQueue[_Work | None]") -> None:
        while (work := queue.get()) is not None:
            work()
            del work  # a trial that is over must not stay in memory until the next one comes
            if self._closed:
                return
            self._idle.append(queue)

    def close(self) -> None:
        """End idle threads now, and busy ones when their call returns."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)

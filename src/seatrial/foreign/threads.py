"""Daemon threads for sync user code, and `attempt`, which catches every exception and ends forked children."""

import asyncio
import os
import threading
import traceback
from collections.abc import Callable
from contextvars import copy_context
from itertools import count
from queue import SimpleQueue
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """The value or the exception of a call."""

    value: Any = None
    raised: BaseException | None = None


def attempt(function: Callable[[], Any]) -> Outcome:
    """Call user code and catch all exceptions, also `sys.exit()`."""
    process = os.getpid()
    try:
        outcome = Outcome(function())
    except BaseException as raised:
        outcome = Outcome(None, raised)
    end_forked_child(outcome, process)
    return outcome


def end_forked_child(outcome: Outcome, process: int) -> None:
    """End this process if user code forked it from `process`.

    Otherwise the child would run the remaining trials again, and then wait for ever.
    """
    if os.getpid() == process:
        return
    raised = outcome.raised
    if isinstance(raised, SystemExit):
        code = raised.code if isinstance(raised.code, int) else int(raised.code is not None)
        os._exit(code & 0xFF)
    if raised is not None:
        traceback.print_exception(raised)
    os._exit(0 if raised is None else 1)


_Work = Callable[[], None]


class DaemonThreads:
    """One thread for each running call; idle threads are used again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[SimpleQueue[_Work | None]] = []
        self._numbers = count(1)
        self._closed = False
        self.abandoned = 0
        """Calls that timed out and have not returned yet."""

    async def call(self, function: Callable[[], Any]) -> Outcome:
        """The outcome of the function. If this is cancelled, the function still runs to its end."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        context = copy_context()

        def work() -> None:
            outcome = context.run(attempt, function)
            try:
                loop.call_soon_threadsafe(self._deliver, future, outcome)
            except RuntimeError:
                return  # the loop has closed: the result is not needed

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
            del work  # free the memory of a finished trial
            if self._closed:
                return
            self._idle.append(queue)

    def close(self) -> None:
        """End idle threads now, and busy ones when their call returns."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)

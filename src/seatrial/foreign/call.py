"""`call` runs a function of user code with a time limit and catches all exceptions."""

import asyncio
import inspect
import os
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

from seatrial.errors import SeatrialError

from .event_loop import AsyncCalls
from .import_path import OUR_FOLDER, find_place
from .threads import DaemonThreads, Outcome


class ForeignError(SeatrialError):
    """User code raised. The text is like `ValueError: text`."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(describe(raised))
        self.raised = raised

    @property
    def traceback(self) -> str:
        """The traceback without our own frames."""
        shown = traceback.TracebackException.from_exception(self.raised)
        while shown.stack and shown.stack[0].filename.startswith(OUR_FOLDER):
            shown.stack.pop(0)
        return "".join(shown.format()).rstrip()

    @property
    def place(self) -> str | None:
        """File, line and function of the last line of the user's own code; None if it is not known."""
        return find_place(self.raised)


def describe(raised: BaseException) -> str:
    """The type and the text of an exception: `ValueError: text`."""
    try:
        text = str(raised)
    except Exception as broken:  # the text of an exception is user code too
        text = f"(its text cannot be shown: {type(broken).__name__})"
    return f"{type(raised).__name__}: {text}" if text else type(raised).__name__


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine, also for objects with an async `__call__`."""
    behind = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(behind)


class ForeignCode:
    """Runs one kind of user code: sync functions in daemon threads, async functions on one event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._users = 0
        self._lock = threading.Lock()
        self._start()

    def _start(self) -> None:
        self._threads = DaemonThreads(f"seatrial-{self._name}")
        self._async_calls = AsyncCalls(f"seatrial-{self._name}-loop")

    async def call(self, function: Callable[..., Any], *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        """What the function returns. If a sync function returns an awaitable, it is awaited in the same time limit.

        Raises ForeignError if the function raises, TimeoutError after `timeout` seconds, and LoopBlocked when other
        async code blocked the event loop and did not return.
        """
        bound = partial(function, *args, **kwargs) if args or kwargs else function
        started = perf_counter()
        if is_async(function):
            return _value(await self._async_calls.call(bound, timeout=timeout))
        async with asyncio.timeout(timeout):
            outcome = await self._threads.call(bound)
        value = _value(outcome)
        if not inspect.isawaitable(value):
            return value
        left = None if timeout is None else timeout - (perf_counter() - started)
        return _value(await self._async_calls.call(_awaiting(value), timeout=left))

    @property
    def abandoned(self) -> int:
        """The number of calls that timed out and still run."""
        return self._threads.abandoned + self._async_calls.abandoned

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Use it in a run. When the last run ends, idle threads end and remaining tasks are cancelled."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self.close()

    def close(self) -> None:
        self._threads.close()
        self._async_calls.close()
        self._start()

    def forget(self) -> None:
        """Start again in a forked child: threads do not survive a fork."""
        self._lock = threading.Lock()
        self._start()


def _awaiting(awaitable: Awaitable[Any]) -> Callable[[], Awaitable[Any]]:
    async def wait() -> Any:
        return await awaitable

    return wait


def _value(outcome: Outcome) -> Any:
    if outcome.raised is not None:
        raise ForeignError(outcome.raised) from None
    return outcome.value


AGENTS = ForeignCode("agent")
_INSTRUMENTS = ForeignCode("instrument")
"""Mocks, evaluators, hooks, users. Not on the loop of agents: an agent may block it until an async mock answers."""

call = _INSTRUMENTS.call

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=AGENTS.forget)
    os.register_at_fork(after_in_child=_INSTRUMENTS.forget)


@contextmanager
def in_use() -> Iterator[None]:
    """Use user code of any kind in a run."""
    with AGENTS.in_use(), _INSTRUMENTS.in_use():
        yield

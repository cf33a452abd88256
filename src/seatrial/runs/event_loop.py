"""Event loops for runs, and signals that cancel a run so that it can store its finished trials."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from seatrial.errors import SeatrialError

T = TypeVar("T")

_SIGNAL_SECONDS = 0.5
"""How late a signal may be handled while a thread waits for a coroutine."""


def run_until_complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine on a new event loop; in a thread if this thread has a running loop, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_here(coroutine)
    return _run_in_thread(coroutine)


def _run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Ctrl-C is raised in this thread; it cancels the coroutine in the other one and waits for its end."""
    results: list[tuple[T | None, BaseException | None]] = []
    cancels: list[Callable[[], object]] = []
    started, ended = threading.Event(), threading.Event()

    async def cancellable() -> T:
        task = asyncio.current_task()
        assert task is not None
        cancels.append(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
        started.set()
        return await coroutine

    def work() -> None:
        try:
            results.append((_run_here(cancellable()), None))
        except BaseException as error:
            results.append((None, error))
        finally:
            started.set()
            ended.set()

    # A daemon, so that the process can end after a second Ctrl-C. It is not joined: after an interrupted join, Python
    # believes that the thread has ended.
    threading.Thread(target=work, daemon=True).start()
    try:
        ended.wait()
    except KeyboardInterrupt:
        started.wait()
        for cancel in cancels:
            with suppress(RuntimeError):  # its loop is closed: the coroutine has ended
                cancel()
        ended.wait()
    result, error = results[0]
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        with asyncio.Runner() as runner, _Interrupts(runner.get_loop()) as interrupts:
            try:
                return runner.run(interrupts.watch(coroutine))
            except KeyboardInterrupt:
                # The second Ctrl-C. Tracebacks of the tasks that it stops would not help.
                runner.get_loop().set_exception_handler(lambda loop, context: None)
                raise
            except RuntimeError:
                if interrupts.count < 2:
                    raise
                runner.get_loop().set_exception_handler(lambda loop, context: None)
                raise KeyboardInterrupt from None
    except SystemExit as left:
        # Python would exit with the given code, and 0 would look like a pass.
        raise SeatrialError(
            f"code of this run called sys.exit({left.code!r}), so there is no verdict; "
            "look for it in evaluators, setup, teardown and signal handlers"
        ) from None


class _Interrupts:
    """Ctrl-C while a loop runs: the first cancels the task, the second stops the loop, the third raises at once.

    asyncio's own handler raises KeyboardInterrupt at the second, wherever the loop is. That can lose the callback that
    a task waits for, and then the loop waits forever.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[Any] | None = None
        self._installed = False
        self.count = 0

    def __enter__(self) -> "_Interrupts":
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)
            self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    async def watch(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result. Raises KeyboardInterrupt if Ctrl-C cancelled it."""
        self._task = asyncio.current_task()
        try:
            return await coroutine
        except asyncio.CancelledError:
            if self.count == 1:
                raise KeyboardInterrupt from None
            raise

    def _interrupt(self, *_: object) -> None:
        self.count += 1
        if self._task is None or self.count > 2:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._task.cancel if self.count == 1 else self._loop.stop)


def cancel_on_sigterm() -> Callable[[], object]:
    """Let SIGTERM cancel the current task, as Ctrl-C does. Returns a function that removes the handler.

    Does nothing outside the main thread, or if the process has a SIGTERM handler, such as a server's: a loop keeps only
    one handler.
    """
    task = asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():
        return lambda: None
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    except (NotImplementedError, RuntimeError, ValueError):
        return lambda: None
    return partial(loop.remove_signal_handler, signal.SIGTERM)


class LoopThread:
    """Runs coroutines for other threads, all on one event loop, until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="seatrial-loop", daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start the coroutine; cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result. Ctrl-C cancels it, waits for its end and is then raised."""
        ended = threading.Event()

        async def run() -> T:
            try:
                return await coroutine
            finally:
                ended.set()

        future = self.start(run())
        try:
            # A signal that arrives just before a wait without a timeout is handled only after the wait.
            while not wait([future], timeout=_SIGNAL_SECONDS).done:
                pass
            return future.result()
        except (KeyboardInterrupt, SystemExit):
            if future.cancel():
                ended.wait()
            raise

    def close(self) -> None:
        """Cancel the remaining tasks and close the loop."""
        if self._loop.is_closed():
            return
        self.wait(_cancel_others())
        self.wait(self._loop.shutdown_asyncgens())
        self.wait(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=5.0)

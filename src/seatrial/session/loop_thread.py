"""One event loop for a caller that has none, or that has one it must not wait on."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

from seatrial.by_hand import go_on, work_for

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads, all on one loop, until it is closed.

    The thread is started only when somebody cannot wait, because a loop of theirs is running. Until then whoever waits
    runs the loop, or does without: handing work to a thread and back would cost more than most of the work.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None

    def start(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """What the coroutine will come to; cancelling it cancels the coroutine."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop.run_forever, name="seatrial-loop", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(_without_exits(coroutine), self._loop)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine comes to. Ctrl-C ends it in good order first, and is raised then."""
        return self._wait_here(coroutine) if self._thread is None and _is_free() else self._wait_there(coroutine)

    def drive(self, coroutine: Coroutine[Any, Any, T], *, before_waiting: Callable[[], None]) -> T:
        """As `wait`, for a coroutine that needs no loop until it asks to be moved to one (see `seatrial.by_hand`).

        `before_waiting` is called here before anything is waited for that may take its time.
        """
        if self._thread is not None or not _is_free():
            before_waiting()
            return self._wait_there(coroutine)
        try:
            copy_context().run(self._begin, coroutine)
        except StopIteration as end:
            found: T = end.value
            return found
        before_waiting()
        return self._wait_here(go_on(coroutine))

    def _begin(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        work_for(self._loop)
        coroutine.send(None)

    def _wait_here(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = self._loop.create_task(self._play(coroutine))
        try:
            self._run_until_done(task)
        except (KeyboardInterrupt, SystemExit):
            task.cancel()
            self._run_until_done(task)
            if not task.cancelled():
                task.exception()  # it is raised here, so nobody need be told that it was lost
            raise
        return task.result()

    def _run_until_done(self, task: "asyncio.Task[T]") -> None:
        """As `run_until_complete` does, which needs the loop to come round once more than a task that stops it."""
        while not task.done():
            self._loop.run_forever()

    async def _play(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return await _without_exits(coroutine)
        finally:
            self._loop.stop()

    def _wait_there(self, coroutine: Coroutine[Any, Any, T]) -> T:
        ending = threading.Event()

        async def ended() -> T:
            try:
                return await coroutine
            finally:
                ending.set()

        future = self.start(ended())
        try:
            return future.result()
        except (KeyboardInterrupt, SystemExit):
            if future.cancel():
                ending.wait()
            raise

    def close(self) -> None:
        """End the loop; what is still on it is cancelled."""
        if self._loop.is_closed():
            return
        self.wait(_cancel_others())
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


def _is_free() -> bool:
    """Whether no loop is running in this thread, so that another may."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False


async def _without_exits(coroutine: Coroutine[Any, Any, T]) -> T:
    """A SystemExit would end the loop and leave whoever waits waiting for ever."""
    try:
        return await coroutine
    except SystemExit as left:
        raise RuntimeError(
            f"something that takes part in the trial called sys.exit({left.code!r}), so there is no verdict; "
            "look for it in evaluators, setup and teardown"
        ) from left


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=5.0)

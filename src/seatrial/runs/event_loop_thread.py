"""An event loop in a thread, for sync callers, and for callers whose own loop must not wait."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for other threads, all on one event loop, until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="seatrial-loop", daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """What the coroutine will return; cancelling it cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns. Ctrl-C ends it in good order first, and is raised then."""
        ended = threading.Event()

        async def run() -> T:
            try:
                return await coroutine
            finally:
                ended.set()

        future = self.start(run())
        try:
            return future.result()
        except (KeyboardInterrupt, SystemExit):
            if future.cancel():
                ended.wait()
            raise

    def close(self) -> None:
        """End the loop; what is still on it is cancelled."""
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

"""Work that may take longer than a page: done once, by one thread, while those who ask wait as long as they like."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from fastapi import Request

T = TypeVar("T")
PAGE_TIMEOUT_SECONDS = 0.1
"""Seconds. Together with making the page it stays under the 200 ms in which pages answer."""


class StillWorking(Exception):
    """The answer is on its way; ask again."""


class Worker:
    """Does one thing at a time: deciding is work for one core, and whoever asks second may find it done."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="seatrial-work")
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._lock = Lock()

    def do(self, what: Hashable, work: Callable[[], T], timeout: float | None = None) -> T:
        """What comes of it. Raises StillWorking where that takes longer than the timeout; None waits to the end."""
        with self._lock:
            future = self._under_way.get(what)
            if future is None:
                future = self._under_way[what] = self._pool.submit(work)
                future.add_done_callback(lambda _: self._under_way.pop(what, None))
        try:
            found: T = future.result(timeout)
        except TimeoutError:
            if future.done():
                raise  # the work's own
            raise StillWorking from None
        return found

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def page_timeout(request: Request) -> float | None:
    """How long a page may wait; a part of one that is loaded later may wait to the end."""
    return None if "hx-request" in request.headers else PAGE_TIMEOUT_SECONDS

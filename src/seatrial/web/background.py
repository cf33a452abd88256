"""Slow work in one background thread, with a timeout for each request that waits for it."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from fastapi import Request

T = TypeVar("T")
PAGE_TIMEOUT_SECONDS = 0.1
"""With rendering, pages answer within 200 ms."""


class StillWorking(Exception):
    """The result is not ready yet; ask again."""


class Worker:
    """Does one task at a time. Requests for the same task share its result."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="seatrial-work")
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._lock = Lock()

    def do(self, what: Hashable, work: Callable[[], T], timeout: float | None = None) -> T:
        """The result of the work. Raises StillWorking after `timeout` seconds; None waits for the end."""
        with self._lock:
            future = self._under_way.get(what)
            if future is None:
                future = self._under_way[what] = self._pool.submit(work)
                future.add_done_callback(lambda _: self._under_way.pop(what, None))
        try:
            found: T = future.result(timeout)
        except TimeoutError:
            if future.done():
                raise  # raised by the work itself
            raise StillWorking from None
        return found

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def page_timeout(request: Request) -> float | None:
    """How long a page may wait. Parts that htmx loads later have no limit."""
    return None if "hx-request" in request.headers else PAGE_TIMEOUT_SECONDS

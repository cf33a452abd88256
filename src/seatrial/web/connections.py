"""Connections that send no request, or only a part of one, are closed.

uvicorn waits for the rest of a request without an end. Enough such connections take all descriptors of the process, and
the server stops answering.
"""

import asyncio
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_MOST = 1_000


def most_connections() -> int:
    """How many the server takes at once: half of the descriptors that the process may have."""
    if sys.platform == "win32":
        return _MOST
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(16, min(_MOST, soft // 2))


def limit_requests(seconds: float) -> type[asyncio.Protocol]:
    """The protocol of a server that closes a connection when a request is not whole after so many seconds."""

    class Limited(_LimitedRequests):
        request_seconds = seconds

    return Limited


class _LimitedRequests(H11Protocol):
    """uvicorn's own protocol with a time limit for each request."""

    request_seconds: float
    _overdue: asyncio.TimerHandle | None = None
    idle_since = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being answered."""
        return self._overdue is not None or self.timeout_keep_alive_task is not None

    def connection_made(self, transport: Any) -> None:
        self._make_room()
        super().connection_made(transport)
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._expect_request()
        else:
            self._expect_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.idle_since = self.loop.time()

    def _expect_request(self) -> None:
        """From the first byte on, so that a client that sends one now and then gains no time."""
        if self._overdue is None and not self.transport.is_closing():
            self.idle_since = self.loop.time()
            self._overdue = self.loop.call_later(self.request_seconds, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _make_room(self) -> None:
        """Close the connection that is idle for longest where the server has all that it takes."""
        limit = self.limit_concurrency
        idle = [one for one in self.connections if isinstance(one, _LimitedRequests) and one.is_idle]
        if limit is not None and len(self.connections) + 1 >= limit and idle:
            longest = min(idle, key=lambda one: one.idle_since)
            self.connections.discard(longest)
            longest.transport.abort()

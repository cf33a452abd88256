"""Connections that do not send a whole request."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

ASKED = b"GET /api/suites HTTP/1.1\r\nhost: localhost\r\n\r\n"


@contextlib.contextmanager
def connected(served: Any) -> Iterator[socket.socket]:
    host, port = served.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as one:
        yield one


def is_closed(one: socket.socket) -> bool:
    """Waits until the server has closed it; a server that never does is found out by the socket's own limit."""
    try:
        while one.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\ntoken=",
    ],
)
def test_a_request_that_does_not_end_is_ended(serve: Any, sent: bytes) -> None:
    with connected(serve(limits={"request_seconds": 0.05})) as one:
        one.sendall(sent)
        assert is_closed(one)


def test_the_start_of_a_second_request_is_ended_as_well(serve: Any) -> None:
    with connected(serve(limits={"request_seconds": 2.0})) as one:
        one.sendall(ASKED)
        assert one.recv(65_536).startswith(b"HTTP/1.1 200")
        one.sendall(ASKED[:20])
        assert is_closed(one)


def test_answers_may_take_longer_than_requests(serve: Any) -> None:
    """The stream of a run that is over ends by itself; with its own time, since the request was whole."""
    served = serve(limits={"request_seconds": 2.0})
    assert "event: end" in served.get("/api/runs/good/events").text


def test_if_all_connections_are_taken_the_longest_idle_one_is_closed(serve: Any) -> None:
    served = serve(limits={"request_seconds": 600.0, "connections": 8})
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(served)) for _ in range(30)]
        with connected(served) as one:
            one.sendall(ASKED)
            assert one.recv(65_536).startswith(b"HTTP/1.1 200")
        assert all(is_closed(one) for one in held[:20])

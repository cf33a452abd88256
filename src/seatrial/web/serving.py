"""The server as a process: listens, says where, and ends in order."""

import logging
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from seatrial.errors import UsageError
from seatrial.store.opening import open_store

from .app import make_app
from .connections import limit_requests, most_connections
from .options import ServeOptions

_GRACE_SECONDS = 3


def serve(options: ServeOptions, *, announce: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM. `announce` is told the address once connections are taken."""
    app = make_app(options)
    open_store(options.store).close()  # a mistake in its place would end in uvicorn's traceback, after the address
    listening = _listen(options)
    host, port = listening.getsockname()[:2]
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        uvicorn.Server(make_config(app)).run(sockets=[listening])
    except KeyboardInterrupt:
        return  # uvicorn has ended in order, and passes on what ended it


def make_config(app: FastAPI, *, request_seconds: float = 10.0, connections: int | None = None) -> uvicorn.Config:
    """How uvicorn serves the application. `request_seconds` is what a client has to send a whole request."""
    return uvicorn.Config(
        app,
        http=limit_requests(request_seconds),
        limit_concurrency=most_connections() if connections is None else connections,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


def _listen(options: ServeOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((options.host, options.port))
        listening.listen(128)
    except OSError as refused:
        listening.close()
        raise UsageError(
            f"{options.host}:{options.port}: cannot listen there: {refused.strerror or refused}. Try --port 0."
        ) from refused
    return listening

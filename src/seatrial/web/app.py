"""The web application: routes, start-up, connection limits and `serve`."""

import asyncio
import gc
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from threading import Thread
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from seatrial.errors import SeatrialError, UsageError
from seatrial.reports.pages.environment import style_sheet
from seatrial.store.store import open_store
from seatrial.version import __version__

from . import api, form_actions, page_compare, page_mutation, page_run, page_runs, page_scenario
from .access import Access, ServeOptions
from .api_models import shared_schemas
from .app_state import AppState
from .middleware import SecurityMiddleware
from .responses import STATIC, environment, explain_problems
from .run_processes import RunProcesses

_WARM_SECONDS = 3.0
"""Maximum start-up time for deciding runs; the rest is decided while the server answers."""
ROUTERS = (
    api.router,
    page_runs.router,
    page_run.router,
    page_mutation.router,
    page_scenario.router,
    page_compare.router,
    form_actions.router,
)


def make_app(options: ServeOptions) -> FastAPI:
    """The server as an ASGI application. Raises UsageError if the options are unsafe."""
    options.check()
    app = FastAPI(
        title="Seatrial",
        version=__version__,
        description="Test runs of LLM agents: conversations, results and verdicts.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        lifespan=_open,
    )
    app.state.options = options
    app.state.access = Access(options)
    explain_problems(app)
    app.add_api_route("/static/style.css", _show_style, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(SecurityMiddleware, access=app.state.access)
    app.openapi = lambda: _describe(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _open(app: FastAPI) -> AsyncIterator[None]:
    options: ServeOptions = app.state.options
    with open_store(options.store) as store:
        state = AppState(options=options, store=store, processes=RunProcesses(options, os.environ))
        app.state.app_state = state
        environment()
        warming = Thread(target=_warm, args=(state,), name="seatrial-warm", daemon=True)
        warming.start()
        await asyncio.to_thread(warming.join, _WARM_SECONDS)
        # Cached trials stay: the collector must not scan them while a page waits.
        gc.collect()
        gc.freeze()
        try:
            yield
        finally:
            state.close()


def _warm(state: AppState) -> None:
    """Decide the runs of the first page before the first request."""
    try:
        state.runs.warm(page_runs.newest_rows(state))
    except (SeatrialError, CancelledError, RuntimeError):
        return  # the server stops, or the request for the run shows the error


def _show_style() -> Response:
    return Response(style_sheet(), media_type="text/css")


def _describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        document["components"]["schemas"] |= shared_schemas()
        if app.state.access.needs_token:
            document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema


_MOST = 1_000


def most_connections() -> int:
    """How many the server takes at once: half of the descriptors that the process may have."""
    if sys.platform == "win32":
        return _MOST
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(16, min(_MOST, soft // 2))


def limit_requests(seconds: float) -> type[asyncio.Protocol]:
    """A server protocol that closes connections whose request is incomplete after `seconds`."""

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
        """Whether no request is being answered."""
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
        """Start the time limit. Later bytes do not extend it."""
        if self._overdue is None and not self.transport.is_closing():
            self.idle_since = self.loop.time()
            self._overdue = self.loop.call_later(self.request_seconds, self.transport.abort)

    def _expect_nothing(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _make_room(self) -> None:
        """Close the longest idle connection if the limit is reached."""
        limit = self.limit_concurrency
        idle = [one for one in self.connections if isinstance(one, _LimitedRequests) and one.is_idle]
        if limit is not None and len(self.connections) + 1 >= limit and idle:
            longest = min(idle, key=lambda one: one.idle_since)
            self.connections.discard(longest)
            longest.transport.abort()


_GRACE_SECONDS = 3


def serve(options: ServeOptions, *, announce: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM. `announce` gets the address when the server listens."""
    app = make_app(options)
    open_store(options.store).close()  # a wrong store is an error before uvicorn starts
    listening = _listen(options)
    host, port = listening.getsockname()[:2]
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    try:
        uvicorn.Server(make_config(app)).run(sockets=[listening])
    except KeyboardInterrupt:
        return  # uvicorn has stopped cleanly and raises it again


def make_config(app: FastAPI, *, request_seconds: float = 10.0, connections: int | None = None) -> uvicorn.Config:
    """The configuration of uvicorn. `request_seconds` limits the time to send a request."""
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

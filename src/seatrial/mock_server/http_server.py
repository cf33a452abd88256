"""The server over streamable HTTP, on loopback, in a thread with an event loop of its own.

`/{place}/mcp` is the address of one desk. Plain `/mcp` gives each client a session of its own; since sessions are part
of the protocol's handshake only, the versions without one (from 2026-07-28) are sent back to the handshake there, as a
server of an older version would.
"""

import asyncio
import os
import socket
import threading
from concurrent.futures import Future
from typing import Any, Final

import uvicorn
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from seatrial.errors import UsageError

from .protocol import Desk, Desks, make_server

HOST: Final = "127.0.0.1"
_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_STOP_SECONDS: Final = 5


class HttpServer:
    """Serves desks until it is stopped."""

    def __init__(self, desks: Desks, *, port: int = 0) -> None:
        self._desks = desks
        self._socket = _listen(port)
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="seatrial-mcp", daemon=True)

    def url(self, place: str | None = None) -> str:
        """The address of a desk; without a place, the one at which every client gets a session."""
        return f"http://{HOST}:{self.port}/mcp" if place is None else f"http://{HOST}:{self.port}/{place}/mcp"

    def start(self) -> None:
        """Returns when clients can come."""
        self._thread.start()
        self._ready.result()

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS + 1)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as problem:
            if not self._ready.done():
                self._ready.set_exception(problem)

    async def _serve(self) -> None:
        hosts = [f"{HOST}:*", "localhost:*"]
        manager = StreamableHTTPSessionManager(
            make_server(self._desk_of),
            json_response=True,
            security_settings=TransportSecuritySettings(
                allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
            ),
        )
        config = uvicorn.Config(
            _Door(self._desks, manager),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        self._server = uvicorn.Server(config)
        async with manager.run():
            self._ready.set_result(None)
            await self._server.serve(sockets=[self._socket])

    def _desk_of(self, ctx: Any) -> Desk:
        request: Request = ctx.request
        place = _place(request.url.path)
        desk = self._desks.at(place) if place else self._desks.of_session(request.headers.get(_SESSION, ""))
        if desk is None:
            raise MCPError(INVALID_REQUEST, "there are no tools at this address any more")
        return desk


class _Door:
    """Lets in who comes to the address of a desk."""

    def __init__(self, desks: Desks, manager: StreamableHTTPSessionManager) -> None:
        self._desks = desks
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refuse(Request(scope)) if scope["type"] == "http" else None
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)

    def _refuse(self, request: Request) -> Response | None:
        place = _place(request.url.path)
        if place is None or (place and self._desks.at(place) is None):
            return _error(404, "there is nothing at this address")
        if not place and not self._desks.gives_sessions:
            return _error(404, "there is nothing at this address; that of a trial ends in /…/mcp")
        version = request.headers.get(_VERSION)
        if not place and version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            # SDKs that know both take this as the word of an older server, and begin again with the handshake.
            return _error(
                400, f"version {version} has no sessions; use /NAME/mcp, with a name of your own, or an older one"
            )
        return None


def _place(path: str) -> str | None:
    """`trial-7` of `/trial-7/mcp`; empty for `/mcp`; None for anything else."""
    parts = path.strip("/").split("/")
    if parts[-1] != "mcp" or len(parts) > 2:
        return None
    return parts[0] if len(parts) == 2 else ""


def _error(status: int, message: str) -> Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    return JSONResponse(error, status_code=status)


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port), backlog=1024)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(f"port {port} of {HOST} cannot be used: {why}. Choose another: --port N") from None

"""The MCP server over streamable HTTP: on loopback, in a thread with its own event loop.

`/{path}/mcp` has the tools of one client. Plain `/mcp` gives each client a session. Sessions belong to the handshake,
and protocol versions from 2026-07-28 have none: there they are answered like by an older server, and use the handshake.
"""

import asyncio
import os
import socket
import threading
from concurrent.futures import Future
from typing import Any, Final, Protocol

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

from .mcp_server import ClientTools, make_server

HOST: Final = "127.0.0.1"
_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_STOP_SECONDS: Final = 5


class Clients(Protocol):
    """Finds the tools of a client."""

    accepts_sessions: bool
    """Whether plain `/mcp` gives each client a session with its own tools."""

    def find(self, key: str) -> ClientTools | None:
        """The tools at `/{key}/mcp`, or of the session with that id; None: there are none."""
        ...


class HttpServer:
    """Serves the tools of all clients until it is stopped."""

    def __init__(self, clients: Clients, *, port: int = 0) -> None:
        self._clients = clients
        self._socket = _listen(port)
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="seatrial-mcp", daemon=True)

    def url(self, path: str | None = None) -> str:
        """The address of the tools at a path; without a path, the address that gives each client a session."""
        return f"http://{HOST}:{self.port}/mcp" if path is None else f"http://{HOST}:{self.port}/{path}/mcp"

    def start(self) -> None:
        """Return when clients can connect."""
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
            make_server(self._find_tools),
            json_response=True,
            security_settings=TransportSecuritySettings(
                allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
            ),
        )
        config = uvicorn.Config(
            _PathFilter(self._clients, manager),
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

    def _find_tools(self, ctx: Any) -> ClientTools:
        request: Request = ctx.request
        tools = self._clients.find(_path(request.url.path) or request.headers.get(_SESSION, ""))
        if tools is None:
            raise MCPError(INVALID_REQUEST, "there are no tools at this address any more")
        return tools


class _PathFilter:
    """ASGI middleware that answers 404 where no client has tools."""

    def __init__(self, clients: Clients, manager: StreamableHTTPSessionManager) -> None:
        self._clients = clients
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refuse(Request(scope)) if scope["type"] == "http" else None
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self._manager.handle_request(scope, receive, send)

    def _refuse(self, request: Request) -> Response | None:
        path = _path(request.url.path)
        if path is None or (path and self._clients.find(path) is None):
            return _error(404, "there is nothing at this address")
        if not path and not self._clients.accepts_sessions:
            return _error(404, "there is nothing at this address; that of a trial ends in /…/mcp")
        version = request.headers.get(_VERSION)
        if not path and version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            # SDKs that know both versions then start again with the handshake, as with an older server.
            return _error(
                400, f"version {version} has no sessions; use /NAME/mcp, with a name of your own, or an older one"
            )
        return None


def _path(path: str) -> str | None:
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

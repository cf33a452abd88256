"""Mocked tools as a real MCP server, so that agents which speak the Model Context Protocol can be tested unchanged.

An instrument like the models: it knows no mocks and no agents, only a `Desk` that answers the calls of one client, be
it a trial or a session of `seatrial mock-server`.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .desk import Desk as Desk
    from .desk import Desks as Desks
    from .http_server import HttpServer as HttpServer
    from .sessions import CallLog as CallLog
    from .sessions import SessionDesk as SessionDesk
    from .sessions import Sessions as Sessions
    from .stdio_server import serve_stdio as serve_stdio

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "desk": ("Desk", "Desks"),
        "http_server": ("HttpServer",),
        "sessions": ("CallLog", "SessionDesk", "Sessions"),
        "stdio_server": ("serve_stdio",),
    },
)

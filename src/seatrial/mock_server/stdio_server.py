"""The server over stdin and stdout, for clients that start their servers as processes: one client, one desk."""

from collections.abc import Callable

from mcp.server.stdio import stdio_server

from .desk import Desk
from .protocol import make_server


async def serve_stdio(find_desk: Callable[[], Desk]) -> None:
    """Serve until the client closes our stdin. `find_desk` is asked only when a client asks for tools."""
    server = make_server(lambda ctx: find_desk())
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())

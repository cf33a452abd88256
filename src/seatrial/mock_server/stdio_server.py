"""The server over stdin and stdout, for clients that start their servers as processes: one client, one desk."""

from mcp.server.stdio import stdio_server

from .desk import Desk
from .protocol import make_server


async def serve_stdio(desk: Desk) -> None:
    """Serve until the client closes our stdin."""
    server = make_server(lambda ctx: desk)
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())

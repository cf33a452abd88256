"""`seatrial mcp`: an MCP server over stdio with which coding agents test an agent."""

import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import click

from seatrial.errors import MissingExtra, UsageError


@click.command("mcp")
@click.option("--project", "folder", default=".", show_default=True, help="Folder of the project.")
def command(folder: str) -> int:
    """Serve Seatrial to coding agents as an MCP server over stdio.

    The tools are validate, list, run, show, explain, compare and mutate. Paths outside the project folder are refused.
    Register it in the coding agent as the command `seatrial mcp`.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", needed_for="seatrial mcp")
    place = Path(folder)
    if not place.is_dir():
        raise UsageError(f"--project {folder}: there is no such folder")
    os.chdir(place)  # settings and the store are read from here
    from .mcp_tools import Project, make_server

    server = make_server(Project(Path.cwd()))
    with suppress(KeyboardInterrupt):
        server.run("stdio")
    return 0

"""`seatrial serve`."""

import os
from pathlib import Path

import click

from seatrial.errors import MissingExtra

from .options import store_option, store_url


@click.command("serve")
@click.argument("root", default=".", metavar="[FOLDER]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Other addresses need a token.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8321, show_default=True, help="0: any free port.")
@click.option("--token", envvar="SEATRIAL_TOKEN", help="Token that clients must send. Better: set SEATRIAL_TOKEN.")
@click.option("--read-only", is_flag=True, help="Allow no changes and start no runs.")
@store_option
def command(root: str, host: str, port: int, token: str | None, read_only: bool, store: str | None) -> int:
    """Serve runs as web pages and as a JSON API.

    The pages can start suites in FOLDER; the default is the current folder. The API is described at
    /api/openapi.json.
    """
    try:
        from seatrial.web.access import ServeOptions
        from seatrial.web.app import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in ("fastapi", "h11", "starlette", "uvicorn"):
            raise MissingExtra("server", needed_for="seatrial serve") from missing
        raise
    options = ServeOptions(
        store=_absolute(store_url(store)),
        root=Path(root),
        host=host,
        port=port,
        token=token or None,
        read_only=read_only,
    )
    serve(options, announce=lambda address: click.echo(f"seatrial is at {address}  (Ctrl-C to stop)"))
    return 0


def _absolute(url: str) -> str:
    """The same store for processes in other folders."""
    return url if "://" in url else str(Path(os.path.expanduser(url)).absolute())

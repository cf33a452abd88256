"""`seatrial validate`."""

import click

from seatrial.session import load

from .request import default_paths
from .showing import reports_of


@click.command("validate")
@click.argument("paths", nargs=-1)
def command(paths: tuple[str, ...]) -> int:
    """Check scenario files: every problem of every file, with its place. Nothing is run."""
    suites = load(default_paths(paths))
    for suite in suites:
        reports_of(suite)
    for suite in suites:
        click.echo(f"{suite.path}: ok, {suite.count} scenario{'' if suite.count == 1 else 's'}")
    return 0

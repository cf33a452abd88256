"""`seatrial export`."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from seatrial.errors import UsageError
from seatrial.reports.atomic_write import replacing

from . import shell_completion
from .request import open_stored


@click.command("export")
@click.argument("run", default="latest", shell_complete=shell_completion.runs)
@click.option("--output", "-o", metavar="FILE", help="Instead of standard output.")
@click.option("--store", help="Where runs are kept: a file or postgresql://….")
def command(run: str, output: str | None, store: str | None) -> int:
    """Write a stored run as lines of JSON, with its scenarios, trials and labels, for `seatrial import`.

    RUN is an id, the beginning of one, a name, `latest` (the default) or `baseline`.
    """
    with open_stored(store) as opened:
        found = opened.run(run)
        lines = opened.export_run(found.id)
        if output in (None, "-"):
            _write(lines)
        else:
            _write_file(Path(str(output)), lines)
            click.echo(f"wrote run {found.id} to {output}", err=True)
    return 0


def _write(lines: Iterable[bytes]) -> None:
    for line in lines:
        sys.stdout.buffer.write(line)
    sys.stdout.flush()


def _write_file(file: Path, lines: Iterable[bytes]) -> None:
    if file.is_dir():
        raise UsageError(f"{file}: cannot be written: it is a folder. Name a file in it")
    try:
        with replacing(file) as place, place.open("wb") as stream:
            stream.writelines(lines)
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from None

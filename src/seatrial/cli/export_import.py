"""`seatrial export` and `seatrial import`."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from seatrial.errors import UsageError
from seatrial.files import replacing
from seatrial.model.run import Run
from seatrial.reports.terminal import safe_text
from seatrial.reports.texts import counted, verdict_line
from seatrial.runs.report import StoredRecord
from seatrial.store.export_import import Imported
from seatrial.store.store import Store, open_store

from . import shell_completion
from .options import open_stored, store_option, store_url


@click.command("export")
@click.argument("run", default="latest", shell_complete=shell_completion.runs)
@click.option("--output", "-o", metavar="FILE", help="Write to FILE instead of standard output.")
@store_option
def export_command(run: str, output: str | None, store: str | None) -> int:
    """Write a stored run as JSON Lines, with its scenarios, trials and labels, for `seatrial import`.

    RUN is an id, the start of an id, a name, `latest` (the default) or `baseline`.
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


@click.command("import")
@click.argument("files", nargs=-1, required=True)
@store_option
def import_command(files: tuple[str, ...], store: str | None) -> int:
    """Store the runs of exported FILES; `-` is standard input.

    Shards of one run (`seatrial run --shard I/N`, each exported) become one run. A file may be imported twice: equal
    trials are skipped. A file is stored completely or not at all. The verdict of each trial is derived from its
    results.
    """
    with open_store(store_url(store)) as opened:
        found: dict[str, list[Imported]] = {}
        try:
            for file in files:
                for imported in _import(opened, file):
                    found.setdefault(imported.run_id, []).append(imported)
        finally:  # earlier files are stored even if a later one is refused
            for run_id, parts in found.items():
                _print_imported(opened, run_id, parts)
    return 0


def _import(store: Store, file: str) -> list[Imported]:
    with _opened(file) as lines:
        try:
            return store.import_runs(lines)
        except UsageError as wrong:
            raise UsageError(f"{file}: {wrong}") from None


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with open(file, "rb") as stream:
            yield stream
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror or error}") from None


def _print_imported(store: Store, run_id: str, parts: list[Imported]) -> None:
    record = StoredRecord(store, store.run(run_id))
    added, skipped, corrected = (
        sum(getattr(part, name) for part in parts) for name in ("added", "skipped", "corrected")
    )
    known = f", {skipped:,} already stored" if skipped else ""
    verdict = verdict_line(record.outcome)
    added_text = f"{counted(added, 'trial')} added{known}{_part(record.run)}"
    click.echo(safe_text(f"run {run_id}: {added_text}. {verdict}"))
    if corrected:
        have = "has" if corrected == 1 else "have"
        trials = counted(corrected, "trial")
        click.echo(f"  {trials} {have} another status in the file than its results give; the results count")


def _part(run: Run) -> str:
    """The shards that are still missing."""
    from seatrial.store.runs import missing_shards

    missing = missing_shards(run)
    return f", shard {', '.join(map(str, missing))} is still missing" if missing else ""

"""`seatrial import`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import click

from seatrial.errors import UsageError
from seatrial.model.run import Run
from seatrial.runs.report import StoredRecord
from seatrial.store.export_import import Imported
from seatrial.store.opening import open_store
from seatrial.store.store import Store

from .request import store_url


@click.command("import")
@click.argument("files", nargs=-1, required=True)
@click.option("--store", help="Where runs are kept: a file or postgresql://….")
def command(files: tuple[str, ...], store: str | None) -> int:
    """Store the runs of exported FILES; `-` is standard input.

    Shards of one run (`seatrial run --shard I/N`, exported each by itself) become one run. What is stored already and
    is the same is left alone, so a file may be imported twice. A file is stored whole or not at all. The verdict of
    each trial is decided again, from its results.
    """
    with open_store(store_url(store)) as opened:
        found: dict[str, list[Imported]] = {}
        try:
            for file in files:
                for imported in _import(opened, file):
                    found.setdefault(imported.run_id, []).append(imported)
        finally:  # what earlier files brought is stored, whatever is wrong with a later one
            for run_id, parts in found.items():
                _tell(opened, run_id, parts)
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


def _tell(store: Store, run_id: str, parts: list[Imported]) -> None:
    from seatrial.reports.escaping import defused, visible
    from seatrial.reports.texts import counted, verdict_line

    record = StoredRecord(store, store.run(run_id))
    added, skipped, corrected = (
        sum(getattr(part, name) for part in parts) for name in ("added", "skipped", "corrected")
    )
    known = f", {skipped:,} known already" if skipped else ""
    verdict = verdict_line(record.outcome)
    click.echo(defused(visible(f"run {run_id}: {counted(added, 'trial')} added{known}{_part(record.run)}. {verdict}")))
    if corrected:
        have = "has" if corrected == 1 else "have"
        trials = counted(corrected, "trial")
        click.echo(f"  {trials} {have} another status in the file than its results give; the results count")


def _part(run: Run) -> str:
    """Which part of a run it is, where it is not the whole."""
    from seatrial.store.shards import missing_shards

    missing = missing_shards(run)
    return f", shard {', '.join(map(str, missing))} is still missing" if missing else ""

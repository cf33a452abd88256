"""Commands for stored runs: `seatrial baseline`, `prune`, `export`, `import`."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

import click

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.files import replacing
from seatrial.model.run import Run, RunState
from seatrial.reports.terminal import safe_text
from seatrial.reports.texts import counted, verdict_line
from seatrial.runs.report import StoredRecord, find_damaged
from seatrial.store.export_import import Imported
from seatrial.store.store import Store, open_store

from . import shell_completion
from .options import json_option, open_stored, store_option, store_url
from .output import print_table

_suite = click.option("--suite", help="Baseline of this suite only.")


@click.group("baseline")
def baseline_command() -> None:
    """Set, show or clear the run that others are compared with."""


@baseline_command.command("set")
@click.argument("run", shell_complete=shell_completion.runs)
@_suite
@click.option("--allow-unfinished", is_flag=True, help="Accept a run that is not finished.")
@store_option
def set_(run: str, suite: str | None, allow_unfinished: bool, store: str | None) -> int:
    """Make RUN the baseline: an id, the start of an id, a name, or `latest`."""
    with open_stored(store) as opened:
        found = opened.run(run)
        if found.state is not RunState.FINISHED and not allow_unfinished:
            raise UsageError(
                f"run {found.id}: is not finished, so it cannot be a baseline. "
                f"Finish it: seatrial run --resume {found.id}; or accept it: --allow-unfinished."
            )
        suites = {entry.key.suite for entry in opened.entries(found.id)}
        if suite is not None and suite not in suites:
            raise UsageError(f"run {found.id}: has no suite {suite!r}. It has: {', '.join(sorted(suites)) or 'none'}.")
        opened.set_baseline(found.id, suite=suite)
    click.echo(f"baseline{_of(suite)}: {found.id} ({found.name})")
    return 0


@baseline_command.command("show")
@json_option
@store_option
def show(as_json: bool, store: str | None) -> int:
    """Show which runs are baselines."""
    with open_stored(store) as opened:
        baselines = opened.baselines()
    if as_json:
        click.echo(json.dumps([{"suite": suite, "id": run.id, "name": run.name} for suite, run in baselines]))
    elif not baselines:
        click.echo("no baseline is set. Set one: seatrial baseline set RUN")
    else:
        rows = [(suite or "(every suite)", run.id, run.name, (run.git_commit or "-")[:12]) for suite, run in baselines]
        print_table(("suite", "run", "name", "commit"), rows)
    return 0


@baseline_command.command("clear")
@_suite
@store_option
def clear(suite: str | None, store: str | None) -> int:
    """Clear the baseline. The run itself is kept."""
    with open_stored(store) as opened:
        if not opened.clear_baseline(suite):
            raise UsageError(f"{opened.name}: no baseline{_of(suite)} is set. See: seatrial baseline show")
    click.echo(f"baseline{_of(suite)}: cleared")
    return 0


def _of(suite: str | None) -> str:
    return "" if suite is None else f" of suite {suite!r}"


_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_MAY_BE_RUNNING = timedelta(days=1)
"""A younger run in the state `running` is kept: another process may be writing it."""


@click.command("prune")
@click.option("--older-than", metavar="AGE", help="Only runs that started longer ago than AGE: 12h, 30d, 8w.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the N newest of the selected runs.")
@click.option("--name", help="Only runs of this name.")
@click.option("--damaged", is_flag=True, help="Only runs that cannot be read, as listed by `seatrial doctor`.")
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
@store_option
def prune_command(damaged: bool, yes: bool, store: str | None, **options: Any) -> int:
    """Delete stored runs that match all given options. Baselines and running runs are kept."""
    given = any(value is not None for value in options.values())
    if damaged and given:
        raise UsageError("--damaged: cannot be combined with other options; age and name of such runs are unknown")
    if not damaged and not given:
        raise UsageError("no runs selected. Give --older-than 30d, --keep 50, --name NAME or --damaged")
    before = None if options["older_than"] is None else now() - _read_age(options["older_than"])
    with open_stored(store) as opened:
        if damaged:
            ids = _show_damaged(opened)
        else:
            ids = _show_selected(opened, _find(opened, before=before, keep=options["keep"], name=options["name"]))
        if not ids:
            click.echo("nothing to delete")
            return 0
        if not yes:
            click.confirm(f"Delete {counted(len(ids), 'run')}?", abort=True, err=True)
        click.echo(f"deleted {counted(opened.delete_runs(ids), 'run')}")
    return 0


def _show_damaged(store: Store) -> Sequence[str]:
    found = find_damaged(store)
    for _, problem in found:
        click.echo(safe_text(problem), err=True)
    return [run_id for run_id, _ in found]


def _show_selected(store: Store, selected: list[Run]) -> Sequence[str]:
    """The ids to delete: the selected runs without baselines and running runs."""
    baselines = _find_baselines(store)
    kept = [run for run in selected if run.id in baselines or _may_be_running(store, run)]
    if kept:
        click.echo(f"kept, as baseline or still running: {', '.join(run.id for run in kept)}", err=True)
    deleted = [run for run in selected if run not in kept]
    if deleted:
        rows = [(run.id, run.name, f"{run.started_at:%Y-%m-%d %H:%M} UTC", run.state.value) for run in deleted]
        print_table(("id", "name", "when", "state"), rows, err=True)
    return [run.id for run in deleted]


def _find(store: Store, *, before: datetime | None, keep: int | None, name: str | None) -> list[Run]:
    """Newest first."""
    runs = store.runs(name=name)[keep or 0 :]
    return [run for run in runs if before is None or run.started_at < before]


def _find_baselines(store: Store) -> set[str]:
    """The ids of baselines that are set, and of baselines named in the suites of stored runs."""
    found = {run.id for _, run in store.baselines()}
    for ref in {ref for run in store.runs() for ref in ((run.config or {}).get("baselines") or {}).values()}:
        with suppress(UsageError):  # no such run, or not any more
            found.add(store.run(ref).id)
    return found


def _may_be_running(store: Store, run: Run) -> bool:
    if run.state is not RunState.RUNNING:
        return False
    if now() - run.started_at < _MAY_BE_RUNNING:
        return True
    try:
        store.claim_run(run.id)()
    except UsageError:
        return True  # another process is writing it
    return False


def _read_age(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,5})([hdw])", text.strip())
    if found is None:
        raise UsageError(f"--older-than {text!r}: expected a number of hours, days or weeks, such as 12h, 30d or 8w")
    return timedelta(**{_UNITS[found.group(2)]: int(found.group(1))})


@click.command("export")
@click.argument("run", default="latest", shell_complete=shell_completion.runs)
@click.option("--output", "-o", metavar="FILE", help="Write to FILE instead of standard output.")
@store_option
def export_command(run: str, output: str | None, store: str | None) -> int:
    """Write a stored run as JSON Lines, with scenarios, trials, labels and seeds of worlds, for `seatrial import`.

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

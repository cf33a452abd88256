"""`seatrial prune`."""

import re
from contextlib import suppress
from datetime import datetime, timedelta

import click

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.run import Run, RunState
from seatrial.reports.terminal import safe_text
from seatrial.runs.report import find_damaged
from seatrial.store.store import Store

from .options import open_stored
from .output import format_table

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_MAY_BE_UNDER_WAY = timedelta(days=1)
"""A run that says it is running and is younger is left alone: somebody may be writing to it."""


@click.command("prune")
@click.option("--older-than", metavar="AGE", help="Only runs that started longer ago than AGE: 12h, 30d, 8w.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the N newest of the selected runs.")
@click.option("--name", help="Only runs of this name.")
@click.option("--damaged", is_flag=True, help="Only runs that cannot be read, as listed by `seatrial doctor`.")
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
@click.option("--store", help="Where runs are stored: a file or postgresql://….")
def command(
    older_than: str | None, keep: int | None, name: str | None, damaged: bool, yes: bool, store: str | None
) -> int:
    """Delete stored runs that match all given options. Baselines and running runs are kept."""
    if damaged:
        if older_than is not None or keep is not None or name is not None:
            raise UsageError(
                "--damaged: cannot be combined with other options, since age and name of such runs are unknown"
            )
        return _prune_damaged(store, yes=yes)
    if older_than is None and keep is None and name is None:
        raise UsageError("no runs selected. Give --older-than 30d, --keep 50, --name NAME or --damaged")
    before = None if older_than is None else now() - _read_age(older_than)
    with open_stored(store) as opened:
        fitting = _find(opened, before=before, keep=keep, name=name)
        kept = _find_baselines(opened)
        doomed = [run for run in fitting if run.id not in kept and not _may_be_under_way(opened, run)]
        spared = [run for run in fitting if run not in doomed]
        if spared:
            click.echo(f"kept, as baseline or still running: {', '.join(run.id for run in spared)}", err=True)
        if not doomed:
            click.echo("nothing to delete")
            return 0
        _show(doomed)
        if not yes:
            click.confirm(f"Delete {_counted(len(doomed))}?", abort=True, err=True)
        click.echo(f"deleted {_counted(opened.delete_runs([run.id for run in doomed]))}")
    return 0


def _prune_damaged(place: str | None, *, yes: bool) -> int:
    with open_stored(place) as store:
        found = find_damaged(store)
        for _, problem in found:
            click.echo(safe_text(problem), err=True)
        if not found:
            click.echo("nothing to delete")
            return 0
        if not yes:
            click.confirm(f"Delete {_counted(len(found))}?", abort=True, err=True)
        click.echo(f"deleted {_counted(store.delete_runs([run_id for run_id, _ in found]))}")
    return 0


def _find(store: Store, *, before: datetime | None, keep: int | None, name: str | None) -> list[Run]:
    """Newest first."""
    runs = store.runs(name=name)[keep or 0 :]
    return [run for run in runs if before is None or run.started_at < before]


def _find_baselines(store: Store) -> set[str]:
    """The ids of those that were set, and of those that stored runs have from their suites' files."""
    found = {run.id for _, run in store.baselines()}
    for ref in {ref for run in store.runs() for ref in ((run.config or {}).get("baselines") or {}).values()}:
        with suppress(UsageError):  # nothing is called so, or not any more
            found.add(store.run(ref).id)
    return found


def _may_be_under_way(store: Store, run: Run) -> bool:
    if run.state is not RunState.RUNNING:
        return False
    if now() - run.started_at < _MAY_BE_UNDER_WAY:
        return True
    try:
        store.claim_run(run.id)()
    except UsageError:
        return True  # it takes long, or was begun long ago and is gone on with
    return False


def _read_age(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,5})([hdw])", text.strip())
    if found is None:
        raise UsageError(f"--older-than {text!r}: expected a number of hours, days or weeks, such as 12h, 30d or 8w")
    return timedelta(**{_UNITS[found.group(2)]: int(found.group(1))})


def _show(runs: list[Run]) -> None:
    rows = [(run.id, run.name, f"{run.started_at:%Y-%m-%d %H:%M} UTC", run.state.value) for run in runs]
    for line in format_table(("id", "name", "when", "state"), rows):
        click.echo(line, err=True)


def _counted(count: int) -> str:
    return f"{count:,} run" if count == 1 else f"{count:,} runs"

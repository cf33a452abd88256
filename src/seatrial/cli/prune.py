"""`seatrial prune`."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import click

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.run import Run, RunState
from seatrial.reports.terminal import safe_text
from seatrial.reports.texts import counted
from seatrial.runs.report import find_damaged
from seatrial.store.store import Store

from .options import open_stored, store_option
from .output import print_table

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
def command(damaged: bool, yes: bool, store: str | None, **options: Any) -> int:
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

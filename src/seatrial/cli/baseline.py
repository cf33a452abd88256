"""`seatrial baseline`."""

import json

import click

from seatrial.errors import UsageError
from seatrial.model.run import Run, RunState

from . import shell_completion
from .options import open_stored
from .output import format_table

_store = click.option("--store", help="Where runs are kept: a file or postgresql://….")
_suite = click.option("--suite", help="Only where the suite has this name.")


@click.group("baseline")
def command() -> None:
    """Choose the run that others are compared with."""


@command.command("set")
@click.argument("run", shell_complete=shell_completion.runs)
@_suite
@click.option("--allow-unfinished", is_flag=True, help="Take it although it did not come to its end.")
@_store
def set_(run: str, suite: str | None, allow_unfinished: bool, store: str | None) -> int:
    """Compare others with RUN: an id, the beginning of one, a name, or `latest`."""
    with open_stored(store) as opened:
        found = opened.run(run)
        if found.state is not RunState.FINISHED and not allow_unfinished:
            raise UsageError(
                f"run {found.id}: did not come to its end, so others would be compared with a part. "
                f"Finish it: seatrial run --resume {found.id}; or take it with --allow-unfinished."
            )
        suites = {entry.key.suite for entry in opened.entries(found.id)}
        if suite is not None and suite not in suites:
            raise UsageError(f"run {found.id}: has no suite {suite!r}. It has: {', '.join(sorted(suites)) or 'none'}.")
        opened.set_baseline(found.id, suite=suite)
    click.echo(f"baseline{_of(suite)}: {_describe(found)}")
    return 0


@command.command("show")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@_store
def show(as_json: bool, store: str | None) -> int:
    """Show which runs are baselines."""
    with open_stored(store) as opened:
        baselines = opened.baselines()
    if as_json:
        click.echo(json.dumps([{"suite": suite, "id": run.id, "name": run.name} for suite, run in baselines]))
        return 0
    if not baselines:
        click.echo("no baseline is set. Choose one: seatrial baseline set RUN")
        return 0
    rows = [(suite or "(every suite)", run.id, run.name, (run.git_commit or "-")[:12]) for suite, run in baselines]
    for line in format_table(("suite", "run", "name", "commit"), rows):
        click.echo(line)
    return 0


@command.command("clear")
@_suite
@_store
def clear(suite: str | None, store: str | None) -> int:
    """Forget the baseline; its run stays."""
    with open_stored(store) as opened:
        if not opened.clear_baseline(suite):
            raise UsageError(f"{opened.name}: no baseline{_of(suite)} is set. See: seatrial baseline show")
    click.echo(f"baseline{_of(suite)}: cleared")
    return 0


def _of(suite: str | None) -> str:
    return "" if suite is None else f" of suite {suite!r}"


def _describe(run: Run) -> str:
    return f"{run.id} ({run.name})"

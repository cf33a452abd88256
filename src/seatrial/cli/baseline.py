"""`seatrial baseline`."""

import json

import click

from seatrial.errors import UsageError
from seatrial.model.run import RunState

from . import shell_completion
from .options import json_option, open_stored, store_option
from .output import print_table

_suite = click.option("--suite", help="Baseline of this suite only.")


@click.group("baseline")
def command() -> None:
    """Set, show or clear the run that others are compared with."""


@command.command("set")
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


@command.command("show")
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


@command.command("clear")
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

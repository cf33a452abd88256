"""`seatrial fork`: continue a stored conversation from a turn or a call."""

import re
import sys
from typing import Any

import click
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.run import ScenarioOutcome
from seatrial.reports.console import print_run
from seatrial.reports.progress import Progress
from seatrial.runs.fork import ForkAt, fork
from seatrial.runs.report import Report, StoredRecord

from . import shell_completion
from .options import (
    check_run_id,
    check_run_name,
    env_file_option,
    make_request,
    open_stored,
    read_agent,
    read_environment,
    store_option,
    store_url,
    verbose_option,
)
from .show import find_scenarios, find_trial

TRIALS = 5


@click.command("fork")
@click.argument("run", shell_complete=shell_completion.runs)
@click.argument("scenario")
@click.argument("trial")
@click.option(
    "--at", "point", required=True, metavar="TURN|call:N", help="A turn, or `call:3` for the third call of the trial."
)
@click.option("--agent", help="Another agent, as in `run`.")
@click.option("--trials", type=click.IntRange(min=1), default=TRIALS, show_default=True, help="Number of new trials.")
@click.option("--name", help="Name of the new run. Default: fork, and the name of RUN.")
@click.option("--id", "run_id", help="Id of the new run. Default: generated.")
@click.option("--suite", "suites", multiple=True, metavar="PATH", help="Files of the suite. Default: those of RUN.")
@env_file_option
@verbose_option
@store_option
def command(run: str, scenario: str, trial: str, point: str, **options: Any) -> int:
    """Continue a stored conversation from a turn or a call, several times.

    Seatrial restores the messages, the world and the mocks as they were, and lets the agent go on from there. With a
    turn, the agent answers the user's message of that turn again. With `call:3`, it goes on where it made the third
    call of the trial. The result is a new run. Exit codes as in `seatrial run`.

    RUN, SCENARIO and TRIAL are as in `seatrial show`.
    """
    at = _read_point(point)
    with open_stored(options["store"]) as opened:
        record = StoredRecord(opened, opened.run(run))
        outcomes = find_scenarios(record, scenario)
        if len(outcomes) > 1:
            names = ", ".join(repr(each.entry.key.label) for each in outcomes)
            raise UsageError(f"scenario {scenario!r}: several agents ran it. Name one of: {names}")
        original = outcomes[0]
        stored = find_trial(list(record.trials(original.entry.key)), trial, original)
    progress = Progress(sys.stderr)
    request = make_request(
        (),
        environ=read_environment(options["env_file"]),
        overrides={},
        agent=read_agent(options["agent"]),
        name=check_run_name(options["name"]),
        id=check_run_id(options["run_id"]),
        store=store_url(options["store"]),
        listeners=(progress,),
    )
    try:
        report = fork(
            record.run.id,
            original.entry.key,
            stored.index,
            at,
            trials=options["trials"],
            asked=replace(request, sources=options["suites"]),
        )
    finally:
        progress.close()
    print_run(report.record, sys.stdout, verbose=options["verbose"])
    click.echo(_compare(original, report, at, record.run.id))
    return report.exit_code


def _read_point(text: str) -> ForkAt:
    found = re.fullmatch(r"(call:)?([1-9][0-9]{0,8})", text)
    if found is None:
        raise UsageError(f"--at {text!r}: expected a turn such as 2, or a call of the trial such as call:3")
    number = int(found[2]) - 1
    return ForkAt(call=number) if found[1] else ForkAt(turn=number)


def _compare(original: ScenarioOutcome, report: Report, at: ForkAt, run_id: str) -> str:
    """`from call 3: 4/5 passed; whole trials in run …: 3/20 passed`."""
    new = report.outcome.scenarios[0]
    return (
        f"from {at.text}: {new.passed}/{new.played} passed; "
        f"whole trials in run {run_id}: {original.passed}/{original.played} passed"
    )

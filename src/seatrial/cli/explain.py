"""`seatrial explain`: the failures of a stored run, grouped by cause."""

import sys
from collections.abc import Sequence
from typing import Any

import click
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.causes import Cause, Proof
from seatrial.model.run import Run
from seatrial.reports.causes import causes_title, print_cause
from seatrial.reports.json_report import cause_json
from seatrial.reports.progress import Progress
from seatrial.reports.terminal import TerminalWriter, json_text
from seatrial.reports.texts import counted
from seatrial.runs.report import StoredRecord
from seatrial.runs.request import RunRequest
from seatrial.store.store import Store

from . import shell_completion
from .options import env_file_option, json_option, make_request, open_stored, read_environment, store_option, store_url


@click.command("explain")
@click.argument("run", default="latest", shell_complete=shell_completion.runs)
@click.option("--prove", is_flag=True, help="Continue failed trials from the step that differs, to test each cause.")
@click.option("--trials", type=click.IntRange(min=4), help="With --prove: new trials in each group. Default: 10.")
@click.option("--yes", "-y", is_flag=True, help="With --prove: do not ask before the agent is called.")
@click.option("--name-with", metavar="MODEL", help="Let a model give each cause a title, such as openai:gpt-5-mini.")
@json_option
@env_file_option
@store_option
def command(run: str, as_json: bool, **options: Any) -> int:
    """Group the failures of a stored run by cause.

    A cause is a failing check and the first step that differs from a passed trial of the same scenario. If none passed,
    earlier runs, the gold calls or the trajectory show what differs. No model is called, except with --name-with: it
    writes a title for each cause and changes nothing else.

    With --prove, the agent continues a failed trial of each cause from that step: in one group of new trials after the
    step as it was, in another after the step of the passed trial. The cause is proved if the second group passes more
    often than chance explains.

    RUN is an id, the start of an id, a name, `latest` (the default) or `baseline`.
    """
    if (options["trials"] or options["yes"]) and not options["prove"]:
        raise UsageError(f"{'--trials' if options['trials'] else '--yes'}: needs --prove")
    with open_stored(options["store"]) as opened:
        record = StoredRecord(opened, opened.run(run))
        causes = list(record.causes)
        if options["name_with"] and causes:
            causes = _name(causes, options)
        if options["prove"] and causes:
            causes = _prove(opened, record.run, causes, options)
        if as_json:
            click.echo(json_text({"run": record.run.id, "causes": [cause_json(cause) for cause in causes]}))
        else:
            _print(causes, record.run.id)
    return 0


def _name(causes: Sequence[Cause], options: dict[str, Any]) -> list[Cause]:
    """The causes with the model's titles; without them if it fails."""
    from seatrial.runs.name_causes import name_causes

    named, note = name_causes(causes, options["name_with"], _request(options))
    if note is not None:
        click.echo(f"note: {note}", err=True)
    return named


def _request(options: dict[str, Any], **more: Any) -> RunRequest:
    environ = read_environment(options["env_file"])
    return make_request((), environ=environ, overrides={}, store=store_url(options["store"]), **more)


def _prove(store: Store, run: Run, causes: Sequence[Cause], options: dict[str, Any]) -> list[Cause]:
    """The causes with their proofs. Says first how often the agent will be called, and asks."""
    from seatrial.runs.fork import refuse_recordings
    from seatrial.runs.prove import TRIALS, plan_proof, prove

    refuse_recordings(run)
    planned = [(cause, plan_proof(store, run, cause)) for cause in causes]
    plans = [plan for _, plan in planned if not isinstance(plan, str)]
    trials = options["trials"] or TRIALS
    calls = sum(plan.agent_calls(trials) for plan in plans)
    new = trials * sum(1 if plan.replaced is None else 2 for plan in plans)
    click.echo(
        f"{counted(len(plans), 'cause')} can be tested: {counted(new, 'new trial')}, "
        f"about {counted(calls, 'call')} of the agent",
        err=True,
    )
    if plans and not options["yes"]:
        click.confirm("Run them?", abort=True, err=True)
    progress = Progress(sys.stderr)
    asked = replace(_request(options, listeners=(progress,)), sources=())
    try:
        proofs = iter(prove(plans, run, trials=trials, asked=asked))
    finally:
        progress.close()
    return [
        replace(cause, proof=Proof(proved=False, text=f"not tested: {plan}") if isinstance(plan, str) else next(proofs))
        for cause, plan in planned
    ]


def _print(causes: Sequence[Cause], run_id: str) -> None:
    writer = TerminalWriter(sys.stdout)
    if not causes:
        writer.line(f"run {run_id}: no trial failed, so there is nothing to explain")
        return
    writer.line(causes_title(causes), style="bold")
    for cause in causes:
        print_cause(cause, run_id, writer)

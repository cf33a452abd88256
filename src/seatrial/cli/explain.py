"""`seatrial explain`: the failures of a stored run, grouped by cause."""

import sys

import click

from seatrial.model.causes import Cause
from seatrial.reports.causes import causes_title, print_cause
from seatrial.reports.json_report import cause_json
from seatrial.reports.terminal import TerminalWriter, json_text
from seatrial.runs.report import StoredRecord

from . import shell_completion
from .options import json_option, open_stored, store_option


@click.command("explain")
@click.argument("run", default="latest", shell_complete=shell_completion.runs)
@json_option
@store_option
def command(run: str, as_json: bool, store: str | None) -> int:
    """Group the failures of a stored run by cause.

    A cause is a failing check and the first step that differs from a passed trial of the same scenario. If none passed,
    earlier runs, the gold calls or the trajectory show what differs. No model is called.

    RUN is an id, the start of an id, a name, `latest` (the default) or `baseline`.
    """
    with open_stored(store) as opened:
        record = StoredRecord(opened, opened.run(run))
        causes = list(record.causes)
        if as_json:
            click.echo(json_text({"run": record.run.id, "causes": [cause_json(cause) for cause in causes]}))
        else:
            _print(causes, record.run.id)
    return 0


def _print(causes: list[Cause], run_id: str) -> None:
    writer = TerminalWriter(sys.stdout)
    if not causes:
        writer.line(f"run {run_id}: no trial failed, so there is nothing to explain")
        return
    writer.line(causes_title(causes), style="bold")
    for cause in causes:
        print_cause(cause, run_id, writer)

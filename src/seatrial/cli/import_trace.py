"""`seatrial import-trace`."""

from collections.abc import Sequence
from typing import Any

import click

from seatrial.traces.formats import FORMATS, read_trace
from seatrial.traces.recording import TraceFile

from .regrade_options import judge_recorded, judging_options
from .table import lay_out


@click.command("import-trace")
@click.argument("files", nargs=-1, required=True)
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), help="Of the files; found out without it.")
@click.option("--suite", "suites", multiple=True, metavar="PATH", help="Scenarios to judge the recordings by.")
@click.option("--name", help="A name for the run; without it, that of the files or of the suite.")
@judging_options
def command(files: tuple[str, ...], suites: tuple[str, ...], **options: Any) -> int:
    """Store the recorded conversations of FILES as a run, to be shown, compared and judged like any other.

    With `--suite`, each conversation is judged by the scenario of its name, or by the one whose user says the same.
    Without it nothing is asserted of them, and that is no pass. Exit codes as in `seatrial run`.
    """
    from seatrial.runs.import_traces import import_traces

    traces = [read_trace(file, format=options["format_"]) for file in dict.fromkeys(files)]
    _tell_notes(traces)
    done = judge_recorded(lambda request: import_traces(traces, request), suites, options)
    if not suites:
        click.echo("nothing was asserted, so this is no pass; to judge the conversations, give --suite PATH", err=True)
    _tell_rest("recorded, but no scenario asks for it:", ("conversation",), [(name,) for name in done.unmatched])
    missing = [(key.suite, key.label) for key in done.without_recording]
    _tell_rest("nothing is recorded for:", ("suite", "scenario"), missing)
    return done.report.exit_code


def _tell_notes(traces: list[TraceFile]) -> None:
    from seatrial.reports.escaping import defused, visible

    for trace in traces:
        for note in trace.notes:
            click.echo(defused(visible(f"{trace.path}: {note}")), err=True)


def _tell_rest(head: str, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from seatrial.reports.escaping import defused, visible

    if rows:
        click.echo(head, err=True)
        for line in lay_out(columns, rows):
            click.echo(defused(visible(f"  {line}")), err=True)

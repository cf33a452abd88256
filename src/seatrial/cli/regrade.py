"""What the commands that judge recorded conversations have in common: their flags, their request, what they show."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
from msgspec.structs import replace

from seatrial.reports.progress import Progress
from seatrial.reports.registry import parse_report_option
from seatrial.runs.report import Report
from seatrial.runs.request import RunRequest

from . import shell_completion
from .options import check_run_name, make_request, read_environment
from .output import format_table, show_and_write

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Judged(Protocol):
    @property
    def report(self) -> Report: ...


_Done = TypeVar("_Done", bound=_Judged)


def judging_options(command: _Command) -> _Command:
    """The flags from --judge-model on."""
    for option in reversed(
        (
            click.option("--judge-model", help="Model of the judge, such as openai:gpt-5-mini."),
            click.option("--store", help="Where runs are stored: a file or postgresql://…."),
            click.option(
                "--report", "reports", multiple=True, metavar="KIND[=PATH]", help="console, json, jsonl, html, junit, …"
            ),
            click.option("--verbose", "-v", is_flag=True, help="Show whole transcripts, tool calls and all results."),
            click.option("--env-file", metavar="FILE", help="Read environment variables from a file."),
        )
    ):
        command = option(command)
    return command


def judge_recorded(judge: Callable[[RunRequest], _Done], sources: Sequence[str], options: dict[str, Any]) -> _Done:
    """What `judge` makes of the flags' request, shown and written as they ask."""
    reports = [parse_report_option(text) for text in options["reports"]]
    folder = Path.cwd()
    model = options["judge_model"]
    progress = Progress(sys.stderr)
    request = make_request(
        sources,
        environ=read_environment(options["env_file"]),
        overrides={"models": {"judge": model} if model else None},
        name=check_run_name(options["name"]),
        store=options["store"],
        listeners=(progress,),
    )
    try:
        done = judge(replace(request, sources=tuple(sources)))
    finally:
        progress.close()
    show_and_write(done.report, reports, folder=folder, verbose=options["verbose"], environ=request.environ)
    return done


@click.command("regrade")
@click.argument("run", shell_complete=shell_completion.runs)
@click.argument("paths", nargs=-1)
@click.option("--name", help="Name of the new run. Default: the name of the old run.")
@judging_options
def command(run: str, paths: tuple[str, ...], **options: Any) -> int:
    """Judge the stored conversations of RUN again, with the expectations that the files have now.

    No agent is called. The verdicts become a new run, and those of RUN stay beside them. PATHS are the files to take
    the expectations from; by default those that RUN was made from. Exit codes as in `seatrial run`.
    """
    from seatrial.runs.regrade import regrade

    done = judge_recorded(lambda request: regrade(run, request), paths, options)
    click.echo(f"regraded from run {done.report.run.parent}, which is unchanged")
    if done.unfinished is not None:
        click.echo(done.unfinished, err=True)
    if done.gone:
        click.echo("not judged again, because they are no longer in the files:", err=True)
        for line in format_table(("suite", "scenario"), [(key.suite, key.label) for key in done.gone]):
            click.echo(f"  {line}", err=True)
    return done.report.exit_code

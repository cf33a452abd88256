"""`seatrial regrade`, and what it shares with `import-trace`: judging conversations that exist already."""

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
from .options import (
    check_run_name,
    env_file_option,
    judge_model_option,
    make_request,
    read_environment,
    report_option,
    store_option,
    verbose_option,
)
from .output import print_table, show_and_write

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Judged(Protocol):
    @property
    def report(self) -> Report: ...


_Done = TypeVar("_Done", bound=_Judged)


def judging_options(command: _Command) -> _Command:
    """The options from --judge-model on."""
    for option in (env_file_option, verbose_option, report_option, store_option, judge_model_option):
        command = option(command)
    return command


def judge_recorded(judge: Callable[[RunRequest], _Done], sources: Sequence[str], options: dict[str, Any]) -> _Done:
    """Judge with the options, then print the run and write its reports."""
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
    """Judge the stored conversations of RUN again, with the current expectations of the files.

    No agent is called. The verdicts become a new run; RUN is unchanged. PATHS are the files with the expectations;
    the default is the files of RUN. Exit codes as in `seatrial run`.
    """
    from seatrial.runs.regrade import regrade

    done = judge_recorded(lambda request: regrade(run, request), paths, options)
    click.echo(f"regraded from run {done.report.run.parent}, which is unchanged")
    if done.unfinished is not None:
        click.echo(done.unfinished, err=True)
    if done.gone:
        click.echo("not judged again, because they are no longer in the files:", err=True)
        print_table(("suite", "scenario"), [(key.suite, key.label) for key in done.gone], indent="  ", err=True)
    return done.report.exit_code

"""`seatrial regrade`."""

import sys
from dataclasses import replace
from typing import Any

import click

from seatrial.reports import Progress, parse_report_option, print_run, write_report

from . import completing
from .request import make_request, read_environment
from .table import lay_out


@click.command("regrade")
@click.argument("run", shell_complete=completing.runs)
@click.argument("paths", nargs=-1)
@click.option("--name", help="A name for the new run; without it, that of the old one.")
@click.option("--judge-model", help="The model that judges, such as openai:gpt-5-mini.")
@click.option("--store", help="Where runs are kept: a file or postgresql://….")
@click.option("--report", "reports", multiple=True, metavar="KIND[=PATH]", help="console, json, jsonl, html, junit, …")
@click.option("--verbose", "-v", is_flag=True, help="Whole transcripts, tool calls, all results.")
@click.option("--env-file", metavar="FILE", help="Environment variables from a file.")
def command(run: str, paths: tuple[str, ...], **options: Any) -> int:
    """Judge the stored conversations of RUN again, with the expectations that the files have now.

    No agent is called. The verdicts become a new run, and those of RUN stay beside them. PATHS are the files to take
    the expectations from; by default those that RUN was made from. Exit codes as in `seatrial run`.
    """
    from seatrial.session.regrading import regrade

    reports = [parse_report_option(text) for text in options["reports"]]
    progress = Progress(sys.stderr)
    judge = options["judge_model"]
    request = make_request(
        paths,
        environ=read_environment(options["env_file"]),
        overrides={"models": {"judge": judge} if judge else None},
        name=options["name"],
        store=options["store"],
        listeners=(progress,),
    )
    try:
        done = regrade(run, replace(request, sources=paths))
    finally:
        progress.close()
    print_run(done.report.record, sys.stdout, verbose=options["verbose"])
    for kind, path in reports:
        if kind != "console":
            write_report(kind, done.report.record, path or request.environ.get("GITHUB_STEP_SUMMARY") or "-")
    click.echo(f"regraded from run {done.report.run.parent}, which stays as it was")
    if done.gone:
        click.echo("no longer in the files, so not judged again:", err=True)
        for line in lay_out(("suite", "scenario"), [(key.suite, key.label) for key in done.gone]):
            click.echo(f"  {line}", err=True)
    return done.report.exit_code

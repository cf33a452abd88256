"""`seatrial regrade`."""

from typing import Any

import click

from . import shell_completion
from .regrade_options import judge_recorded, judging_options
from .table import lay_out


@click.command("regrade")
@click.argument("run", shell_complete=shell_completion.runs)
@click.argument("paths", nargs=-1)
@click.option("--name", help="A name for the new run; without it, that of the old one.")
@judging_options
def command(run: str, paths: tuple[str, ...], **options: Any) -> int:
    """Judge the stored conversations of RUN again, with the expectations that the files have now.

    No agent is called. The verdicts become a new run, and those of RUN stay beside them. PATHS are the files to take
    the expectations from; by default those that RUN was made from. Exit codes as in `seatrial run`.
    """
    from seatrial.runs.regrade import regrade

    done = judge_recorded(lambda request: regrade(run, request), paths, options)
    click.echo(f"regraded from run {done.report.run.parent}, which stays as it was")
    if done.unfinished is not None:
        click.echo(done.unfinished, err=True)
    if done.gone:
        click.echo("no longer in the files, so not judged again:", err=True)
        for line in lay_out(("suite", "scenario"), [(key.suite, key.label) for key in done.gone]):
            click.echo(f"  {line}", err=True)
    return done.report.exit_code

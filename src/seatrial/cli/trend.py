"""`seatrial trend`."""

import click

from seatrial.errors import UsageError
from seatrial.reports.json_report import to_json
from seatrial.reports.terminal import json_text, safe_text
from seatrial.runs.trend import describe, read_trends

from .options import json_option, open_stored, store_option


@click.command("trend")
@click.option("--suite", help="Only this suite.")
@click.option("--verbose", "-v", is_flag=True, help="List every run, also without a decay.")
@json_option
@store_option
def command(suite: str | None, verbose: bool, as_json: bool, store: str | None) -> int:
    """Find a slow decay of the pass rate over the accepted runs, which no comparison of two runs shows.

    Accepted runs are those that are or were a baseline. Exit code 0: no decay. 1: the pass rate decays. 3: there are
    too few runs to tell.
    """
    with open_stored(store) as opened:
        trends = [trend for trend in read_trends(opened) if suite in (None, trend.suite)]
    if not trends:
        of = "" if suite is None else f" of suite {suite!r}"
        raise UsageError(f"no run{of} is accepted. Accept one: seatrial baseline set RUN")
    if as_json:
        click.echo(json_text(to_json(trends)))
    else:
        for trend in trends:
            click.echo(safe_text("\n".join([trend.verdict, *describe(trend, verbose=verbose)])))
    verdicts = {trend.verdict for trend in trends}
    return 1 if "DRIFT" in verdicts else 3 if "TOO FEW RUNS" in verdicts else 0

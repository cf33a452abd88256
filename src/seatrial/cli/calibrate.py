"""`seatrial calibrate`."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seatrial.errors import UsageError
from seatrial.reports.terminal import TerminalWriter, shorten
from seatrial.reports.texts import counted
from seatrial.settings import read_settings

from .options import json_option, store_option

if TYPE_CHECKING:
    from seatrial.judges.labels import Calibration
    from seatrial.runs.calibrate import CalibrationReport

_SHOWN = 20


@click.command("calibrate")
@click.argument("labels", required=False, metavar="[LABELS]")
@click.option("--judge-model", help="Judge model to compare with the labels. Default: the stored results of the run.")
@click.option("--rubric", metavar="TEXT", help="Rubric that the judge decides on.")
@click.option("--metric", metavar="NAME", help="Metric that the judge scores, instead of a rubric.")
@click.option("--at-least", type=float, default=3.0, show_default=True, help="Lowest score of the metric that passes.")
@click.option("--votes", type=click.IntRange(min=1), default=1, show_default=True, help="Votes per trial; odd.")
@click.option("--run", metavar="RUN", help="Stored run that the labels belong to.")
@store_option
@json_option
def command(labels: str | None, as_json: bool, **options: Any) -> int:
    """Compare a judge with human labels: agreement, errors, and the pass rate corrected for them.

    LABELS is a CSV file or JSON Lines with the column `label` (pass, fail or a score), and the conversation as `input`
    and `output`, as `messages`, or as the `scenario` and `trial` of a stored RUN. Without a file, the labels
    stored with RUN are used. Exit code 1: a trial could not be judged.
    """
    from seatrial.runs.calibrate import CalibrationRequest, calibrate_judge

    settings = read_settings(Path.cwd(), os.environ)
    if options["votes"] % 2 == 0:
        raise UsageError(f"--votes {options['votes']}: expected an odd number, so that there is always a majority")
    asks = options["rubric"] is not None or (options["metric"] is not None and options["run"] is None)
    report = calibrate_judge(
        CalibrationRequest(
            labels=None if labels is None else Path(labels),
            run=options["run"],
            rubric=options["rubric"],
            metric=options["metric"],
            model=options["judge_model"] or (settings["judge_model"] if asks else None),
            votes=options["votes"],
            at_least=options["at_least"],
            store=options["store"] or settings["store"],
            cache=settings["cache"],
        )
    )
    if as_json:
        click.echo(json.dumps(_json(report), ensure_ascii=True))
    else:
        _print(report)
    return 1 if report.unanswered else 0


def _json(report: "CalibrationReport") -> dict[str, Any]:
    return {
        **asdict(report.calibration),
        "rows": [
            {name: getattr(row, name) for name in ("place", "human", "judge", "reason", "split")} for row in report.rows
        ],
        "model_calls": report.use.calls,
        "cache_hits": report.use.cached,
        "model_cost_usd": report.use.cost_usd,
    }


def _print(report: "CalibrationReport") -> None:
    writer = TerminalWriter(sys.stdout)
    for line in _numbers(report.calibration):
        writer.line(line)
    if report.split_votes:
        writer.line(f"the judge's votes differ in {counted(len(report.split_votes), 'trial')}:")
        for row in report.split_votes[:_SHOWN]:
            writer.line(f"{row.place}: {shorten(row.reason, 400)}", indent=2)
    if report.disagreeing:
        writer.line("disagreements, wrong passes first:")
    for row in report.disagreeing[:_SHOWN]:
        words = "human failed, judge passed" if row.judge else "human passed, judge failed"
        writer.line(f"{row.place}: {words}: {shorten(row.reason, 400)}", indent=2)
    for row in report.unanswered[:_SHOWN]:
        writer.line(f"no answer: {row.place}: {shorten(row.reason, 400)}")
    if report.unanswered:
        writer.line(f"{counted(len(report.unanswered), 'trial')} not judged and not counted above")
    use = report.use
    if use.calls or use.cached:
        cost = "cost unknown" if use.cost_usd is None else f"${use.cost_usd:.4f}"
        writer.line(f"{counted(use.calls, 'model call')} ({use.cached} more cached, {cost})", style="dim")


def _numbers(found: "Calibration") -> list[str]:
    table, agreement, corrected = found.table, found.agreement, found.corrected
    lines = [
        f"{'':14}{'judge passed':>14}{'judge failed':>14}",
        f"{'human passed':14}{table.seen_passes:>14}{table.missed_passes:>14}",
        f"{'human failed':14}{table.missed_failures:>14}{table.seen_failures:>14}",
        f"agreement {_rate(agreement.accuracy)}, kappa {_rate(agreement.kappa)}{_interval(agreement.kappa_interval)}",
        f"recognises a pass (TPR) {_rate(agreement.true_pass_rate)}{_interval(agreement.true_pass_interval)}, "
        f"{table.seen_passes} of {table.passes}",
        f"recognises a failure (TNR) {_rate(agreement.true_fail_rate)}{_interval(agreement.true_fail_interval)}, "
        f"{table.seen_failures} of {table.failures}",
    ]
    if corrected is None:
        return lines
    if not corrected.usable:
        why = "the labels lack passes or failures" if corrected.youden is None else "the judge is no better than a coin"
        return [*lines, f"pass rate: judge {_rate(corrected.raw)}; it cannot be corrected: {why}"]
    rate = f"corrected {_rate(corrected.estimate)}{_interval(corrected.interval)}"
    return [*lines, f"pass rate: judge {_rate(corrected.raw)}, {rate}"]


def _rate(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f" [{bounds[0]:.2f}, {bounds[1]:.2f}]"

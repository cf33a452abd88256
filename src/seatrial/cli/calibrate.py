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
from seatrial.verdicts.reasons import human_rate_text

from .options import json_option, open_stored, store_option

if TYPE_CHECKING:
    from seatrial.judges.labels import Calibration
    from seatrial.model.run import Run
    from seatrial.runs.calibrate import CalibrationReport
    from seatrial.statistics.agreement import CalibratedRate, JudgeAgreement
    from seatrial.store.store import Store

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
    """Compare a judge with human labels: agreement, errors, and the pass rate that humans would give.

    LABELS is a CSV file or JSON Lines with the column `label` (pass, fail or a score), and the conversation as `input`
    and `output`, as `messages`, or as the `scenario` and `trial` of a stored RUN. Without a file, the labels
    stored with RUN are used. Labels must be chosen at random among the trials that the judge passed, and among those
    that it failed: `seatrial label RUN --next 20` does. Exit code 1: a trial could not be judged.
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
    code = 0
    if options["run"] is not None:
        with open_stored(options["store"]) as opened:
            code = show_gate(opened, opened.run(options["run"]), quiet=as_json)
    return 1 if report.unanswered else code


def show_gate(store: "Store", run: "Run", *, quiet: bool = False) -> int:
    """Decide the run's gate `judge_corrected` by the labels stored with it. The exit code; 0 without such a gate."""
    from seatrial.runs.calibrate import decide_gate

    found, gate = decide_gate(store, run), run.gates.judge_corrected
    if found is None or gate is None:
        return 0
    if not quiet:
        click.echo(f"{found.decision.upper()}: {human_rate_text(found, gate, run_id=run.id)}")
    return {"pass": 0, "fail": 1, "inconclusive": 3}[found.decision]


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
        writer.line(": ".join(filter(None, (row.place, words, shorten(row.reason, 400)))), indent=2)
    for row in report.unanswered[:_SHOWN]:
        writer.line(f"no answer: {row.place}: {shorten(row.reason, 400)}")
    if report.unanswered:
        writer.line(f"{counted(len(report.unanswered), 'trial')} not judged and not counted above")
    use = report.use
    if use.calls or use.cached:
        cost = "cost unknown" if use.cost_usd is None else f"${use.cost_usd:.4f}"
        writer.line(f"{counted(use.calls, 'model call')} ({use.cached} more cached, {cost})", style="dim")


def _numbers(found: "Calibration") -> list[str]:
    table, corrected = found.table, found.corrected
    lines = [
        f"{'':14}{'judge passed':>14}{'judge failed':>14}",
        f"{'human passed':14}{table.seen_passes:>14}{table.missed_passes:>14}",
        f"{'human failed':14}{table.missed_failures:>14}{table.seen_failures:>14}",
    ]
    if corrected is None:
        return [*lines, *_agreement(found.agreement)]
    lines += [f"warning: {warning}" for warning in corrected.warnings]
    if not corrected.usable:
        between = f"between {_rate(corrected.bounds[0])} and {_rate(corrected.bounds[1])}"
        why = "one of the judge's verdicts has no label"
        return [*lines, f"pass rate: judge {_rate(corrected.raw)}; humans would say {between}: {why}"]
    if found.unlabelled:
        lines.append(f"estimated for all {counted(found.trials, 'trial')} that the judge saw:")
    rate = f"humans would say {_rate(corrected.estimate)}{_interval(corrected.interval)}"
    measures = _agreement(corrected if found.unlabelled else found.agreement)
    return [*lines, *measures, f"pass rate: judge {_rate(corrected.raw)}, {rate}"]


def _agreement(found: "JudgeAgreement | CalibratedRate") -> list[str]:
    """The measures of agreement, in words."""
    kappa = f"beyond chance (kappa) {_rate(found.kappa)}{_interval(found.kappa_interval)}"
    return [
        f"agreement {_rate(found.accuracy)}, {kappa}",
        f"recognises a pass (TPR) {_rate(found.true_pass_rate)}{_interval(found.true_pass_interval)}",
        f"recognises a failure (TNR) {_rate(found.true_fail_rate)}{_interval(found.true_fail_interval)}",
    ]


def _rate(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f" [{bounds[0]:.2f}, {bounds[1]:.2f}]"

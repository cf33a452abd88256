"""`seatrial trend`: whether the pass rate of a suite decays slowly over its accepted runs.

The oldest accepted runs are the reference, until each scenario has 50 trials on average. An e-detector watches the runs
after them (`statistics.history_gate.detect_drift`).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from seatrial.model.run import ScenarioKey
from seatrial.model.struct import Struct
from seatrial.statistics.history_gate import ALARM, detect_drift
from seatrial.verdicts.reasons import counted

if TYPE_CHECKING:
    from seatrial.statistics.intervals import Count
    from seatrial.store.store import Store

    from .against_history import TrialHistory

REFERENCE_TRIALS = 50
"""Of each scenario, on average."""


class TrendPoint(Struct, frozen=True, kw_only=True):
    """One run after the reference."""

    run: str
    name: str
    at: datetime
    passed: int
    trials: int
    evidence: float
    """Of the detector after this run; it alarms at 400."""


class Trend(Struct, frozen=True, kw_only=True):
    """The trend of one suite."""

    suite: str
    verdict: Literal["DRIFT", "NO DRIFT", "TOO FEW RUNS"]
    text: str
    reference: tuple[str, ...] = ()
    """The runs of the reference, oldest first."""
    reference_passed: int = 0
    reference_trials: int = 0
    points: tuple[TrendPoint, ...] = ()
    """Oldest first."""
    since: str | None = None
    """The run at which the decay most likely began."""


def read_trends(store: "Store") -> list[Trend]:
    """The trend of each suite that has an accepted run."""
    from .against_history import BASELINE, read_history

    suites = {entry.key.suite for run in store.runs(500) if run.accepted for entry in store.entries(run.id)}
    suites |= {entry.key.suite for _, run in store.baselines() for entry in store.entries(run.id)}
    return [find_trend(read_history(store, BASELINE, baselines={suite: None}), suite) for suite in sorted(suites)]


def find_trend(history: "TrialHistory", suite: str) -> Trend:
    """The trend of the suite. Each scenario counts as it is in its newest run: an edit begins it anew."""
    newest: dict[ScenarioKey, Mapping[str, tuple[bool, ...]]] = {}
    for (key, _), by_run in history.answers.items():
        if key.suite == suite:
            newest.setdefault(key, by_run)
    runs = [run for run in reversed(history.runs) if any(run.id in by_run for by_run in newest.values())]
    counts = [[_count(by_run.get(run.id, ())) for by_run in newest.values()] for run in runs]
    length = _reference_length(counts)
    if length is None or length == len(runs):
        has = sum(total for run in counts for _, total in run) / max(len(newest), 1)
        why = "there is no run after them" if length else f"the accepted runs have {has:.0f}"
        text = f"too few runs: {REFERENCE_TRIALS} trials of each scenario are needed first, and {why}"
        return Trend(suite=suite, verdict="TOO FEW RUNS", text=text)
    reference = [_add(scenario) for scenario in zip(*counts[:length], strict=True)]
    drift = detect_drift(reference, counts[length:])
    passed, total = _add(reference)
    points = tuple(
        TrendPoint(run=run.id, name=run.name, at=run.started_at, passed=sums[0], trials=sums[1], evidence=evidence)
        for run, sums, evidence in zip(runs[length:], map(_add, counts[length:]), drift.values, strict=True)
    )
    since = None if drift.since is None else points[drift.since].run
    last = points[-1]
    shown = f"{last.passed} of {counted(last.trials, 'trial')} passed in the newest run"
    expected = "" if drift.expected is None else f", {drift.expected * last.trials:.0f} expected"
    if since is None:
        text = f"no slow decay in {counted(len(points), 'run')} after the reference: {shown}{expected}"
    else:
        text = f"the pass rate decays since run {since}: {shown}{expected}"
    return Trend(
        suite=suite,
        verdict="NO DRIFT" if since is None else "DRIFT",
        text=text,
        reference=tuple(run.id for run in runs[:length]),
        reference_passed=passed,
        reference_trials=total,
        points=points,
        since=since,
    )


def _reference_length(counts: "list[list[Count]]") -> int | None:
    """How many of the oldest runs have 50 trials of each scenario, on average; None if all have fewer."""
    total = 0
    for length, run in enumerate(counts, start=1):
        total += sum(count for _, count in run)
        if total >= REFERENCE_TRIALS * len(run):
            return length
    return None


def _count(answers: "tuple[bool, ...]") -> "Count":
    return sum(answers), len(answers)


def _add(counts: "list[Count] | tuple[Count, ...]") -> "Count":
    return sum(passed for passed, _ in counts), sum(total for _, total in counts)


def describe(trend: Trend, *, verbose: bool = False) -> list[str]:
    """The trend in lines."""
    lines = [f"{trend.suite}: {trend.text}"]
    if trend.reference:
        rate = f"{trend.reference_passed} of {counted(trend.reference_trials, 'trial')} passed"
        lines.append(f"  reference: {counted(len(trend.reference), 'run')}, {rate}")
    for point in trend.points if verbose or trend.since else ():
        mark = ", the decay begins here" if point.run == trend.since else ""
        counts = f"{point.passed}/{point.trials}"
        shown = f"{point.evidence:.1f}" if point.evidence < ALARM else f"over {ALARM:.0f}"
        evidence = f"evidence {shown} (alarm at {ALARM:.0f})"
        lines.append(f"  {point.at:%Y-%m-%d %H:%M}  {point.run}  {counts:>9}  {evidence}{mark}")
    return lines

"""Plots of scenarios and runs, from their outcomes and trials."""

from collections.abc import Callable, Iterable, Sequence

from seatrial.model.run import ScenarioOutcome, Status, Trial, TrialSummary

from .plots.comparisons import flow_of, tool_flow
from .plots.distributions import (
    TrialDot,
    interval_bar,
    latency_histogram,
    metric_strip,
    pass_curve,
    severity_bars,
    sparkline,
    trial_dots,
)
from .plots.svg import Plot
from .scenario_totals import repeat_chances
from .texts import trials_of


def dots_of(
    outcome: ScenarioOutcome,
    trials: Sequence[TrialSummary | Trial],
    href: Callable[[TrialSummary | Trial], str] | None = None,
) -> Plot:
    """A dot for each trial of the scenario."""
    dots = [
        TrialDot(
            id=one.id, status=one.status.value, href=href(one) if href and one.status is not Status.PASSED else None
        )
        for one in trials
    ]
    return trial_dots(dots, missing=outcome.not_run)


def interval_of(outcome: ScenarioOutcome) -> Plot | None:
    """The pass rate with its interval; None for a single trial, whose interval says nothing."""
    answered = outcome.passed + outcome.failed + outcome.broken_down
    if outcome.interval is None or trials_of(outcome) < 2 or not answered:
        return None
    gates = outcome.entry.gates
    required = gates.pass_rate if gates.pass_rate is not None else gates.threshold
    low, high = outcome.interval.low, outcome.interval.high
    return interval_bar(outcome.passed / answered, low, high, required=required)


def scores_of(trials: Iterable[TrialSummary | Trial]) -> dict[str, list[float]]:
    """The scores of each metric, over all trials."""
    values: dict[str, list[float]] = {}
    for trial in trials:
        given = trial.scores if isinstance(trial, TrialSummary) else trial.judgement.scores if trial.judgement else ()
        for score in given:
            values.setdefault(score.metric, []).append(score.value)
    return values


def strip_of(metric: str, values: Sequence[float], threshold: float | None = None) -> Plot:
    """The scores of a metric as one strip, red to green."""
    return metric_strip(values, name=metric, threshold=threshold)


def history_of(metric: str, means: Sequence[float]) -> Plot:
    """The means of a metric in recent runs."""
    return sparkline(means, name=metric)


def latency_of(trials: Iterable[TrialSummary]) -> Plot:
    """How long turns took; trials of earlier versions count with their slowest turn."""
    known = [one.latencies_ms or ((one.latency_ms,) if one.latency_ms is not None else ()) for one in trials]
    return latency_histogram([value for each in known for value in each], title="Latency of turns")


def severity_of(trials: Iterable[TrialSummary]) -> Plot:
    """Behaviour failures that the judge found."""
    found: dict[str, dict[str, int]] = {}
    for trial in trials:
        for severity, label in {(severity, label) for severity, label, *_ in trial.failures}:
            labels = found.setdefault(severity, {})
            labels[label] = labels.get(label, 0) + 1
    return severity_bars(found, title="Behaviour failures by severity")


def curve_of(outcome: ScenarioOutcome) -> Plot:
    """The chances of several tries. After `trials: auto` there is no such curve: its number of trials was not fixed."""
    chances = repeat_chances(outcome)
    return pass_curve(chances.pass_hat_k, chances.pass_at_k, title="Chance that k tries pass (pass^k, pass@k)")


def flow_of_trials(trials: Iterable[Trial]) -> Plot:
    """The steps between tools, in passed and in other trials."""
    passed: list[list[str]] = []
    failed: list[list[str]] = []
    for trial in trials:
        names = [call.name for call in trial.transcript.seen_calls]
        (passed if trial.status is Status.PASSED else failed).append(names)
    return tool_flow(flow_of(passed), flow_of(failed), title="Tool calls of passed and failed trials")

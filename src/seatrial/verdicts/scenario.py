"""From a scenario's trials to its verdict."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from seatrial.statistics import wilson_interval
from seatrial.vocabulary.findings import Severity, UniqueError
from seatrial.vocabulary.run import (
    Gates,
    Interval,
    ScenarioEntry,
    ScenarioOutcome,
    Status,
    TrialSummary,
    Verdict,
)

from . import reasons
from .averages import mean
from .rates import answer_of, decide_rate


def decide_scenario(
    entry: ScenarioEntry, trials: Iterable[TrialSummary], *, unique_errors: Sequence[UniqueError] | None = None
) -> ScenarioOutcome:
    """The verdict of one scenario, and the numbers it follows from."""
    ordered = sorted(trials, key=lambda trial: trial.index)
    if entry.skip is not None:
        skipped = Verdict(status=Status.NOT_RUN, failure_reasons=(f"skipped: {entry.skip}",))
        return ScenarioOutcome(entry=entry, verdict=skipped, skipped=True)
    counts = {status: sum(trial.status is status for trial in ordered) for status in Status}
    played = counts[Status.PASSED] + counts[Status.FAILED] + counts[Status.ERRORED]
    errors = merge_failures(ordered) if unique_errors is None else tuple(unique_errors)
    averages = average_metrics(ordered)
    verdict, notes = _decide(entry, ordered, averages, errors)
    xfailed = entry.xfail is not None and _failed_as_foretold(verdict, ordered)
    if entry.xfail is not None and verdict.passed:
        verdict = Verdict(status=Status.FAILED, failure_reasons=(reasons.unexpected_pass(entry.xfail),))
    scores = [trial.overall_score for trial in ordered if trial.overall_score is not None]
    return ScenarioOutcome(
        entry=entry,
        verdict=verdict,
        passed=counts[Status.PASSED],
        failed=counts[Status.FAILED],
        errored=counts[Status.ERRORED],
        not_run=0 if entry.sequential and verdict.status is not Status.NOT_RUN else max(entry.trials - played, 0),
        interval=_interval(ordered),
        metric_averages=averages or None,
        unique_errors=errors,
        overall_score=mean(scores),
        notes=notes,
        xfailed=xfailed,
    )


def _decide(
    entry: ScenarioEntry,
    trials: Sequence[TrialSummary],
    averages: Mapping[str, float],
    errors: Sequence[UniqueError],
) -> tuple[Verdict, tuple[str, ...]]:
    if not trials:
        return Verdict(status=Status.NOT_RUN, failure_reasons=(reasons.nothing_run(),)), ()
    rate = decide_rate(entry, trials)
    unscored = _unscored_metrics(entry.gates, averages, trials)
    other = _other_failures(entry.gates, averages, errors)
    status = rate.verdict.status
    if unscored and status is Status.PASSED:
        status = Status.ERRORED
    if other:
        # Not even passes in place of the errored trials would mend these, so the agent failed.
        status = Status.FAILED
    other = (*other, *unscored)
    details = _trial_failures(trials) if status is not Status.PASSED else ()
    return Verdict(status=status, failure_reasons=(*rate.verdict.failure_reasons, *details, *other)), rate.notes


def _failed_as_foretold(verdict: Verdict, trials: Sequence[TrialSummary]) -> bool:
    """An xfail foretells a failure of the agent, not one of our instruments."""
    if verdict.status is Status.FAILED:
        return True
    kinds = {trial.error_kind for trial in trials if trial.status is Status.ERRORED}
    return verdict.status is Status.ERRORED and kinds == {"agent"}


def _trial_failures(trials: Sequence[TrialSummary]) -> tuple[str, ...]:
    unmatched = sum(trial.trajectory_matched is False for trial in trials)
    return (reasons.trajectory_failed(unmatched),) if unmatched else ()


def _other_failures(gates: Gates, averages: Mapping[str, float], errors: Sequence[UniqueError]) -> tuple[str, ...]:
    found = []
    for metric, threshold in (gates.metric_thresholds or {}).items():
        average = averages.get(metric)
        if average is not None and round(average, 2) < threshold:
            found.append(reasons.metric_below(metric, average, threshold))
    severity = gates.fail_on_error_severity
    if severity is not None:
        count = sum(error.severity.rank >= severity.rank for error in errors)
        if count:
            found.append(reasons.errors_at_or_above(count, severity))
    return tuple(found)


def _unscored_metrics(gates: Gates, averages: Mapping[str, float], trials: Sequence[TrialSummary]) -> tuple[str, ...]:
    """Metrics with a threshold that no trial has a score for, although some trial was judged."""
    if all(trial.status is Status.ERRORED for trial in trials):
        return ()
    return tuple(reasons.metric_missing(metric) for metric in gates.metric_thresholds or () if metric not in averages)


def _interval(trials: Sequence[TrialSummary]) -> Interval | None:
    found = (answer_of(trial.status, trial.error_kind) for trial in trials)
    answers = [answer for answer in found if answer is not None]
    if not answers:
        return None
    low, high = wilson_interval(sum(answers), len(answers))
    return Interval(low=low, high=high)


def average_metrics(trials: Iterable[TrialSummary]) -> dict[str, float]:
    """All scores of a metric, over all turns and trials, pooled."""
    pooled: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        for score in trial.scores:
            pooled[score.metric].append(score.value)
    return {metric: fsum(values) / len(values) for metric, values in pooled.items()}


def merge_failures(trials: Iterable[TrialSummary]) -> tuple[UniqueError, ...]:
    """Behaviour failures of the same severity and label become one, worst and most frequent first."""
    found: dict[tuple[str, str], tuple[str, list[tuple[int, int | None]]]] = {}
    for trial in trials:
        for severity, label, explanation, turn in trial.failures:
            found.setdefault((severity, label), (explanation, []))[1].append((trial.index, turn))
    errors = [
        UniqueError(severity=Severity(severity), label=label, explanation=explanation, examples=tuple(examples))
        for (severity, label), (explanation, examples) in found.items()
    ]
    return tuple(sorted(errors, key=lambda error: (-error.severity.rank, -error.occurrences, error.label)))

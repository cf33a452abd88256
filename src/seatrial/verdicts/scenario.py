"""The verdict of a scenario: pass rate, metric thresholds, behaviour failures, xfail."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import fsum
from operator import attrgetter

from seatrial.model.conversation import ErrorKind
from seatrial.model.results import Severity, UniqueError
from seatrial.model.run import (
    Decision,
    Gates,
    Interval,
    MergedErrors,
    ScenarioEntry,
    ScenarioOutcome,
    Status,
    TrialSummary,
    Verdict,
)
from seatrial.statistics.intervals import always_valid_interval, wilson_interval

from . import reasons
from .attacks import never_received
from .faults import decide_variant
from .rates import answer_of, decide_rate
from .reasons import mean, meets

_Place = tuple[int, int | None]


def fits(merged: MergedErrors, trials: Iterable[TrialSummary]) -> bool:
    """Whether stored merged errors contain each failure of these trials once, with at least its severity."""
    found: dict[_Place, list[Severity]] = defaultdict(list)
    for trial in trials:
        for severity, _, _, turn in trial.failures:
            found[trial.index, turn].append(Severity(severity))
    told = _severities(merged.errors)
    if {place: len(ranks) for place, ranks in found.items()} != {place: len(ranks) for place, ranks in told.items()}:
        return False
    return all(
        given.rank <= kept.rank
        for place in found
        for given, kept in zip(_by_rank(found[place]), _by_rank(told[place]), strict=True)
    )


def _severities(errors: Iterable[UniqueError]) -> dict[_Place, list[Severity]]:
    told: dict[_Place, list[Severity]] = defaultdict(list)
    for error in errors:
        for place in error.examples:
            told[place].append(error.severity)
    return told


def _by_rank(severities: list[Severity]) -> list[Severity]:
    return sorted(severities, key=lambda severity: severity.rank)


def decide_scenario(
    entry: ScenarioEntry, trials: Iterable[TrialSummary], *, merged: MergedErrors | None = None
) -> ScenarioOutcome:
    """The verdict of one scenario, with its counts."""
    ordered = sorted(trials, key=_index)
    if entry.skip is not None:
        skipped = Verdict(status=Status.NOT_RUN, failure_reasons=(reasons.skipped(entry.skip),))
        return ScenarioOutcome(entry=entry, verdict=skipped, skipped=True)
    passed, failed, errored = _count(ordered)
    if merged is not None and not fits(merged, ordered):
        merged = None
    errors = merge_failures(ordered) if merged is None else merged.errors
    averages = average_metrics(ordered)
    verdict, notes, against = _decide(entry, ordered, averages, errors)
    counts = True
    if entry.variant is not None and entry.variant.kind == "fault":
        verdict, counts = decide_variant(entry, ordered)
    elif entry.variant is not None and never_received(ordered):
        verdict, counts = Verdict(status=Status.NOT_RUN, failure_reasons=(reasons.payload_never_received(),)), False
    xfailed = entry.xfail is not None and _failed_as_expected(verdict, ordered)
    if entry.xfail is not None and verdict.passed:
        verdict = Verdict(status=Status.FAILED, failure_reasons=(reasons.unexpected_pass(entry.xfail),))
    scores = [trial.overall_score for trial in ordered if trial.overall_score is not None]
    return ScenarioOutcome(
        entry=entry,
        verdict=verdict,
        passed=passed,
        failed=failed,
        errored=errored,
        broken_down=sum(trial.status is Status.ERRORED and answer_of(trial) is False for trial in ordered),
        not_run=_count_missing(entry, verdict, passed + failed + errored),
        interval=_interval(entry, ordered),
        metric_averages=averages or None,
        unique_errors=errors,
        overall_score=mean(scores),
        notes=(*notes, merged.note) if merged is not None and merged.note else notes,
        skipped=not counts,
        xfailed=xfailed,
        against_history=against,
    )


_index = attrgetter("index")


def _count(trials: Sequence[TrialSummary]) -> tuple[int, int, int]:
    """(passed, failed, errored)"""
    passed = failed = errored = 0
    for trial in trials:
        passed += trial.status is Status.PASSED
        failed += trial.status is Status.FAILED
        errored += trial.status is Status.ERRORED
    return passed, failed, errored


def _count_missing(entry: ScenarioEntry, verdict: Verdict, played: int) -> int:
    if entry.stops_by_results and verdict.status is not Status.NOT_RUN:
        return 0
    return max(entry.trials - played, 0)


def _decide(
    entry: ScenarioEntry,
    trials: Sequence[TrialSummary],
    averages: Mapping[str, float],
    errors: Sequence[UniqueError],
) -> tuple[Verdict, tuple[str, ...], Decision | None]:
    if not trials:
        return Verdict(status=Status.NOT_RUN, failure_reasons=(reasons.nothing_run(),)), (), None
    rate = decide_rate(entry, trials)
    low = _low_metrics(entry.gates, averages)
    severe = _severe_errors(entry.gates, errors)
    unscored = _unscored_metrics(entry.gates, trials)
    status = rate.verdict.status
    if severe or (low and status in (Status.PASSED, Status.INCONCLUSIVE) and not _could_lift(trials)):
        # Errored or missing trials could not change these.
        status = Status.FAILED
    elif status is Status.PASSED and (low or unscored):
        status = Status.ERRORED
    details = _trial_failures(trials) if status is not Status.PASSED else ()
    why = (*rate.verdict.failure_reasons, *details, *low, *severe, *unscored)
    by_score = count_decided_by_score(trials)
    notes = (*rate.notes, reasons.decided_by_score(by_score)) if by_score else rate.notes
    return Verdict(status=status, failure_reasons=why), notes, rate.against_history


def count_decided_by_score(trials: Iterable[TrialSummary]) -> int:
    """The number of trials that the score decided because the judge gave no outcomes."""
    return sum(trial.outcomes_unavailable and trial.status is not Status.ERRORED for trial in trials)


def _could_lift(trials: Sequence[TrialSummary]) -> bool:
    """Whether a trial errored before it got its scores, which could raise an average."""
    return any(trial.status is Status.ERRORED and not trial.scores for trial in trials)


def _failed_as_expected(verdict: Verdict, trials: Sequence[TrialSummary]) -> bool:
    """Whether the agent failed, as xfail expects. An instrument error is no expected failure."""
    if verdict.status is Status.FAILED:
        return True
    kinds = {trial.error_kind for trial in trials if trial.status is Status.ERRORED}
    return verdict.status is Status.ERRORED and kinds == {ErrorKind.AGENT}


def _trial_failures(trials: Sequence[TrialSummary]) -> tuple[str, ...]:
    unmatched = sum(trial.trajectory_matched is False for trial in trials)
    return (reasons.trajectory_failed(unmatched),) if unmatched else ()


def _low_metrics(gates: Gates, averages: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(
        reasons.metric_below(metric, averages[metric], threshold)
        for metric, threshold in (gates.metric_thresholds or {}).items()
        if metric in averages and not meets(averages[metric], threshold)
    )


def _severe_errors(gates: Gates, errors: Sequence[UniqueError]) -> tuple[str, ...]:
    severity = gates.fail_on_error_severity
    if severity is None:
        return ()
    count = sum(error.severity.rank >= severity.rank for error in errors)
    return (reasons.errors_at_or_above(count, severity),) if count else ()


def _unscored_metrics(gates: Gates, trials: Sequence[TrialSummary]) -> tuple[str, ...]:
    """Reasons for metrics with a threshold that have no score in some judged trials."""
    judged = [trial for trial in trials if trial.status is not Status.ERRORED or trial.error_kind is ErrorKind.JUDGE]
    found = []
    for metric in (gates.metric_thresholds or ()) if judged else ():
        lacking = sum(_lacks_scores(trial, metric) for trial in judged)
        if lacking == len(judged):
            found.append(reasons.metric_missing(metric))
        elif lacking:
            found.append(reasons.metric_incomplete(metric, lacking))
    return tuple(found)


def _lacks_scores(trial: TrialSummary, metric: str) -> bool:
    turns = [score.turn for score in trial.scores if score.metric == metric]
    by_turn = [turn for turn in turns if turn is not None]
    return len(by_turn) < trial.turns if by_turn else not turns


def _interval(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> Interval | None:
    answers = [answer for trial in trials if (answer := answer_of(trial)) is not None]
    return _interval_of(sum(answers), len(answers), sequential=entry.stops_by_results) if answers else None


@lru_cache(maxsize=4096)
def _interval_of(passed: int, total: int, *, sequential: bool = False) -> Interval:
    """Wilson's interval; after sequential stopping the always-valid one. Most scenarios share their counts."""
    low, high = (always_valid_interval if sequential else wilson_interval)(passed, total)
    return Interval(low=low, high=high)


def average_metrics(trials: Iterable[TrialSummary]) -> dict[str, float]:
    """The mean of each metric over all turns and trials."""
    pooled: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        for score in trial.scores:
            pooled[score.metric].append(score.value)
    return {metric: fsum(values) / len(values) for metric, values in pooled.items()}


def merge_failures(trials: Iterable[TrialSummary]) -> tuple[UniqueError, ...]:
    """Behaviour failures merged by severity and label, worst and most frequent first."""
    found: dict[tuple[str, str], tuple[str, list[tuple[int, int | None]]]] = {}
    for trial in trials:
        for severity, label, explanation, turn in trial.failures:
            found.setdefault((severity, label), (explanation, []))[1].append((trial.index, turn))
    errors = [
        UniqueError(severity=Severity(severity), label=label, explanation=explanation, examples=tuple(examples))
        for (severity, label), (explanation, examples) in found.items()
    ]
    return tuple(sorted(errors, key=lambda error: (-error.severity.rank, -error.occurrences, error.label)))

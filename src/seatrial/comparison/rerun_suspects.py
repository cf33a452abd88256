"""`--confirm`: suspected scenarios run again, and only their fresh trials decide.

Fresh trials are free of the luck that made a scenario suspect; counting the first ones again would be cherry-picking.
Each suspect gets one of three answers: confirmed, cleared (a drop of 40 points or more is excluded), or not decided
with what would decide it. A suspect whose baseline is too short for any answer does not run at all. If nothing changed,
suite test and fresh trials together flag 2 to 5 runs in a hundred (benchmarks/compare_power.py).
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from math import comb
from typing import Final, TypeAlias

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.comparison import Comparison, Confirmation, Evidence, FreshTrials, ScenarioChange
from seatrial.model.run import ScenarioKey, Status, TrialSummary
from seatrial.statistics.distributions import reaches
from seatrial.statistics.significance import ScenarioCounts, fisher_test, holm, newcombe_interval, stratified_test
from seatrial.verdicts.rates import answer_of

from . import messages
from .aggregates import group_trials
from .planning import ALPHA
from .significance import counts_of, p_values

Rerun: TypeAlias = Callable[[Sequence[ScenarioKey], int], tuple[str, Iterable[TrialSummary]]]
"""Runs each scenario this number of times with the candidate's agent; returns the run's id and its trials."""

SUSPECT_P: Final = 0.25
CONFIRM_ALPHA: Final = 0.025
"""The probability of confirming any suspect that did not change."""
CLEARED_DROP: Final = 0.4
"""A suspect is cleared if a drop this large is excluded (one-sided at 95 %)."""
FEWEST_TRIALS: Final = 8
MOST_TRIALS: Final = 60
_MOST_PLANNED: Final = 500


def find_suspects(comparison: Comparison) -> tuple[ScenarioKey, ...]:
    """The scenarios to run again: lower by more than usual, or with too few trials to tell."""
    return tuple(change.key for change in comparison.scenarios if _is_suspect(change))


def _is_suspect(change: ScenarioChange) -> bool:
    counts = counts_of(change)
    if counts is None or (counts.difference or 0.0) >= 0:
        return False
    too_few = comb(counts.base_total + counts.candidate_total, counts.candidate_total) < 1 / SUSPECT_P
    return too_few or change.word == "cannot tell" or reaches(p_values(counts)[0], SUSPECT_P)


def fresh_trials_needed(suspects: Sequence[ScenarioCounts]) -> int:
    """Trials of each suspect with which a complete break of all of them could be confirmed, at most 60."""
    needed = FEWEST_TRIALS
    for counts in suspects:
        while needed < MOST_TRIALS and not _could_confirm(counts, needed, len(suspects)):
            needed += 1
    return needed


def baseline_needed(counts: ScenarioCounts, fresh: int, suspects: int) -> int | None:
    """Trials that the baseline needs so that a few fresh trials can confirm a break; None if it has enough."""
    if _could_confirm(counts, fresh, suspects):
        return None
    few = min(fresh, FEWEST_TRIALS)
    total = counts.base_total + 1
    while total < _MOST_PLANNED:
        longer = dataclasses.replace(counts, base_passed=total, base_total=total)
        if _could_confirm(longer, few, suspects):
            break
        total += 1
    return total


def _could_confirm(counts: ScenarioCounts, fresh: int, suspects: int) -> bool:
    """Whether failures in all fresh trials would be enough."""
    broken = dataclasses.replace(counts, candidate_passed=0, candidate_total=fresh)
    return fresh > 0 and reaches(fisher_test(broken), CONFIRM_ALPHA / suspects)


def confirm(comparison: Comparison, rerun: Rerun, *, trials: int | None = None) -> Comparison:
    """The comparison with its statistical verdict decided by fresh trials of the suspects.

    A scenario is worse if its fresh trials say so; the suite is worse if it is so with and without them.
    """
    if trials is not None and trials < 1:
        raise UsageError(f"confirm: {trials!r} fresh trials are not at least 1. Leave it out to have it computed.")
    if not comparison.evidence.testable:
        return comparison
    by_key = {change.key: change for change in comparison.scenarios}
    counts = {key: found for key in find_suspects(comparison) if (found := counts_of(by_key[key])) is not None}
    lacking = {key: baseline_needed(one, trials or MOST_TRIALS, len(counts)) for key, one in counts.items()}
    ready = [key for key, needed in lacking.items() if needed is None]
    if not ready:
        waiting = tuple(_not_run(key, one, lacking[key]) for key, one in counts.items())
        done = Confirmation(run_id=None, trials=0, suspects=waiting, p_suite=comparison.evidence.mid_p_worse)
        return _decide(comparison, done)
    each = trials or fresh_trials_needed([counts[key] for key in ready])
    run_id, summaries = rerun(ready, each)
    grouped = group_trials(summaries)
    answers = {one.key: one for one in _judge([(key, counts[key], grouped.get(key, [])) for key in ready])}
    fresh = tuple(answers.get(key) or _not_run(key, one, lacking[key]) for key, one in counts.items())
    return _decide(
        comparison, Confirmation(run_id=run_id, trials=each, suspects=fresh, p_suite=_suite(comparison, answers))
    )


def _not_run(key: ScenarioKey, counts: ScenarioCounts, needed: int | None) -> FreshTrials:
    return FreshTrials(
        key=key,
        base_passed=counts.base_passed,
        base_total=counts.base_total,
        passed=0,
        total=0,
        left_out=0,
        p_worse=1.0,
        confirmed=False,
        could_confirm=False,
        baseline_needed=needed,
    )


def _judge(suspects: Sequence[tuple[ScenarioKey, ScenarioCounts, Sequence[TrialSummary]]]) -> Iterable[FreshTrials]:
    tested = []
    for key, counts, trials in suspects:
        answered = sum(answer_of(trial) is not None for trial in trials)
        passed = sum(trial.status is Status.PASSED for trial in trials)
        fresh = dataclasses.replace(counts, candidate_passed=passed, candidate_total=answered)
        tested.append((key, fresh, len(trials) - answered))
    adjusted = holm([fisher_test(counts) for _, counts, _ in tested])
    for (key, counts, left_out), p_value in zip(tested, adjusted, strict=True):
        bad, clear = reaches(p_value, CONFIRM_ALPHA), _is_cleared(counts, left_out)
        more = None if bad or clear else _trials_to_decide(counts, len(tested))
        yield FreshTrials(
            key=key,
            base_passed=counts.base_passed,
            base_total=counts.base_total,
            passed=counts.candidate_passed,
            total=counts.candidate_total,
            left_out=left_out,
            p_worse=fisher_test(counts),
            confirmed=bad,
            could_confirm=_could_confirm(counts, counts.candidate_total, len(tested)),
            answer="confirmed" if bad else "cleared" if clear else "not decided",
            largest_drop=_largest_drop(counts),
            more_trials=more,
            baseline_needed=None if bad or clear or more else _baseline_to_decide(counts, len(tested)),
        )


def _largest_drop(counts: ScenarioCounts) -> float | None:
    if not counts.candidate_total:
        return None
    return max(0.0, -newcombe_interval(counts, confidence=0.9)[0])


def _is_cleared(counts: ScenarioCounts, left_out: int = 0) -> bool:
    """Whether a large drop is excluded, also if the trials without an answer had failed."""
    worst = dataclasses.replace(counts, candidate_total=counts.candidate_total + left_out)
    drop = _largest_drop(worst)
    return counts.candidate_total > 0 and drop is not None and drop < CLEARED_DROP


def _trials_to_decide(counts: ScenarioCounts, suspects: int) -> int | None:
    """The fresh trials that would decide it at the present rates; None if no reasonable number would."""
    totals = range(counts.candidate_total + 1, MOST_TRIALS + 1) if counts.candidate_total else ()
    return next((total for total in totals if _would_decide(counts, counts.base_total, total, suspects)), None)


def _baseline_to_decide(counts: ScenarioCounts, suspects: int) -> int | None:
    """The trials of the baseline that, with as many fresh ones, would decide it at the present rates."""
    totals = range(counts.base_total + 1, _MOST_PLANNED) if counts.candidate_total else ()
    return next((total for total in totals if _would_decide(counts, total, total, suspects)), None)


def _would_decide(counts: ScenarioCounts, base: int, fresh: int, suspects: int) -> bool:
    """Whether these numbers of trials with the present rates would confirm or clear it."""
    longer = ScenarioCounts(
        base_passed=round(base * counts.base_passed / counts.base_total),
        base_total=base,
        candidate_passed=round(fresh * counts.candidate_passed / counts.candidate_total),
        candidate_total=fresh,
    )
    return _is_cleared(longer) or reaches(fisher_test(longer), CONFIRM_ALPHA / suspects)


def _suite(comparison: Comparison, fresh: dict[ScenarioKey, FreshTrials]) -> float:
    """The suite's mid-p value with the fresh trials added to the candidate's."""
    tested = []
    for change in comparison.scenarios:
        counts = counts_of(change)
        if counts is None:
            continue
        more = fresh.get(change.key)
        if more is not None:
            passed, total = counts.candidate_passed + more.passed, counts.candidate_total + more.total
            counts = dataclasses.replace(counts, candidate_passed=passed, candidate_total=total)
        tested.append(counts)
    return stratified_test(tested).mid_p_regression


def _decide(comparison: Comparison, confirmation: Confirmation) -> Comparison:
    before = comparison.evidence
    answers = {one.key: one.answer for one in confirmation.suspects}
    worse = tuple(key for key, answer in answers.items() if answer == "confirmed")
    both = (before.mid_p_worse, confirmation.p_suite)
    suite = all(p_value is not None and reaches(p_value, ALPHA) for p_value in both)
    second = messages.confirmed(confirmation.suspects, confirmation.trials, suite=suite)
    evidence: Evidence = replace(
        before,
        sentence=f"{second} {messages.noticeable(_pairs(comparison), before.unseen_drop)}",
        regression=bool(worse) or suite,
        worse=worse,
        cannot_tell=tuple(key for key in before.cannot_tell if answers.get(key) == "not decided"),
        confirmation=confirmation,
    )
    scenarios = tuple(_marked(change, answers.get(change.key)) for change in comparison.scenarios)
    return replace(comparison, evidence=evidence, scenarios=scenarios)


def _pairs(comparison: Comparison) -> list[messages.Pair]:
    return [(one, counts) for one in comparison.scenarios if (counts := counts_of(one)) is not None]


def _marked(change: ScenarioChange, answer: str | None) -> ScenarioChange:
    """The scenario with the word that its fresh trials give."""
    if answer == "confirmed":
        return replace(change, word="worse", beyond_noise="worse")
    if answer == "not decided":
        return replace(change, word="cannot tell", beyond_noise=None)
    if answer == "cleared" or change.word == "worse":
        return replace(change, word="within noise", beyond_noise=None)
    return change

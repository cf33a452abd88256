"""The second look: suspects are run again, and only the fresh trials decide on them.

Fresh trials are free of the luck that made a scenario suspect; counting the first ones again would be cherry-picking.
At no change, suite test and fresh trials together flag 2 to 5 runs in a hundred (benchmarks/compare_power.py).
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from math import comb
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.comparison import Comparison, Confirmation, Evidence, FreshTrials, ScenarioChange
from seatrial.model.run import ScenarioKey, Status, TrialSummary
from seatrial.statistics.distributions import reaches
from seatrial.statistics.significance import ScenarioCounts, fisher_test, holm, stratified_test
from seatrial.verdicts.rates import answer_of

from . import messages
from .aggregates import group_trials
from .significance import ALPHA, counts_of, p_values

Rerun: TypeAlias = Callable[[Sequence[ScenarioKey], int], tuple[str, Iterable[TrialSummary]]]
"""Runs each of the scenarios so often with the candidate's agent; gives the run's id and its trials."""

SUSPECT_P: Final = 0.25
CONFIRM_ALPHA: Final = 0.025
"""The chance of confirming any suspect that is as good as before; with the suite's own test it stays near 5 %."""
FEWEST_TRIALS: Final = 8
MOST_TRIALS: Final = 60


def find_suspects(comparison: Comparison) -> tuple[ScenarioKey, ...]:
    """The scenarios that deserve a second look: lower than before by more than usual, or run too rarely to tell."""
    return tuple(change.key for change in comparison.scenarios if _is_suspect(counts_of(change)))


def _is_suspect(counts: ScenarioCounts | None) -> bool:
    if counts is None or (counts.difference or 0.0) >= 0:
        return False
    cannot_tell = comb(counts.base_total + counts.candidate_total, counts.candidate_total) < 1 / SUSPECT_P
    return cannot_tell or reaches(p_values(counts)[0], SUSPECT_P)


def fresh_trials_needed(comparison: Comparison, suspects: Sequence[ScenarioKey]) -> int:
    """Trials of each suspect with which a complete break could be confirmed in all of them, within reason."""
    chosen = set(suspects)
    found = [counts_of(change) for change in comparison.scenarios if change.key in chosen]
    needed = FEWEST_TRIALS
    for counts in found:
        while counts and needed < MOST_TRIALS and not _could_confirm(counts, needed, len(suspects)):
            needed += 1
    return needed


def _could_confirm(counts: ScenarioCounts, fresh: int, suspects: int) -> bool:
    """Whether failures throughout would be enough."""
    broken = dataclasses.replace(counts, candidate_passed=0, candidate_total=fresh)
    return fresh > 0 and reaches(fisher_test(broken), CONFIRM_ALPHA / suspects)


def confirm(comparison: Comparison, rerun: Rerun, *, trials: int | None = None) -> Comparison:
    """The comparison with its statistical verdict decided by fresh trials of the suspects.

    A scenario is worse if its fresh trials say so; the suite is, if it is beyond noise with and without them.
    """
    if trials is not None and trials < 1:
        raise UsageError(f"confirm: {trials!r} fresh trials are not at least 1. Leave it out to have it worked out.")
    if not comparison.evidence.testable:
        return comparison
    suspects = find_suspects(comparison)
    if not suspects:
        return _decide(comparison, Confirmation(run_id=None, trials=0, p_suite=comparison.evidence.p_worse), {})
    each = trials or fresh_trials_needed(comparison, suspects)
    run_id, summaries = rerun(suspects, each)
    grouped = group_trials(summaries)
    by_key = {change.key: change for change in comparison.scenarios}
    fresh = _judge([(by_key[key], grouped.get(key, [])) for key in suspects])
    added = {one.key: one for one in fresh}
    confirmation = Confirmation(run_id=run_id, trials=each, suspects=fresh, p_suite=_suite(comparison, added))
    return _decide(comparison, confirmation, added)


def _judge(suspects: Sequence[tuple[ScenarioChange, Sequence[TrialSummary]]]) -> tuple[FreshTrials, ...]:
    tested: list[tuple[ScenarioKey, ScenarioCounts, int]] = []
    for change, trials in suspects:
        counts = counts_of(change)
        assert counts is not None, "a suspect was tested"
        answered = sum(answer_of(trial) is not None for trial in trials)
        passed = sum(trial.status is Status.PASSED for trial in trials)
        fresh = dataclasses.replace(counts, candidate_passed=passed, candidate_total=answered)
        tested.append((change.key, fresh, len(trials) - answered))
    adjusted = holm([fisher_test(counts) for _, counts, _ in tested])
    return tuple(
        FreshTrials(
            key=key,
            base_passed=counts.base_passed,
            base_total=counts.base_total,
            passed=counts.candidate_passed,
            total=counts.candidate_total,
            left_out=left_out,
            p_worse=fisher_test(counts),
            confirmed=reaches(p_value, CONFIRM_ALPHA),
            could_confirm=_could_confirm(counts, counts.candidate_total, len(suspects)),
        )
        for (key, counts, left_out), p_value in zip(tested, adjusted, strict=True)
    )


def _suite(comparison: Comparison, fresh: dict[ScenarioKey, FreshTrials]) -> float:
    """The suite's p-value with the fresh trials added to the candidate's."""
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
    return stratified_test(tested).p_regression


def _decide(comparison: Comparison, confirmation: Confirmation, fresh: dict[ScenarioKey, FreshTrials]) -> Comparison:
    before = comparison.evidence
    worse = tuple(key for key, one in fresh.items() if one.confirmed)
    both = (before.p_worse, confirmation.p_suite)
    suite = all(p_value is not None and reaches(p_value, ALPHA) for p_value in both)
    second = messages.confirmed(confirmation.suspects, confirmation.trials, suite=suite)
    evidence: Evidence = replace(
        before,
        sentence=f"{second} {before.sentence}",
        regression=bool(worse) or suite,
        worse=worse,
        confirmation=confirmation,
    )
    scenarios = tuple(replace(change, beyond_noise=_marked(change, worse)) for change in comparison.scenarios)
    return replace(comparison, evidence=evidence, scenarios=scenarios)


def _marked(change: ScenarioChange, worse: Sequence[ScenarioKey]) -> Literal["worse", "better"] | None:
    if change.key in worse:
        return "worse"
    return None if change.beyond_noise == "worse" else change.beyond_noise

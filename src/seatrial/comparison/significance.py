"""The statistical verdict: exact tests over the trials of scenarios that both runs have."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Literal

from msgspec.structs import replace

from seatrial.model.comparison import Evidence, ScenarioChange
from seatrial.model.run import ScenarioKey
from seatrial.statistics.multiplicity import tarone_benjamini_hochberg
from seatrial.statistics.significance import ScenarioCounts, fisher_test, smallest_p_value, stratified_test
from seatrial.statistics.validation import reaches

from . import messages
from .detectable_drop import visible_drop
from .match import RunSide

ALPHA: Final = 0.05
"""The chance of calling a suite worse that is as good as before."""
Q: Final = 0.05
"""The share of scenarios called worse that are as good as before, on average."""


def counts_of(change: ScenarioChange) -> ScenarioCounts | None:
    """Passed and answered trials of both sides, the baseline's with what was pooled; None where a side has none."""
    base, candidate = change.base, change.candidate
    if base is None or candidate is None or not base.answered + change.pooled or not candidate.answered:
        return None
    return ScenarioCounts(
        base_passed=base.passed + change.pooled_passed,
        base_total=base.answered + change.pooled,
        candidate_passed=candidate.passed,
        candidate_total=candidate.answered,
    )


@lru_cache(maxsize=4096)
def p_values(counts: ScenarioCounts) -> tuple[float, float]:
    """(worse, better): the chance of a result so low, so high, if nothing had changed. Most scenarios share theirs."""
    return fisher_test(counts), fisher_test(counts, direction="improvement")


@lru_cache(maxsize=4096)
def _floors(counts: ScenarioCounts) -> tuple[float, float]:
    return smallest_p_value(counts), smallest_p_value(counts.turned())


def flag(tested: Sequence[ScenarioCounts]) -> list[Literal["worse", "better"] | None]:
    """Which of them changed beyond noise, corrected for having looked at all of them, in each direction."""
    found = [p_values(counts) for counts in tested]
    floors = [_floors(counts) for counts in tested]
    worse, better = (
        tarone_benjamini_hochberg([p[side] for p in found], [floor[side] for floor in floors], q=Q) for side in (0, 1)
    )
    return [
        "worse" if is_worse else "better" if is_better else None
        for is_worse, is_better in zip(worse, better, strict=True)
    ]


def with_tests(changes: Sequence[ScenarioChange]) -> list[ScenarioChange]:
    """The changes with their p-values and flags."""
    tested = [(place, counts) for place, change in enumerate(changes) if (counts := counts_of(change)) is not None]
    flags = flag([counts for _, counts in tested])
    made = list(changes)
    for (place, counts), beyond in zip(tested, flags, strict=True):
        worse, better = p_values(counts)
        made[place] = replace(made[place], p_worse=worse, p_better=better, beyond_noise=beyond)
    return made


def weigh(changes: Sequence[ScenarioChange], *, pooled_runs: tuple[str, ...]) -> Evidence:
    """What the trials of both runs say, once the changes carry their own p-values and flags."""
    shared = [change for change in changes if change.base is not None and change.candidate is not None]
    pairs = [(change, counts) for change in shared if (counts := counts_of(change)) is not None]
    untested = tuple(change.key for change in shared if counts_of(change) is None)
    left_out = sum(_left_out(change) for change in shared)
    if not pairs:
        return Evidence(
            sentence=messages.NO_ANSWERS, testable=False, untested=untested, left_out=left_out, pooled_runs=pooled_runs
        )
    tested = [counts for _, counts in pairs]
    test = stratified_test(tested)
    unseen = visible_drop(tested)
    worse = _keys(changes, "worse")
    return Evidence(
        sentence=messages.verdict(pairs, worse, p_suite=test.p_regression, unseen=unseen, alpha=ALPHA),
        details=messages.details(pairs, test, untested=untested, left_out=left_out, pooled_runs=pooled_runs),
        regression=bool(worse) or reaches(test.p_regression, ALPHA),
        p_worse=test.p_regression,
        p_better=test.p_improvement,
        mid_p_worse=test.mid_p_regression,
        expected=test.expected,
        observed=test.observed,
        worse=worse,
        better=_keys(changes, "better"),
        untested=untested,
        left_out=left_out,
        unseen_drop=unseen,
        pooled_runs=pooled_runs,
    )


def find_dependence(base: RunSide, candidate: RunSide) -> str | None:
    """Why the trials of the two runs are not independent; None when they are."""
    for side in (base, candidate):
        if side.run.replayed:
            return messages.replayed(side.run.id)
    return messages.regraded() if base.conversations == candidate.conversations else None


def _keys(changes: Sequence[ScenarioChange], which: str) -> tuple[ScenarioKey, ...]:
    return tuple(change.key for change in changes if change.beyond_noise == which)


def _left_out(change: ScenarioChange) -> int:
    sides = (change.base, change.candidate)
    return sum(side.not_judged for side in sides if side is not None)

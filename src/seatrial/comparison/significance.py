"""Which drop of a suite's pass rate so many trials can show, and how many trials show a drop."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Final

from msgspec.structs import replace

from seatrial.model.comparison import Evidence, ScenarioChange
from seatrial.model.run import ScenarioKey
from seatrial.model.struct import Struct
from seatrial.statistics.distributions import normal_quantile, reaches
from seatrial.statistics.significance import (
    ScenarioCounts,
    fisher_test,
    flag_scenarios,
    stratified_test,
)

from . import messages
from .aggregates import RunSide

ALPHA: Final = 0.05
POWER: Final = 0.8
_STEPS: Final = 40
_MOST: Final = 1_000_000


class Stratum(Struct, frozen=True, kw_only=True):
    """Scenarios that are alike: their pass rate, their trials in both runs, and how many there are."""

    rate: float
    base: int
    candidate: int
    times: int = 1


def visible_drop(scenarios: Sequence[ScenarioCounts], *, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest drop, the same in every scenario, that would be noticed with this power; None when none would."""
    tested = [one for one in scenarios if one.base_total and one.candidate_total]
    if not tested:
        return None
    rates = estimate_rates([(one.base_passed, one.base_total) for one in tested])
    alike = Counter((rate, one.base_total, one.candidate_total) for rate, one in zip(rates, tested, strict=True))
    strata = [Stratum(rate=rate, base=base, candidate=now, times=times) for (rate, base, now), times in alike.items()]
    if not is_visible(1.0, strata, alpha=alpha, power=power):
        return None
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_visible(middle, strata, alpha=alpha, power=power) else (middle, high)
    return high


def trials_to_see(drop: float, rates: Sequence[float], *, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """Trials of each scenario, in both runs, that show the drop; None when no number within reason does."""
    alike = Counter(rates)

    def enough(trials: int) -> bool:
        strata = [Stratum(rate=rate, base=trials, candidate=trials, times=times) for rate, times in alike.items()]
        return is_visible(drop, strata, alpha=alpha, power=power)

    return _fewest(enough)


def scenarios_to_see(
    drop: float, rate: float, trials: int, *, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """Scenarios with that rate and so many trials in both runs that show the drop."""

    def enough(count: int) -> bool:
        stratum = Stratum(rate=rate, base=trials, candidate=trials, times=count)
        return is_visible(drop, [stratum], alpha=alpha, power=power)

    return _fewest(enough)


def is_visible(drop: float, strata: Sequence[Stratum], *, alpha: float, power: float) -> bool:
    """Whether the stratified test notices the drop with this power.

    By the normal approximation with the correction for whole numbers, taken at the rates after the drop: at the rates
    before it, a suite that always passed would have no noise and seem to show any drop.
    """
    chance = truth = step = seen = 0.0
    for one in strata:
        after = max(one.rate - drop, 0.0)
        both = 1.0 / one.base + 1.0 / one.candidate
        mixed = (one.base * one.rate + one.candidate * after) / (one.base + one.candidate)
        chance += one.times * mixed * (1.0 - mixed) * both
        truth += one.times * (one.rate * (1.0 - one.rate) / one.base + after * (1.0 - after) / one.candidate)
        step += one.times * both / 2.0
        seen += one.times * (one.rate - after)
    count = sum(one.times for one in strata)
    sure, likely = -normal_quantile(alpha), normal_quantile(power)
    return seen >= sure * sqrt(chance) + likely * sqrt(truth) + step / count


def estimate_rates(counts: Sequence[tuple[int, int]]) -> list[float]:
    """Each scenario's rate from (passed, total), drawn a little towards that of the suite: few trials say little."""
    passed, total = (sum(column) for column in zip(*counts, strict=True))
    suite = (passed + 1) / (total + 2) if passed < total else 1.0
    return [(ours + 2 * suite) / (of + 2) for ours, of in counts]


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The first number that is enough, when every larger one is as well."""
    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


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


def p_values(counts: ScenarioCounts) -> tuple[float, float]:
    """(worse, better): the chance of a result so low, so high, if nothing had changed. Most scenarios share theirs."""
    return fisher_test(counts), fisher_test(counts, direction="improvement")


def with_tests(changes: Sequence[ScenarioChange]) -> list[ScenarioChange]:
    """The changes with their p-values and flags."""
    tested = [(place, counts) for place, change in enumerate(changes) if (counts := counts_of(change)) is not None]
    every = [counts for _, counts in tested]
    worse, better = (flag_scenarios(every, direction=way, q=Q) for way in ("regression", "improvement"))
    made = list(changes)
    for (place, one), is_worse, is_better in zip(tested, worse, better, strict=True):
        p_worse, p_better = p_values(one)
        beyond = "worse" if is_worse else "better" if is_better else None
        made[place] = replace(made[place], p_worse=p_worse, p_better=p_better, beyond_noise=beyond)
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

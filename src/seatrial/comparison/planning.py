"""Planning: which drop a number of trials finds, and how many trials find a drop."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import sqrt
from typing import Final

from seatrial.model.struct import Struct
from seatrial.statistics.distributions import normal_quantile
from seatrial.statistics.intervals import wilson_lower_bound
from seatrial.statistics.significance import ScenarioCounts

ALPHA: Final = 0.05
"""The probability of calling an unchanged suite worse."""
POWER: Final = 0.8
_STEPS: Final = 40
_MOST: Final = 1_000_000


class Stratum(Struct, frozen=True, kw_only=True):
    """Scenarios with the same rate and trials: `times` is their number."""

    rate: float
    base: int
    candidate: int
    times: int = 1


def visible_drop(scenarios: Sequence[ScenarioCounts], *, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest drop in every scenario that would be noticed with this power; None if none would."""
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
    """Trials of each scenario in both runs that show the drop; None if a million do not."""
    alike = Counter(rates)

    def enough(trials: int) -> bool:
        strata = [Stratum(rate=rate, base=trials, candidate=trials, times=times) for rate, times in alike.items()]
        return is_visible(drop, strata, alpha=alpha, power=power)

    return _fewest(enough)


def scenarios_to_see(
    drop: float, rate: float, trials: int, *, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """The number of scenarios with this rate and these trials in both runs that shows the drop."""

    def enough(count: int) -> bool:
        stratum = Stratum(rate=rate, base=trials, candidate=trials, times=count)
        return is_visible(drop, [stratum], alpha=alpha, power=power)

    return _fewest(enough)


def is_visible(drop: float, strata: Sequence[Stratum], *, alpha: float, power: float) -> bool:
    """Whether the stratified test notices the drop with this power.

    The normal approximation with continuity correction, at the rates after the drop: before it, a suite that always
    passed would have no noise.
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
    """Each scenario's rate from (passed, total), drawn towards that of the suite."""
    passed, total = (sum(column) for column in zip(*counts, strict=True))
    suite = (passed + 1) / (total + 2) if passed < total else 1.0
    return [(ours + 2 * suite) / (of + 2) for ours, of in counts]


def planning_rates(counts: Sequence[tuple[int, int]]) -> list[float]:
    """The rates to plan with: the estimated ones, moved down so that their mean is the suite's lower bound (90 %).

    A short run that passed every trial has a rate below 1: planned with 1, the false alarms and the power are wrong.
    """
    rates = estimate_rates(counts)
    passed, total = (sum(column) for column in zip(*counts, strict=True))
    moved = sum(rates) / len(rates) - wilson_lower_bound(passed, total, confidence=0.9)
    return [min(max(rate - max(moved, 0.0), 0.0), 1.0) for rate in rates]


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The first number that is enough, if every larger one is too."""
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

"""Which drop of a suite's pass rate so many trials can show, and how many trials show a drop."""

from collections.abc import Callable, Sequence
from math import fsum, sqrt
from typing import Final

from seatrial.statistics import ScenarioCounts
from seatrial.statistics.distributions import normal_quantile

ALPHA: Final = 0.05
POWER: Final = 0.8
_STEPS: Final = 40
_MOST: Final = 1_000_000
Sizes = tuple[int, int]
"""Trials of a scenario in the baseline and in the candidate."""


def visible_drop(scenarios: Sequence[ScenarioCounts], *, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest drop, the same in every scenario, that would be noticed with this power; None when none would."""
    tested = [one for one in scenarios if one.base_total and one.candidate_total]
    if not tested:
        return None
    rates = estimate_rates([(one.base_passed, one.base_total) for one in tested])
    sizes = [(one.base_total, one.candidate_total) for one in tested]
    if not is_visible(1.0, rates, sizes, alpha=alpha, power=power):
        return None
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        seen = is_visible(middle, rates, sizes, alpha=alpha, power=power)
        low, high = (low, middle) if seen else (middle, high)
    return high


def trials_to_see(drop: float, rates: Sequence[float], *, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """Trials of each scenario, in both runs, that show the drop; None when no number within reason does."""
    return _fewest(lambda n: is_visible(drop, rates, [(n, n)] * len(rates), alpha=alpha, power=power))


def scenarios_to_see(
    drop: float, rate: float, trials: int, *, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """Scenarios with that rate and so many trials in both runs that show the drop."""
    return _fewest(lambda n: is_visible(drop, [rate], [(trials, trials)], alpha=alpha, power=power, copies=n))


def is_visible(
    drop: float, rates: Sequence[float], sizes: Sequence[Sizes], *, alpha: float, power: float, copies: int = 1
) -> bool:
    """Whether the stratified test notices the drop with this power, each scenario being there so many times.

    By the normal approximation with the correction for whole numbers, taken at the rates after the drop: at the rates
    before it, a suite that always passed would have no noise and seem to show any drop.
    """
    chance = truth = step = 0.0
    for rate, (base, candidate) in zip(rates, sizes, strict=True):
        after = max(rate - drop, 0.0)
        both = 1.0 / base + 1.0 / candidate
        mixed = (base * rate + candidate * after) / (base + candidate)
        chance += mixed * (1.0 - mixed) * both
        truth += rate * (1.0 - rate) / base + after * (1.0 - after) / candidate
        step += both
    count = len(rates) * copies
    seen = fsum(min(rate, drop) for rate in rates) / len(rates)
    sure, likely = -normal_quantile(alpha), normal_quantile(power)
    noise = (sure * sqrt(copies * chance) + likely * sqrt(copies * truth)) / count
    return seen >= noise + copies * step / (2.0 * count * count)


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

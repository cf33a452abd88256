"""Which drop of a suite's pass rate the trials at hand could have shown."""

from collections.abc import Sequence
from math import fsum, sqrt
from typing import Final

from seatrial.statistics import ScenarioCounts
from seatrial.statistics.distributions import normal_quantile

ALPHA: Final = 0.05
POWER: Final = 0.8
_STEPS: Final = 40


def visible_drop(scenarios: Sequence[ScenarioCounts], *, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The smallest drop, the same in every scenario, that would be noticed with this power; None when none would.

    By the normal approximation of the stratified test with the correction for whole numbers, taken at the rates after
    the drop: at the rates before it, a suite that always passed would have no noise and seem to show any drop.
    """
    tested = [one for one in scenarios if one.base_total and one.candidate_total]
    if not tested:
        return None
    rates = _rates(tested)
    sure, likely = -normal_quantile(alpha), normal_quantile(power)

    def is_seen(drop: float) -> bool:
        chance, truth, step = _noise(tested, rates, drop)
        seen = fsum(rate - max(rate - drop, 0.0) for rate in rates) / len(rates)
        return seen >= sure * chance + likely * truth + step

    low, high = 0.0, 1.0
    if not is_seen(high):
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_seen(middle) else (middle, high)
    return high


def _rates(scenarios: Sequence[ScenarioCounts]) -> list[float]:
    """Each scenario's rate in the baseline, drawn a little towards that of the suite: few trials say little."""
    passed = sum(one.base_passed for one in scenarios)
    total = sum(one.base_total for one in scenarios)
    suite = (passed + 1) / (total + 2) if passed < total else 1.0
    return [(one.base_passed + 2 * suite) / (one.base_total + 2) for one in scenarios]


def _noise(scenarios: Sequence[ScenarioCounts], rates: Sequence[float], drop: float) -> tuple[float, float, float]:
    """Standard error if nothing had changed, standard error after the drop, and half a trial's step."""
    chance = truth = step = 0.0
    for one, rate in zip(scenarios, rates, strict=True):
        after = max(rate - drop, 0.0)
        both = 1.0 / one.base_total + 1.0 / one.candidate_total
        mixed = (one.base_total * rate + one.candidate_total * after) / (one.base_total + one.candidate_total)
        chance += mixed * (1.0 - mixed) * both
        truth += rate * (1.0 - rate) / one.base_total + after * (1.0 - after) / one.candidate_total
        step += both
    count = len(scenarios)
    return sqrt(chance) / count, sqrt(truth) / count, step / (2.0 * count * count)

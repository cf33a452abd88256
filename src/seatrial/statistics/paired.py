"""Tests of measured values of two runs, scenario by scenario: latency, cost and score.

- `ratio_test` (latency, cost): the mean change of the logarithm, so slow and quick scenarios count alike. From 5
  scenarios on it is the paired t-test over scenarios; below, Welch's test of the trials within scenarios. Simulated
  with log-normal latencies (sigma 0.6 and 1.0): at most 6 % false alarms (benchmarks/gate.py). It cannot tell a
  slower agent from a slower machine: 10 % more load during one run looks like a change.
- `score_test`: the sign-flip test of the mean scores. It needs 5 scenarios with different scores (the smallest p-value
  of n is 1/2^n), and assumes that differences are as often above as below zero if nothing changed. Skewed differences
  raise false alarms from 5 to 9-15 %.
- `quantile`: the nearly median-unbiased quantile (Hyndman and Fan's type 8), for p95 over all turns.

A value counts only if both runs have it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .distributions import beta_cdf, require_rate, student_t_quantile
from .intervals import Interval
from .significance import sign_flip_test

FEWEST_SCENARIOS = 5
"""For a test over scenarios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedValues:
    """The values of the trials of one scenario in both runs, such as milliseconds."""

    base: tuple[float, ...]
    candidate: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioTest:
    """The change of a positive value as a ratio; None where it cannot be tested."""

    ratio: float | None
    """The geometric mean of candidate / base over scenarios: 1.2 is 20 % more."""
    interval: Interval | None
    """Two-sided at 90 %: its lower bound is above 1 exactly if `p_higher` is below 5 %."""
    p_higher: float | None
    """The probability of a rise this large if nothing changed."""
    scenarios: int
    """Scenarios that count: with positive values in both runs."""
    method: Literal["over scenarios", "within scenarios", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTest:
    """The change of the mean score; None where it cannot be tested."""

    difference: float | None
    p_lower: float | None
    """The probability of a fall this large if nothing changed; None below 5 scenarios with different scores."""
    scenarios: int


def ratio_test(scenarios: Sequence[PairedValues], *, offset: float = 0.0) -> RatioTest:
    """Whether the values rose. `offset` is added to each value, so that tiny ones (below it) hardly count."""
    logs = [(_logs(one.base, offset), _logs(one.candidate, offset)) for one in scenarios]
    pairs = [(base, candidate) for base, candidate in logs if base and candidate]
    changes = [_mean(candidate) - _mean(base) for base, candidate in pairs]
    if not changes:
        return RatioTest(ratio=None, interval=None, p_higher=None, scenarios=0, method="none")
    middle = _mean(changes)
    method: Literal["over scenarios", "within scenarios", "none"] = "over scenarios"
    if len(changes) >= FEWEST_SCENARIOS:
        variance, degrees = _variance(changes) / len(changes), len(changes) - 1.0
    else:
        variance, degrees = _within(pairs)
        method = "within scenarios" if degrees else "none"
    if not degrees:
        return RatioTest(ratio=math.exp(middle), interval=None, p_higher=None, scenarios=len(changes), method=method)
    error = math.sqrt(variance)
    reach = error * student_t_quantile(0.95, degrees)
    return RatioTest(
        ratio=math.exp(middle),
        interval=(math.exp(middle - reach), math.exp(middle + reach)),
        p_higher=_upper_tail(middle, error, degrees),
        scenarios=len(changes),
        method=method,
    )


def _within(pairs: Sequence[tuple[list[float], list[float]]]) -> tuple[float, float]:
    """The variance of the mean change and its degrees of freedom (Welch and Satterthwaite); (0, 0) without repeats."""
    parts = [(_variance(side) / len(side), len(side) - 1) for pair in pairs for side in pair if len(side) > 1]
    if len(parts) < 2 * len(pairs):
        return 0.0, 0.0
    whole = math.fsum(part for part, _ in parts)
    squares = math.fsum(part * part / degrees for part, degrees in parts)
    degrees = whole * whole / squares if squares else float(sum(each for _, each in parts))
    return whole / len(pairs) ** 2, degrees


def _upper_tail(middle: float, error: float, degrees: float) -> float:
    """The probability that Student's t is above middle / error."""
    if error == 0.0:
        return 0.0 if middle > 0.0 else 1.0
    t = middle / error
    tail = beta_cdf(degrees / (degrees + t * t), degrees / 2.0, 0.5) / 2.0
    return tail if t > 0.0 else 1.0 - tail


def score_test(differences: Sequence[float], *, seed: int = 0) -> ScoreTest:
    """Whether the mean score fell, from each scenario's mean score in the candidate minus that in the base."""
    test = sign_flip_test(differences, seed=seed)
    changed = sum(each != 0.0 for each in differences)
    testable = changed >= FEWEST_SCENARIOS or (len(differences) >= FEWEST_SCENARIOS and not changed)
    return ScoreTest(difference=test.mean, p_lower=test.p_regression if testable else None, scenarios=len(differences))


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value below which this share lies; None without values. The largest value bounds what few values say."""
    require_rate("share", share)
    if not values:
        return None
    ordered = sorted(values)
    place = min(max((len(ordered) + 1 / 3) * share + 1 / 3, 1.0), float(len(ordered))) - 1.0
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _logs(values: Sequence[float], offset: float) -> list[float]:
    return [math.log(value + offset) for value in values if value + offset > 0.0]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    middle = _mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)

"""Argument checks, the normal, beta and binomial functions, and exact distributions of counts.

Invalid rates come from users (`UsageError`). Invalid counts are bugs of the caller (`ValueError`).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import fsum
from operator import mul

from seatrial.errors import UsageError

ROUNDING = 1e-12
"""Relative tolerance of comparisons: 1/20 computed in floats must reach 0.05."""


def require_rate(name: str, value: float) -> None:
    """Raise UsageError unless 0 <= value <= 1."""
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{name}: {value!r} is not between 0 and 1. Give a share such as 0.9.")


def require_open_rate(name: str, value: float) -> None:
    """Raise UsageError unless 0 < value < 1."""
    if not 0.0 < value < 1.0:
        raise UsageError(f"{name}: {value!r} is not strictly between 0 and 1. Give a share such as 0.95.")


def require_positive(name: str, value: int) -> None:
    """Raise UsageError unless the value is at least 1."""
    if value < 1:
        raise UsageError(f"{name}: {value!r} is not at least 1. Give a whole number such as 5.")


def require_counts(passed: int, total: int) -> None:
    """Raise ValueError unless 0 <= passed <= total."""
    if not 0 <= passed <= total:
        raise ValueError(f"{passed!r} passed of {total!r}: need 0 <= passed <= total. Count the trials again.")


def reaches(p_value: float, limit: float) -> bool:
    """Whether a p-value is at or below its limit, apart from rounding."""
    return p_value <= limit * (1.0 + ROUNDING)


_EPSILON = 2.220446049250313e-16
_TINY = 1e-300


def normal_quantile(share: float) -> float:
    """The quantile of the standard normal distribution."""
    if share > 0.5:
        return -normal_quantile(1.0 - share)
    # A rational start (Abramowitz and Stegun 26.2.23, good to 4.5e-4); each Halley step triples the digits.
    t = math.sqrt(-2.0 * math.log(share))
    z = (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
    for _ in range(3):
        miss = normal_cdf(z) - share
        step = miss * math.sqrt(2.0 * math.pi) * math.exp(z * z / 2.0)
        z -= step / (1.0 + z * step / 2.0)
    return z


def normal_cdf(z: float) -> float:
    """The share of the standard normal distribution below z."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def two_sided_z(confidence: float) -> float:
    """The z of a two-sided interval: (1 - confidence) / 2 lies above it."""
    return normal_quantile(0.5 + confidence / 2.0)


def student_t_quantile(share: float, degrees: float) -> float:
    """The quantile of Student's t distribution, for shares of one half and more."""
    x = beta_quantile(2.0 * (1.0 - share), degrees / 2.0, 0.5)
    return math.sqrt(degrees * (1.0 - x) / x)


def log_beta(a: float, b: float) -> float:
    """The logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def beta_cdf(x: float, a: float, b: float) -> float:
    """The cumulative distribution function of Beta(a, b)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_cdf(1.0 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) - log_beta(a, b)
    return math.exp(log_front) * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function (Lentz); about sqrt(max(a, b)) rounds."""
    upper = 1.0
    lower = 1.0 / (1.0 - (a + b) * x / (a + 1.0) or _TINY)
    value = lower
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        lower = 1.0 / (1.0 + even * lower or _TINY)
        upper = 1.0 + even / upper or _TINY
        value *= lower * upper
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        lower = 1.0 / (1.0 + odd * lower or _TINY)
        upper = 1.0 + odd / upper or _TINY
        value *= lower * upper
        if abs(lower * upper - 1.0) < 4.0 * _EPSILON:
            break
    return value


@lru_cache(maxsize=4096)  # the scenarios of a suite share a few (passed, total)
def beta_quantile(share: float, a: float, b: float) -> float:
    """The quantile of Beta(a, b)."""
    return find_root(lambda x: beta_cdf(x, a, b) - share, 0.0, 1.0)


def binomial_at_least(count: int, total: int, rate: float) -> float:
    """The probability of `count` or more passes in `total` trials at this rate."""
    if count <= 0:
        return 1.0
    if count > total:
        return 0.0
    return beta_cdf(rate, count, total - count + 1)


def binomial_at_most(count: int, total: int, rate: float) -> float:
    """The probability of `count` or fewer passes; small values keep their relative precision."""
    return binomial_at_least(total - count, total, 1.0 - rate)


def find_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root between two points of opposite sign, to the last digit (Chandrupatla 1997)."""
    a, b = low, high
    at_a, at_b = function(a), function(b)
    step = 0.5
    for _ in range(300):
        x = a + step * (b - a)
        at_x = function(x)
        if (at_x > 0.0) == (at_a > 0.0):
            c, at_c = a, at_a
        else:
            c, at_c, b, at_b = b, at_b, a, at_a
        a, at_a = x, at_x
        best = a if abs(at_a) < abs(at_b) else b
        smallest_step = (2.0 * _EPSILON * abs(best) + _TINY) / abs(b - a) if b != a else 1.0
        if smallest_step > 0.5 or at_a == 0.0:
            return best
        step = min(1.0 - smallest_step, max(smallest_step, _next_step((a, b, c), (at_a, at_b, at_c))))
    return best


def _next_step(points: tuple[float, float, float], values: tuple[float, float, float]) -> float:
    """The next step from a to b: inverse quadratic interpolation if it is safe, else bisection."""
    (a, b, c), (at_a, at_b, at_c) = points, values
    place = (a - b) / (c - b)
    height = (at_a - at_b) / (at_c - at_b)
    if not (height * height < place and (1.0 - height) ** 2 < 1.0 - place):
        return 0.5
    return (at_a / (at_b - at_a)) * (at_c / (at_b - at_c)) + (
        (c - a) / (b - a) * (at_a / (at_c - at_a)) * (at_b / (at_c - at_b))
    )


_UNDERFLOW = 1e-300
_NEGLIGIBLE = 1e-40
_TIE = 1e-9

SMALLEST_P = 1e-30
"""The smallest p-value that is reported: sums omit counts with probabilities below 1e-40."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDistribution:
    """The distribution of a count: the probability of each value from `start` on."""

    start: int
    chances: tuple[float, ...]

    def exactly(self, count: int) -> float:
        """The probability of this count."""
        at = count - self.start
        return self.chances[at] if 0 <= at < len(self.chances) else 0.0

    def at_most(self, count: int) -> float:
        """The probability of this count or less."""
        return min(1.0, fsum(self.chances[: max(0, count - self.start + 1)]))

    def at_least(self, count: int) -> float:
        """The probability of this count or more."""
        return min(1.0, fsum(self.chances[max(0, count - self.start) :]))

    def as_rare_as(self, count: int) -> float:
        """The probability of all counts that are at most as likely as this one: the two-sided p-value."""
        limit = self.exactly(count) * (1.0 + _TIE)
        return min(1.0, fsum(chance for chance in self.chances if chance <= limit))

    def mean(self) -> float:
        """The expected count."""
        return self.start + fsum(step * chance for step, chance in enumerate(self.chances))


def binomial_distribution(total: int, rate: float) -> CountDistribution:
    """The passes in `total` trials that pass independently at this rate."""
    if rate <= 0.0 or rate >= 1.0:
        return CountDistribution(start=total if rate >= 1.0 else 0, chances=(1.0,))
    odds = rate / (1.0 - rate)
    mode = min(total, int((total + 1) * rate))
    return _outwards(mode, bounds=(0, total), growth=lambda k: (total - k) / (k + 1) * odds)


def hypergeometric_distribution(drawn: int, *, passed: int, total: int) -> CountDistribution:
    """The passes among `drawn` trials, chosen at random from `total` trials of which `passed` passed."""
    failed = total - passed
    mode = (drawn + 1) * (passed + 1) // (total + 2)
    return _outwards(
        mode,
        bounds=(max(0, drawn - failed), min(drawn, passed)),
        growth=lambda k: (passed - k) * (drawn - k) / ((k + 1) * (failed - drawn + k + 1)),
    )


def _outwards(mode: int, *, bounds: tuple[int, int], growth: Callable[[int], float]) -> CountDistribution:
    """The distribution in which count + 1 is `growth(count)` times as likely as count."""
    lowest, highest = bounds
    below: list[float] = []
    weight, count = 1.0, mode
    while count > lowest and weight > _UNDERFLOW:
        count -= 1
        weight /= growth(count)
        below.append(weight)
    start = count
    above: list[float] = []
    weight, count = 1.0, mode
    while count < highest and weight > _UNDERFLOW:
        weight *= growth(count)
        count += 1
        above.append(weight)
    weights = [*reversed(below), 1.0, *above]
    whole = fsum(weights)
    return CountDistribution(start=start, chances=tuple(weight / whole for weight in weights))


def sum_distributions(distributions: Iterable[tuple[CountDistribution, int]]) -> CountDistribution:
    """The distribution of a sum of independent counts, each given with the number of times it occurs.

    Powers by squaring, then pairwise sums, narrow ones first: 1,000 scenarios of 10 + 10 trials take 20 ms.
    """
    merged = [_power(distribution, times) for distribution, times in distributions] or [
        CountDistribution(start=0, chances=(1.0,))
    ]
    merged.sort(key=lambda distribution: len(distribution.chances))
    while len(merged) > 1:
        pairs = [_add(left, right) for left, right in zip(merged[::2], merged[1::2], strict=False)]
        merged = pairs + merged[len(pairs) * 2 :]
    return merged[0]


def _power(distribution: CountDistribution, times: int) -> CountDistribution:
    """The distribution of the sum of `times` independent counts with this distribution."""
    if times == 1:
        return distribution
    half = _power(distribution, times // 2)
    even = _add(half, half)
    return _add(even, distribution) if times % 2 else even


def _add(left: CountDistribution, right: CountDistribution) -> CountDistribution:
    """The distribution of the sum of two independent counts."""
    short, long = sorted((left.chances, right.chances), key=len)
    turned, width = short[::-1], len(short)
    padding = (0.0,) * (width - 1)
    padded = padding + long + padding
    sums = [sum(map(mul, turned, padded[at : at + width])) for at in range(len(long) + width - 1)]
    first = next(at for at, chance in enumerate(sums) if chance > _NEGLIGIBLE)
    last = next(at for at in range(len(sums) - 1, -1, -1) if sums[at] > _NEGLIGIBLE)
    return CountDistribution(start=left.start + right.start + first, chances=tuple(sums[first : last + 1]))

"""Normal, beta and Student t in plain Python, and the one root finder behind every interval.

The standard library has the normal distribution in `statistics`, whose import costs 19 ms; the two functions needed
are ten lines.
"""

import math
from collections.abc import Callable
from functools import lru_cache

_EPSILON = 2.220446049250313e-16
_TINY = 1e-300


def normal_quantile(share: float) -> float:
    """The z below which this share of a standard normal lies."""
    if share > 0.5:
        return -normal_quantile(1.0 - share)
    # A rational start (Abramowitz and Stegun 26.2.23, good to 4.5e-4); each Halley step triples the digits.
    t = math.sqrt(-2.0 * math.log(share))
    z = (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t
    for _ in range(3):
        miss = 0.5 * math.erfc(-z / math.sqrt(2.0)) - share
        step = miss * math.sqrt(2.0 * math.pi) * math.exp(z * z / 2.0)
        z -= step / (1.0 + z * step / 2.0)
    return z


def two_sided_z(confidence: float) -> float:
    """The z that leaves (1 - confidence) / 2 on either side."""
    return normal_quantile(0.5 + confidence / 2.0)


def student_t_quantile(share: float, degrees: float) -> float:
    """The t below which this share of Student's distribution lies, for shares of one half and more."""
    x = beta_quantile(2.0 * (1.0 - share), degrees / 2.0, 0.5)
    return math.sqrt(degrees * (1.0 - x) / x)


def log_beta(a: float, b: float) -> float:
    """The logarithm of the beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def beta_cdf(x: float, a: float, b: float) -> float:
    """The share of a Beta(a, b) that lies below x."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_cdf(1.0 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) - log_beta(a, b)
    return math.exp(log_front) * _beta_fraction(x, a, b) / a


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta by Lentz's method; takes about sqrt(max(a, b)) rounds."""
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


@lru_cache(maxsize=4096)  # a suite asks for the same few (passed, total) again and again
def beta_quantile(share: float, a: float, b: float) -> float:
    """The x below which this share of a Beta(a, b) lies."""
    return find_root(lambda x: beta_cdf(x, a, b) - share, 0.0, 1.0)


def binomial_at_least(count: int, total: int, rate: float) -> float:
    """The chance of `count` or more passes in `total` trials at this true rate."""
    if count <= 0:
        return 1.0
    if count > total:
        return 0.0
    return beta_cdf(rate, count, total - count + 1)


def binomial_at_most(count: int, total: int, rate: float) -> float:
    """The chance of `count` or fewer passes; a small tail is computed directly, not as 1 minus a large one."""
    return binomial_at_least(total - count, total, 1.0 - rate)


def find_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where the function crosses zero between two points of opposite sign, to the last digit (Chandrupatla 1997)."""
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
    """How far to go from a to b: by inverse quadratic interpolation where that is safe, else half."""
    (a, b, c), (at_a, at_b, at_c) = points, values
    place = (a - b) / (c - b)
    height = (at_a - at_b) / (at_c - at_b)
    if not (height * height < place and (1.0 - height) ** 2 < 1.0 - place):
        return 0.5
    return (at_a / (at_b - at_a)) * (at_c / (at_b - at_c)) + (
        (c - a) / (b - a) * (at_a / (at_c - at_a)) * (at_b / (at_c - at_b))
    )

"""Intervals of one pass rate. The interval of 0 trials is (0, 1).

Show Wilson's for a fixed number of trials and the always-valid one after sequential stopping. Decide with the exact
one-sided bound.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

from .distributions import (
    beta_quantile,
    binomial_at_least,
    find_root,
    log_beta,
    normal_quantile,
    require_counts,
    require_open_rate,
    require_rate,
    two_sided_z,
)

Interval: TypeAlias = tuple[float, float]
Count: TypeAlias = tuple[int, int]
"""(passed, answered trials)."""


def wilson_interval(passed: int, total: int, *, confidence: float = 0.95) -> Interval:
    """Wilson's bounds of the pass rate: their coverage is right on average; (0, 1) if nothing ran."""
    _require(passed, total, confidence)
    return _wilson(passed, total, two_sided_z(confidence))


def _wilson(passed: int, total: int, z: float) -> Interval:
    if total == 0:
        return 0.0, 1.0
    rate = passed / total
    weight = z * z / total
    middle = (rate + weight / 2.0) / (1.0 + weight)
    half = abs(z) * math.sqrt(rate * (1.0 - rate) / total + weight / (4.0 * total)) / (1.0 + weight)
    low = 0.0 if passed == 0 else max(0.0, middle - half)
    high = 1.0 if passed == total else min(1.0, middle + half)
    return low, high


def clopper_pearson_interval(passed: int, total: int, *, confidence: float = 0.95) -> Interval:
    """Exact bounds: the coverage is at least the confidence at every true rate."""
    _require(passed, total, confidence)
    one_side = (1.0 + confidence) / 2.0
    low = exact_lower_bound(passed, total, confidence=one_side)
    return low, exact_upper_bound(passed, total, confidence=one_side)


def exact_lower_bound(passed: int, total: int, *, confidence: float = 0.95) -> float:
    """The exact one-sided lower bound of the pass rate; 0 if nothing ran."""
    _require(passed, total, confidence)
    if passed == 0:
        return 0.0
    return beta_quantile(1.0 - confidence, passed, total - passed + 1)


def exact_upper_bound(passed: int, total: int, *, confidence: float = 0.95) -> float:
    """The exact one-sided upper bound of the pass rate; 1 if nothing ran."""
    require_counts(passed, total)
    return 1.0 - exact_lower_bound(total - passed, total, confidence=confidence)


def always_valid_interval(passed: int, total: int, *, confidence: float = 0.95) -> Interval:
    """Bounds that hold for all numbers of trials at once, so any stopping rule is allowed. They are wider.

    They contain all rates whose likelihood is above (1 - confidence) times that of a beta mixture (Robbins, Ville).
    """
    _require(passed, total, confidence)
    return _always_valid_bound(passed, total, confidence), 1.0 - _always_valid_bound(total - passed, total, confidence)


def _always_valid_bound(passed: int, total: int, confidence: float) -> float:
    if passed == 0:
        return 0.0
    failed = total - passed
    mixture = log_beta(passed + 0.5, failed + 0.5) - log_beta(0.5, 0.5)
    limit = -math.log(1.0 - confidence)

    def excess(rate: float) -> float:
        missed = failed * math.log1p(-rate) if failed else 0.0
        return mixture - passed * math.log(rate) - missed - limit

    return find_root(excess, 1e-300, passed / total)


def _require(passed: int, total: int, confidence: float) -> None:
    require_counts(passed, total)
    require_open_rate("confidence", confidence)


def wilson_lower_bound(passed: int, total: int, *, confidence: float = 0.95) -> float:
    """One-sided lower bound of the pass rate by Wilson's score; 0 when nothing ran."""
    _require(passed, total, confidence)
    return _wilson(passed, total, normal_quantile(confidence))[0]


def mid_p_interval(passed: int, total: int, *, confidence: float = 0.95) -> Interval:
    """Exact bounds that count the observed result half: shorter, and right on average."""
    _require(passed, total, confidence)
    share = (1.0 - confidence) / 2.0
    return _mid_p_bound(passed, total, share), 1.0 - _mid_p_bound(total - passed, total, share)


def _mid_p_bound(passed: int, total: int, share: float) -> float:
    if passed == 0:
        return 0.0

    def excess(rate: float) -> float:
        tails = binomial_at_least(passed, total, rate) + binomial_at_least(passed + 1, total, rate)
        return tails / 2.0 - share

    return find_root(excess, 0.0, 1.0)


def jeffreys_interval(passed: int, total: int, *, confidence: float = 0.95) -> Interval:
    """Equal-tailed Bayesian bounds from Jeffreys' prior; at 0 or all passed they leave the observed rate out."""
    _require(passed, total, confidence)
    if total == 0:
        return 0.0, 1.0
    share = (1.0 - confidence) / 2.0
    low = beta_quantile(share, passed + 0.5, total - passed + 0.5)
    return low, 1.0 - beta_quantile(share, total - passed + 0.5, passed + 0.5)


TURNS_FOR_P95 = 20
"""With fewer turns, their 95th percentile is about the slowest one."""


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

"""Averages that do not load the statistics module of the standard library, which takes longer than they do."""

from collections.abc import Sequence
from math import fsum


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None of nothing."""
    return fsum(values) / len(values) if values else None


_ROUNDING = 1e-9


def meets(value: float, threshold: float) -> bool:
    """Whether the value reaches the threshold, apart from the noise of floats. A NaN reaches none."""
    return value >= threshold - _ROUNDING


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value below which that share lies, interpolated; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

"""The plots of a comparison, from its scenarios."""

from collections.abc import Callable
from math import sqrt

from seatrial.model.comparison import Comparison, ScenarioChange
from seatrial.model.run import ScenarioKey
from seatrial.statistics.significance import ScenarioCounts, newcombe_interval

from .plots.comparisons import RatePair, forest, slope
from .plots.svg import Plot


def rate_pairs(comparison: Comparison, href: Callable[[ScenarioKey], str] | None = None) -> list[RatePair]:
    """The scenarios that have answered trials in both runs."""
    return [
        pair
        for one in comparison.scenarios
        if (pair := _pair(one, None if href is None else href(one.key))) is not None
    ]


def _pair(one: ScenarioChange, href: str | None) -> RatePair | None:
    if one.base is None or one.candidate is None:
        return None
    (before, of), (passed, total) = one.base.counts, one.candidate.counts
    if not of or not total:
        return None
    low, high = newcombe_interval(
        ScenarioCounts(base_passed=before, base_total=of, candidate_passed=passed, candidate_total=total)
    )
    return RatePair(
        name=one.key.label,
        before=before / of,
        after=passed / total,
        counts=f"{before}/{of} → {passed}/{total}",
        word=one.word or "same",
        href=href,
        low=low,
        high=high,
    )


def slope_of(comparison: Comparison, href: Callable[[ScenarioKey], str] | None = None) -> Plot:
    return slope(rate_pairs(comparison, href), before=comparison.base.name, after=comparison.candidate.name)


def forest_of(comparison: Comparison, href: Callable[[ScenarioKey], str] | None = None) -> Plot:
    return forest(rate_pairs(comparison, href), noise=noise_of(comparison))


def noise_of(comparison: Comparison) -> float | None:
    """The change that an unchanged scenario stays below in 95 of 100 comparisons, at the runs' pass rate and trials.

    None if there are too few trials, or if every trial passed in both runs.
    """
    both = [(one.base.counts, one.candidate.counts) for one in comparison.scenarios if one.base and one.candidate]
    counts = [(base[1], now[1], base[0] + now[0]) for base, now in both if base[1] and now[1]]
    if not counts:
        return None
    trials = sum(before + after for before, after, _ in counts)
    rate = sum(passed for *_, passed in counts) / trials
    before = sum(one for one, *_ in counts) / len(counts)
    after = sum(one for _, one, _ in counts) / len(counts)
    return min(1.96 * sqrt(rate * (1 - rate) * (1 / before + 1 / after)), 1.0) or None

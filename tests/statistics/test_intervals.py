"""Intervals of one rate against statsmodels, and what every interval must obey."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from statsmodels.stats.proportion import proportion_confint

from seatrial.errors import UsageError
from seatrial.statistics.intervals import (
    Interval,
    always_valid_interval,
    clopper_pearson_interval,
    exact_lower_bound,
    exact_upper_bound,
    jeffreys_interval,
    mid_p_interval,
    wilson_interval,
    wilson_lower_bound,
)

quick = settings(max_examples=40, deadline=None, derandomize=True, database=None)
counts = some.integers(1, 3000).flatmap(lambda total: some.tuples(some.integers(0, total), some.just(total)))
confidences = some.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.9999])
HUGE = [(0, 100_000), (1, 100_000), (31_415, 100_000), (99_999, 100_000), (100_000, 100_000)]

AROUND_THE_ESTIMATE = [wilson_interval, clopper_pearson_interval, mid_p_interval, always_valid_interval]
ALL = [*AROUND_THE_ESTIMATE, jeffreys_interval]
ORACLES = {
    wilson_interval: "wilson",
    clopper_pearson_interval: "beta",
    jeffreys_interval: "jeffreys",
}


@pytest.mark.parametrize("interval", ORACLES)
@given(count=counts, confidence=confidences)
@quick
def test_an_interval_is_that_of_statsmodels(
    interval: Callable[..., Interval], count: tuple[int, int], confidence: float
) -> None:
    expected = proportion_confint(*count, alpha=1 - confidence, method=ORACLES[interval])
    assert interval(*count, confidence=confidence) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("count", HUGE)
@pytest.mark.parametrize("interval", ORACLES)
def test_an_interval_of_100_000_trials_is_that_of_statsmodels(
    interval: Callable[..., Interval], count: tuple[int, int]
) -> None:
    expected = proportion_confint(*count, alpha=0.05, method=ORACLES[interval])
    assert interval(*count) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("interval", AROUND_THE_ESTIMATE)
@given(count=counts, confidence=confidences)
@quick
def test_an_interval_holds_the_observed_rate_and_stays_within_0_and_1(
    interval: Callable[..., Interval], count: tuple[int, int], confidence: float
) -> None:
    passed, total = count
    low, high = interval(passed, total, confidence=confidence)
    assert 0.0 <= low <= passed / total <= high <= 1.0
    assert low < high


@pytest.mark.parametrize("interval", ALL)
@given(count=counts)
@quick
def test_more_confidence_never_narrows_an_interval(interval: Callable[..., Interval], count: tuple[int, int]) -> None:
    low, high = interval(*count, confidence=0.9)
    lower, higher = interval(*count, confidence=0.99)
    assert lower <= low
    assert high <= higher


@pytest.mark.parametrize("interval", ALL)
@given(count=counts)
@quick
def test_one_more_pass_raises_both_bounds(interval: Callable[..., Interval], count: tuple[int, int]) -> None:
    passed, total = count
    if passed == total:
        passed -= 1
    low, high = interval(passed, total)
    lower, higher = interval(passed + 1, total)
    assert low <= lower + 1e-12
    assert high <= higher + 1e-12


@pytest.mark.parametrize("interval", ALL)
@given(count=counts)
@quick
def test_the_interval_of_failures_mirrors_that_of_passes(
    interval: Callable[..., Interval], count: tuple[int, int]
) -> None:
    passed, total = count
    low, high = interval(passed, total)
    assert interval(total - passed, total) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize("interval", ALL)
def test_ten_times_the_trials_narrow_an_interval(interval: Callable[..., Interval]) -> None:
    for passed, total in [(0, 5), (3, 10), (9, 10), (50, 50)]:
        low, high = interval(passed, total)
        lower, higher = interval(10 * passed, 10 * total)
        assert higher - lower < high - low


@pytest.mark.parametrize("interval", ALL)
def test_nothing_ran_means_nothing_known(interval: Callable[..., Interval]) -> None:
    assert interval(0, 0) == (0.0, 1.0)


@given(count=counts)
@quick
def test_the_always_valid_interval_is_the_widest(count: tuple[int, int]) -> None:
    low, high = always_valid_interval(*count)
    for other in (wilson_interval, clopper_pearson_interval, mid_p_interval):
        assert low <= other(*count)[0]
        assert high >= other(*count)[1]


@given(count=counts)
@quick
def test_mid_p_lies_within_clopper_pearson(count: tuple[int, int]) -> None:
    low, high = clopper_pearson_interval(*count)
    lower, higher = mid_p_interval(*count)
    assert low <= lower + 1e-14
    assert higher <= high + 1e-14


def test_one_sided_bounds_are_the_ends_of_a_two_sided_interval_with_twice_the_error() -> None:
    assert (exact_lower_bound(18, 20), exact_upper_bound(18, 20)) == pytest.approx(
        clopper_pearson_interval(18, 20, confidence=0.9), abs=1e-14
    )
    assert wilson_lower_bound(18, 20) == pytest.approx(wilson_interval(18, 20, confidence=0.9)[0], abs=1e-14)


def test_nothing_ran_bounds_nothing() -> None:
    assert (exact_lower_bound(0, 0), exact_upper_bound(0, 0), wilson_lower_bound(0, 0)) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize("interval", [*ALL, exact_lower_bound, exact_upper_bound, wilson_lower_bound])
@pytest.mark.parametrize(("passed", "total"), [(3, 2), (-1, 2), (0, -1)])
def test_impossible_counts_are_refused(interval: Callable[..., object], passed: int, total: int) -> None:
    with pytest.raises(ValueError, match="need 0 <= passed <= total"):
        interval(passed, total)


@pytest.mark.parametrize("interval", [*ALL, exact_lower_bound, exact_upper_bound, wilson_lower_bound])
@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, -0.5])
def test_an_impossible_confidence_is_refused(interval: Callable[..., object], confidence: float) -> None:
    with pytest.raises(UsageError, match="confidence"):
        interval(1, 2, confidence=confidence)

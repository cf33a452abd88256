"""Laws of counts against scipy's, and sums of them against plain convolution."""

import math
import random

import pytest
from scipy import stats

from seatrial.statistics.distributions import (
    CountDistribution,
    binomial_distribution,
    hypergeometric_distribution,
    sum_distributions,
)


def chances_by_count(distribution: CountDistribution, highest: int) -> list[float]:
    return [distribution.exactly(count) for count in range(highest + 1)]


@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("total", [0, 1, 7, 400])
def test_a_binomial_distribution_is_that_of_scipy(total: int, rate: float) -> None:
    expected = stats.binom.pmf(range(total + 1), total, rate)
    assert chances_by_count(binomial_distribution(total, rate), total) == pytest.approx(
        list(expected), rel=1e-9, abs=1e-15
    )


def test_a_hypergeometric_distribution_is_that_of_scipy() -> None:
    draw = random.Random(11)
    for _ in range(100):
        total = draw.choice([1, 2, 9, 40, 600])
        passed, drawn = draw.randint(0, total), draw.randint(0, total)
        expected = stats.hypergeom.pmf(range(drawn + 1), total, passed, drawn)
        distribution = hypergeometric_distribution(drawn, passed=passed, total=total)
        assert chances_by_count(distribution, drawn) == pytest.approx(list(expected), rel=1e-8, abs=1e-15)


def test_drawing_from_nothing_yields_nothing() -> None:
    assert hypergeometric_distribution(0, passed=0, total=0) == CountDistribution(start=0, chances=(1.0,))


def test_a_law_of_200_000_trials_sums_to_one_and_keeps_its_mean() -> None:
    distribution = hypergeometric_distribution(100_000, passed=150_000, total=200_000)
    assert math.fsum(distribution.chances) == pytest.approx(1.0, abs=1e-12)
    assert distribution.mean() == pytest.approx(75_000, rel=1e-12)
    assert distribution.exactly(75_000) == pytest.approx(
        stats.hypergeom.pmf(75_000, 200_000, 150_000, 100_000), rel=1e-7
    )


def test_tails_and_points_of_a_law_fit_together() -> None:
    distribution = binomial_distribution(12, 0.7)
    for count in range(-1, 14):
        assert distribution.at_most(count) + distribution.at_least(count) - distribution.exactly(
            count
        ) == pytest.approx(1.0, abs=1e-12)
    assert distribution.at_most(-1) == 0.0
    assert distribution.at_least(13) == 0.0


def test_counts_outside_a_law_have_no_chance() -> None:
    distribution = hypergeometric_distribution(3, passed=5, total=6)
    assert (distribution.start, distribution.exactly(1), distribution.exactly(4)) == (2, 0.0, 0.0)


def test_equally_rare_counts_on_both_sides_are_both_as_rare() -> None:
    assert binomial_distribution(10, 0.5).as_rare_as(2) == pytest.approx(2 * stats.binom.cdf(2, 10, 0.5), rel=1e-12)


def test_a_sum_of_laws_is_their_convolution() -> None:
    distributions = [
        (binomial_distribution(4, 0.3), 3),
        (hypergeometric_distribution(5, passed=7, total=10), 2),
        (binomial_distribution(2, 0.9), 1),
    ]
    expected = [1.0]
    for distribution, times in distributions:
        for _ in range(times):
            longer = [0.0] * (len(expected) + distribution.start + len(distribution.chances) - 1)
            for count, chance in enumerate(expected):
                for step, other in enumerate(distribution.chances):
                    longer[count + distribution.start + step] += chance * other
            expected = longer
    assert chances_by_count(sum_distributions(distributions), len(expected) - 1) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("times", [1, 2, 3, 7, 64, 1001])
def test_many_equal_coins_are_one_long_series(times: int) -> None:
    one, many = binomial_distribution(3, 0.8), binomial_distribution(3 * times, 0.8)
    for count in (int(2.4 * times), int(2.4 * times) - 2):
        assert sum_distributions([(one, times)]).at_most(count) == pytest.approx(many.at_most(count), rel=1e-10)


def test_the_sum_of_no_laws_is_certainly_zero() -> None:
    assert sum_distributions([]) == CountDistribution(start=0, chances=(1.0,))

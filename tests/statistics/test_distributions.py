"""Our own normal, beta and Student t against scipy's."""

import math
import random

import pytest
from scipy import special, stats

from seatrial.statistics.distributions import (
    beta_cdf,
    beta_quantile,
    binomial_at_least,
    binomial_at_most,
    find_root,
    normal_quantile,
    student_t_quantile,
)

SHAPES = [(0.5, 0.5), (1, 1), (1, 30), (2.5, 0.5), (40, 7), (1000, 3), (0.5, 100_000.5), (50_000, 50_001)]


@pytest.mark.parametrize("share", [1e-12, 1e-4, 0.025, 0.3, 0.5, 0.7, 0.975, 0.9999, 1 - 1e-9])
def test_normal_quantiles_are_those_of_scipy(share: float) -> None:
    assert normal_quantile(share) == pytest.approx(stats.norm.ppf(share), rel=1e-13, abs=1e-14)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_beta_shares_are_those_of_scipy(a: float, b: float) -> None:
    spread = math.sqrt(a * b / (a + b) ** 2 / (a + b + 1))
    for step in (-4, -1, -0.1, 0, 0.1, 1, 4):
        x = min(1 - 1e-9, max(1e-9, a / (a + b) + step * spread))
        assert beta_cdf(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-8, abs=1e-14)


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("share", [0.001, 0.025, 0.5, 0.95])
def test_beta_quantiles_are_those_of_scipy(a: float, b: float, share: float) -> None:
    assert beta_quantile(share, a, b) == pytest.approx(special.betaincinv(a, b, share), rel=1e-8, abs=1e-13)


def test_a_beta_lies_between_0_and_1() -> None:
    assert beta_cdf(-0.1, 2, 3) == beta_cdf(0.0, 2, 3) == 0.0
    assert beta_cdf(1.0, 2, 3) == beta_cdf(1.1, 2, 3) == 1.0


@pytest.mark.parametrize("degrees", [1, 2, 5, 19, 999])
@pytest.mark.parametrize("share", [0.6, 0.95, 0.975, 0.9995])
def test_student_quantiles_are_those_of_scipy(degrees: int, share: float) -> None:
    assert student_t_quantile(share, degrees) == pytest.approx(stats.t.ppf(share, degrees), rel=1e-9)


def test_binomial_tails_are_those_of_scipy() -> None:
    draw = random.Random(7)
    for _ in range(200):
        total = draw.choice([1, 2, 5, 20, 300, 100_000])
        count, rate = draw.randint(0, total), draw.random()
        assert binomial_at_least(count, total, rate) == pytest.approx(
            stats.binom.sf(count - 1, total, rate), rel=1e-7, abs=1e-14
        )
        assert binomial_at_most(count, total, rate) == pytest.approx(
            stats.binom.cdf(count, total, rate), rel=1e-7, abs=1e-14
        )


def test_impossible_counts_have_certain_tails() -> None:
    assert binomial_at_least(0, 5, 0.0) == 1.0
    assert binomial_at_least(6, 5, 1.0) == 0.0


@pytest.mark.parametrize("place", [1e-9, 0.1, 0.5, 1 - 1e-9])
def test_a_root_is_found_to_the_last_digits(place: float) -> None:
    assert find_root(lambda x: math.atan(50 * (x - place)), 0.0, 1.0) == pytest.approx(place, rel=1e-12)
    assert find_root(lambda x: math.atan(50 * (place - x)), 0.0, 1.0) == pytest.approx(place, rel=1e-12)


def test_a_root_behind_a_step_is_found() -> None:
    assert find_root(lambda x: -1.0 if x < 0.3 else 1.0, 0.0, 1.0) == pytest.approx(0.3, rel=1e-12)

"""The sign-flip test."""

import math
import random

import pytest
from scipy import stats

from seatrial.errors import UsageError
from seatrial.statistics.significance import sign_flip_test


def differences(count: int, *, seed: int, mean: float = 0.0) -> list[float]:
    draw = random.Random(seed)
    return [draw.gauss(mean, 1.0) for _ in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_few_scenarios_give_the_exact_p_values_of_scipy(seed: int) -> None:
    values = differences(9, seed=seed, mean=-0.4)

    def oracle(alternative: str) -> float:
        return stats.permutation_test(
            (values,), lambda x: sum(x) / len(x), permutation_type="samples", alternative=alternative, n_resamples=1e6
        ).pvalue

    result = sign_flip_test(values)
    assert result.exact
    assert result.p_two_sided == pytest.approx(oracle("two-sided"), abs=1e-12)
    assert result.p_regression == pytest.approx(oracle("less"), abs=1e-12)


def test_many_scenarios_give_nearly_the_exact_p_value() -> None:
    # Equal sizes make the null law binomial, so that the exact answer is known.
    values = [-0.2] * 36 + [0.2] * 24
    result = sign_flip_test(values, seed=1)
    assert not result.exact
    assert result.p_regression == pytest.approx(stats.binom.cdf(24, 60, 0.5), abs=0.006)
    assert result.p_two_sided == pytest.approx(2 * stats.binom.cdf(24, 60, 0.5), abs=0.01)


@pytest.mark.parametrize("count", [19, 20, 24, 25])
def test_every_sign_is_drawn_equally_often_whatever_the_number_of_scenarios(count: int) -> None:
    # One scenario outweighs the others together: a sum is low exactly when its own sign is.
    values = [*[1e-6] * (count - 1), -1.0]
    assert sign_flip_test(values, seed=2).p_regression == pytest.approx(0.5, abs=0.012)


def test_random_signs_never_give_zero() -> None:
    assert sign_flip_test([-1.0] * 60, draws=99).p_regression == 1 / 100


def test_the_seed_alone_decides_the_random_numbers() -> None:
    values = differences(40, seed=3, mean=-0.2)
    assert sign_flip_test(values, seed=5) == sign_flip_test(values, seed=5)
    assert sign_flip_test(values, seed=5) != sign_flip_test(values, seed=6)


def test_the_size_of_the_unit_does_not_matter() -> None:
    values = [-0.4, -0.2, -0.4, 0.1, -0.2, -0.2, 0.3]
    in_microdollars = sign_flip_test([value * 1e-13 for value in values])
    assert in_microdollars.p_two_sided == sign_flip_test(values).p_two_sided


def test_scenarios_that_did_not_move_only_dilute_the_mean() -> None:
    moved, diluted = sign_flip_test([-1.0, -0.5]), sign_flip_test([-1.0, -0.5, 0.0, 0.0])
    assert (diluted.p_regression, diluted.p_two_sided) == (moved.p_regression, moved.p_two_sided)
    assert (moved.mean, diluted.mean) == (-0.75, -0.375)


def test_no_movement_is_no_evidence() -> None:
    still, nothing = sign_flip_test([0.0, 0.0]), sign_flip_test([])
    assert (still.mean, still.p_regression, still.p_two_sided) == (0.0, 1.0, 1.0)
    assert (nothing.mean, nothing.p_regression, nothing.p_two_sided) == (None, 1.0, 1.0)


def test_values_that_are_no_numbers_are_refused() -> None:
    for function in (sign_flip_test,):
        with pytest.raises(ValueError, match="not finite"):
            function([0.1, math.nan])
        with pytest.raises(UsageError, match="draws: 0"):
            function([0.1], draws=0)

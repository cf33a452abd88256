"""pass@k and pass^k: unbiased, ordered, and silent when too little ran."""

import math

import pytest

from seatrial.errors import UsageError
from seatrial.statistics.gates import (
    pass_at_k,
    pass_at_k_interval,
    pass_hat_k,
    pass_hat_k_interval,
    suite_pass_at_k,
    suite_pass_hat_k,
)
from seatrial.statistics.intervals import clopper_pearson_interval


@pytest.mark.parametrize("measure", [pass_at_k, pass_hat_k])
def test_more_tries_than_trials_have_no_answer(measure) -> None:
    assert measure(5, 5, k=6) is None
    assert measure(0, 0, k=1) is None


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_estimates_are_right_on_average(rate: float, k: int) -> None:
    total = 6
    chances = [math.comb(total, passed) * rate**passed * (1 - rate) ** (total - passed) for passed in range(total + 1)]
    all_pass = sum(chance * (pass_hat_k(passed, total, k=k) or 0.0) for passed, chance in enumerate(chances))
    one_passes = sum(chance * (pass_at_k(passed, total, k=k) or 0.0) for passed, chance in enumerate(chances))
    assert all_pass == pytest.approx(rate**k, abs=1e-12)
    assert one_passes == pytest.approx(1 - (1 - rate) ** k, abs=1e-12)


def test_one_try_is_the_pass_rate() -> None:
    assert pass_at_k(3, 8, k=1) == pass_hat_k(3, 8, k=1) == 3 / 8


def test_more_tries_help_the_one_and_hurt_the_other() -> None:
    at = [pass_at_k(6, 10, k=k) for k in range(1, 11)]
    hat = [pass_hat_k(6, 10, k=k) for k in range(1, 11)]
    assert at == sorted(at)
    assert hat == sorted(hat, reverse=True)


def test_many_trials_do_not_overflow() -> None:
    assert pass_hat_k(99_999, 100_000, k=1000) == pytest.approx(0.99, abs=1e-12)
    assert pass_at_k(1, 100_000, k=1000) == pytest.approx(0.01, abs=1e-12)


def test_a_suite_with_a_short_scenario_has_no_value() -> None:
    assert suite_pass_at_k([(5, 5), (2, 3)], k=5) is None
    assert suite_pass_hat_k([(5, 5), (2, 3)], k=5) is None
    assert suite_pass_hat_k([(5, 5), (2, 4)], k=1) == 0.75


def test_an_empty_suite_has_no_value() -> None:
    assert suite_pass_at_k([], k=1) is None


def test_intervals_carry_the_bounds_of_the_rate_over() -> None:
    low, high = clopper_pearson_interval(8, 10)
    assert pass_hat_k_interval(8, 10, k=3) == pytest.approx((low**3, high**3))
    assert pass_at_k_interval(8, 10, k=3) == pytest.approx((1 - (1 - low) ** 3, 1 - (1 - high) ** 3))
    assert pass_at_k_interval(0, 0, k=3) == pass_hat_k_interval(0, 0, k=3) == (0.0, 1.0)


@pytest.mark.parametrize("measure", [pass_at_k, pass_hat_k, pass_at_k_interval, pass_hat_k_interval])
def test_impossible_arguments_are_refused(measure) -> None:
    with pytest.raises(UsageError, match="k: 0"):
        measure(1, 2, k=0)
    with pytest.raises(ValueError, match="3 passed of 2"):
        measure(3, 2, k=1)

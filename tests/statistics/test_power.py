"""Planning: the numbers promise what simulation, scipy and the tests themselves deliver."""

import pytest
from scipy import stats

from seatrial.errors import UsageError
from seatrial.statistics.power import (
    fisher_power,
    fixed_design,
)


def first_design_by_trying(bar: float, bad: float, alpha: float, power: float) -> tuple[int, int]:
    for trials in range(1, 500):
        cuts = [cut for cut in range(trials) if stats.binom.cdf(cut, trials, bar) <= alpha + 1e-12]
        if cuts and stats.binom.cdf(cuts[-1], trials, bad) >= power:
            return trials, cuts[-1]
    raise AssertionError


@pytest.mark.parametrize(
    ("bar", "bad", "alpha", "power"),
    [
        (0.9, 0.7, 0.05, 0.95),
        (0.9, 0.6, 0.01, 0.8),
        (0.5, 0.2, 0.05, 0.8),
        (0.99, 0.9, 0.1, 0.9),
        (0.95, 0.0, 0.05, 0.8),
    ],
)
def test_the_design_is_the_first_that_works(bar: float, bad: float, alpha: float, power: float) -> None:
    design = fixed_design(bar, bad, alpha=alpha, power=power)
    assert (design.trials, design.fail_at_most) == first_design_by_trying(bar, bad, alpha, power)


def test_the_two_errors_of_the_sequential_test_cost_41_trials_without_it() -> None:
    design = fixed_design(0.9, 0.7, alpha=0.05, power=0.95)
    assert (design.trials, design.fail_at_most) == (41, 33)


def test_a_bar_of_one_fails_at_the_first_failure() -> None:
    design = fixed_design(1.0, 0.8)
    assert (design.trials, design.fail_at_most, design.false_alarm) == (8, 7, 0.0)


def test_a_drop_too_small_for_the_maximum_has_no_design() -> None:
    assert fixed_design(0.9, 0.89, max_trials=200) is None


def fisher_power_by_trying(base: float, candidate: float, trials: int) -> float:
    power = 0.0
    for one in range(trials + 1):
        for other in range(trials + 1):
            table = [[other, trials - other], [one, trials - one]]
            if stats.fisher_exact(table, alternative="less").pvalue <= 0.05:
                power += stats.binom.pmf(one, trials, base) * stats.binom.pmf(other, trials, candidate)
    return power


@pytest.mark.parametrize(("base", "candidate"), [(1.0, 0.4), (0.8, 0.3), (0.5, 0.5), (0.2, 0.9)])
def test_fishers_power_is_what_trying_every_result_gives(base: float, candidate: float) -> None:
    expected = fisher_power_by_trying(base, candidate, 8)
    assert fisher_power(base, candidate, trials=8) == pytest.approx(expected, abs=1e-12)


def test_fishers_test_keeps_its_error_when_nothing_changed() -> None:
    for rate in (0.1, 0.5, 0.9):
        assert fisher_power(rate, rate, trials=40) <= 0.05


def test_three_trials_can_just_flag_a_total_break() -> None:
    assert fisher_power(1.0, 0.0, trials=3) == pytest.approx(1.0)
    assert fisher_power(1.0, 0.0, trials=2) == 0.0


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (lambda: fixed_design(0.7, 0.9), r"bad_rate: 0\.9 is not below the bar 0\.7"),
        (lambda: fixed_design(0.0, 0.0), r"bar: 0\.0"),
        (lambda: fixed_design(0.9, 0.8, power=80), "power: 80"),
        (lambda: fisher_power(0.9, 0.8, trials=0), "trials: 0"),
    ],
)
def test_plans_that_cannot_be_are_refused(plan, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        plan()

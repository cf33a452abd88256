"""Planning: the numbers promise what simulation, scipy and the tests themselves deliver."""

import random
import statistics as stdlib

import pytest
from scipy import stats

from seatrial.errors import UsageError
from seatrial.statistics.power import (
    SuiteSpread,
    fisher_power,
    fixed_design,
    noticeable_rate,
    pairs_needed,
    repeats_to_flag_one,
    smallest_visible_drop,
    trials_per_run,
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


@pytest.mark.parametrize(("trials", "percent"), [(5, 33), (10, 52), (20, 69)])
def test_few_trials_notice_only_a_deep_fall(trials: int, percent: int) -> None:
    assert round(100 * noticeable_rate(0.9, trials)) == percent


@pytest.mark.parametrize("bar", [0.5, 0.9, 1.0])
@pytest.mark.parametrize("trials", [6, 25, 400])
def test_at_the_noticeable_rate_the_power_is_as_promised(bar: float, trials: int) -> None:
    rate = noticeable_rate(bar, trials)
    cut = max(cut for cut in range(trials) if stats.binom.cdf(cut, trials, bar) <= 0.05)
    assert stats.binom.cdf(cut, trials, rate) == pytest.approx(0.8, abs=1e-9)


def test_one_trial_against_90_percent_notices_nothing() -> None:
    assert noticeable_rate(0.9, 1) is None


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


def test_a_smaller_drop_needs_more_trials() -> None:
    needed = [trials_per_run(0.9, rate) for rate in (0.5, 0.7, 0.8, 0.85, 0.89)]
    assert needed == sorted(needed)
    assert trials_per_run(0.9, 0.8, one_sided=True) < trials_per_run(0.9, 0.8)
    assert trials_per_run(1.0, 0.0) == 1


@pytest.mark.parametrize("scenarios", [1, 12, 13, 171, 172])
@pytest.mark.parametrize("base_repeats", [None, 1, 20])
def test_the_repeats_flag_one_broken_scenario_and_one_fewer_do_not(scenarios: int, base_repeats: int | None) -> None:
    repeats = repeats_to_flag_one(scenarios, base_repeats=base_repeats)

    def flags(candidate: int) -> bool:
        base = base_repeats or candidate
        p_value = stats.fisher_exact([[0, candidate], [base, 0]], alternative="less").pvalue
        return p_value <= 0.05 / scenarios * (1 + 1e-9)

    assert flags(repeats)
    assert repeats == 1 or not flags(repeats - 1)


def test_the_visible_drop_is_seen_with_the_promised_power() -> None:
    draw = random.Random(1)
    spread = SuiteSpread(between_scenarios=0.01, base_trial=0.16, candidate_trial=0.16)
    scenarios, repeats = 50, 8
    drop = smallest_visible_drop(spread, scenarios=scenarios, repeats=repeats)
    noise = (0.01 + 0.32 / repeats) ** 0.5
    seen = 0
    for _ in range(2000):
        values = [draw.gauss(-drop, noise) for _ in range(scenarios)]
        seen += abs(stdlib.fmean(values)) > 1.96 * noise / scenarios**0.5
    assert seen / 2000 == pytest.approx(0.8, abs=0.03)


def test_more_scenarios_and_more_repeats_show_smaller_drops() -> None:
    spread = SuiteSpread(between_scenarios=0.02, base_trial=0.12, candidate_trial=0.12)
    few = smallest_visible_drop(spread, scenarios=20, repeats=5)
    assert smallest_visible_drop(spread, scenarios=40, repeats=5) < few
    assert smallest_visible_drop(spread, scenarios=20, repeats=10) < few
    assert not spread.scenarios_beat_repeats(12)
    assert spread.scenarios_beat_repeats(13)


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (lambda: fixed_design(0.7, 0.9), r"bad_rate: 0\.9 is not below the bar 0\.7"),
        (lambda: fixed_design(0.0, 0.0), r"bar: 0\.0"),
        (lambda: fixed_design(0.9, 0.8, power=80), "power: 80"),
        (lambda: noticeable_rate(90, 5), "bar: 90"),
        (lambda: noticeable_rate(0.9, 0), "trials: 0"),
        (lambda: trials_per_run(0.9, 0.9), r"candidate_rate: 0\.9 equals base_rate"),
        (lambda: trials_per_run(0.9, 1.9), r"candidate_rate: 1\.9"),
        (lambda: fisher_power(0.9, 0.8, trials=0), "trials: 0"),
        (lambda: pairs_needed(0.1, 0.1), "are equal or exceed 1 together"),
        (lambda: pairs_needed(0.8, 0.3), "are equal or exceed 1 together"),
        (lambda: repeats_to_flag_one(0), "scenarios: 0"),
        (lambda: repeats_to_flag_one(5, base_repeats=0), "base_repeats: 0"),
    ],
)
def test_plans_that_cannot_be_are_refused(plan, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        plan()

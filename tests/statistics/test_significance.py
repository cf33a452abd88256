"""Differences between two runs against scipy, statsmodels and enumeration."""

import random
import time
from itertools import product
from math import comb

import pytest
from scipy import stats
from statsmodels.stats.proportion import confint_proportions_2indep

from seatrial.statistics.significance import (
    ScenarioCounts,
    fisher_test,
    flag_scenarios,
    newcombe_interval,
    smallest_p_value,
    stratified_test,
)


def scenario(base: tuple[int, int], candidate: tuple[int, int]) -> ScenarioCounts:
    return ScenarioCounts(
        base_passed=base[0], base_total=base[1], candidate_passed=candidate[0], candidate_total=candidate[1]
    )


def some_scenario(draw: random.Random, *, up_to: int) -> ScenarioCounts:
    base, candidate = draw.randint(1, up_to), draw.randint(1, up_to)
    return scenario((draw.randint(0, base), base), (draw.randint(0, candidate), candidate))


def some_suite(draw: random.Random, *, scenarios: int, repeats: int, drop: float = 0.0) -> list[ScenarioCounts]:
    suite = []
    for _ in range(scenarios):
        rate = draw.betavariate(4, 1)
        base = sum(draw.random() < rate for _ in range(repeats))
        candidate = sum(draw.random() < rate - drop for _ in range(repeats))
        suite.append(scenario((base, repeats), (candidate, repeats)))
    return suite


def table_of(counts: ScenarioCounts) -> list[list[int]]:
    """Candidate above, baseline below; passed left, failed right."""
    return [
        [counts.candidate_passed, counts.candidate_total - counts.candidate_passed],
        [counts.base_passed, counts.base_total - counts.base_passed],
    ]


@pytest.mark.parametrize("up_to", [6, 60, 2000])
def test_fishers_p_values_are_those_of_scipy(up_to: int) -> None:
    draw = random.Random(up_to)
    for _ in range(60):
        counts = some_scenario(draw, up_to=up_to)
        for direction, alternative in [("regression", "less"), ("improvement", "greater"), ("two_sided", "two-sided")]:
            expected = stats.fisher_exact(table_of(counts), alternative=alternative).pvalue
            assert fisher_test(counts, direction=direction) == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_a_scenario_of_100_000_trials_has_a_p_value() -> None:
    counts = scenario((90_000, 100_000), (89_800, 100_000))
    expected = stats.fisher_exact(table_of(counts), alternative="less").pvalue
    assert fisher_test(counts) == pytest.approx(expected, rel=1e-6)


def test_turning_a_scenario_turns_an_improvement_into_a_regression() -> None:
    counts = scenario((2, 9), (7, 8))
    assert fisher_test(counts, direction="improvement") == pytest.approx(fisher_test(counts.swapped()), rel=1e-12)


@pytest.mark.parametrize("counts", [scenario((0, 0), (0, 0)), scenario((3, 3), (0, 0)), scenario((4, 4), (5, 5))])
def test_no_failure_or_no_trial_is_no_evidence(counts: ScenarioCounts) -> None:
    assert fisher_test(counts) == fisher_test(counts, direction="two_sided") == smallest_p_value(counts) == 1.0


def test_the_smallest_p_value_is_that_of_the_worst_candidate_with_as_many_passes() -> None:
    assert smallest_p_value(scenario((5, 5), (1, 5))) == pytest.approx(fisher_test(scenario((5, 5), (1, 5))))
    assert smallest_p_value(scenario((3, 5), (2, 5))) == pytest.approx(fisher_test(scenario((5, 5), (0, 5))))
    assert smallest_p_value(scenario((3, 3), (0, 3))) == pytest.approx(0.05, rel=1e-12)


def by_enumeration(suite: list[ScenarioCounts]) -> tuple[float, float]:
    """One-sided p-values of the sum over every way the passes could have fallen, in whole numbers."""
    observed = sum(counts.candidate_passed for counts in suite)
    ways = []
    for counts in suite:
        passed = counts.base_passed + counts.candidate_passed
        failed = counts.base_total + counts.candidate_total - passed
        drawn = counts.candidate_total
        ways.append([(k, comb(passed, k) * comb(failed, drawn - k)) for k in range(drawn + 1)])
    lower = higher = everything = 0
    for combination in product(*ways):
        weight = 1
        for _, number in combination:
            weight *= number
        total = sum(k for k, _ in combination)
        everything += weight
        lower += weight * (total <= observed)
        higher += weight * (total >= observed)
    return lower / everything, higher / everything


def test_the_stratified_test_is_what_enumerating_every_split_gives() -> None:
    draw = random.Random(3)
    for _ in range(30):
        suite = [some_scenario(draw, up_to=5) for _ in range(draw.randint(1, 5))]
        result = stratified_test(suite)
        assert (result.p_regression, result.p_improvement) == pytest.approx(by_enumeration(suite), rel=1e-11)


def test_the_stratified_test_of_one_scenario_is_fishers() -> None:
    draw = random.Random(4)
    for _ in range(50):
        counts = some_scenario(draw, up_to=30)
        result = stratified_test([counts])
        assert result.p_regression == pytest.approx(fisher_test(counts), rel=1e-12)
        assert result.p_two_sided == pytest.approx(fisher_test(counts, direction="two_sided"), rel=1e-9)


def test_the_order_of_scenarios_does_not_matter() -> None:
    suite = some_suite(random.Random(5), scenarios=40, repeats=7, drop=0.1)
    forwards, backwards = stratified_test(suite), stratified_test(suite[::-1])
    assert forwards.p_regression == pytest.approx(backwards.p_regression, rel=1e-10)


def test_the_two_one_sided_p_values_share_only_the_observed_count() -> None:
    result = stratified_test(some_suite(random.Random(6), scenarios=200, repeats=5))
    observed = 2 * (result.p_regression - result.mid_p_regression)
    assert result.p_regression + result.p_improvement == pytest.approx(1.0 + observed, abs=1e-11)


def test_no_scenarios_are_no_evidence() -> None:
    result = stratified_test([])
    assert (result.observed, result.expected, result.p_regression, result.p_two_sided) == (0, 0.0, 1.0, 1.0)


def test_a_p_value_too_small_to_compute_is_not_zero() -> None:
    result = stratified_test([scenario((100, 100), (0, 100))] * 50)
    assert 0.0 < result.p_regression <= 1e-30
    assert 0.0 < result.p_two_sided <= 1e-30
    assert result.p_improvement == 1.0


def test_two_runs_of_10_000_trials_are_compared_well_under_a_second() -> None:
    suite = some_suite(random.Random(10), scenarios=1000, repeats=10, drop=0.02)
    started = time.process_time()
    stratified_test(suite)
    flag_scenarios(suite)
    assert time.process_time() - started < 0.8


def test_newcombes_interval_is_that_of_statsmodels() -> None:
    draw = random.Random(12)
    for _ in range(50):
        counts = some_scenario(draw, up_to=200)
        expected = confint_proportions_2indep(
            counts.candidate_passed, counts.candidate_total, counts.base_passed, counts.base_total, method="newcomb"
        )
        low, high = newcombe_interval(counts)
        assert (low, high) == pytest.approx(expected, abs=1e-9)
        assert -1.0 <= low <= counts.difference <= high <= 1.0


def test_a_run_without_trials_has_no_difference() -> None:
    counts = scenario((3, 5), (0, 0))
    assert counts.difference is None
    assert newcombe_interval(counts) == (-1.0, 1.0)


def test_more_passes_than_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="6 passed of 5"):
        scenario((1, 5), (6, 5))

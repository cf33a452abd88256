"""The gate against a history: its boundaries are exact, and it never clears or alarms without evidence."""

import importlib.util
import random
import time
from pathlib import Path

import pytest
from scipy import stats

from seatrial.errors import UsageError
from seatrial.statistics import history_gate
from seatrial.statistics.history_gate import (
    DEFAULT_GATE,
    ErrorOfBoundary,
    History,
    HistoryGate,
    ScenarioResult,
    SuiteResult,
    between_run_variance,
    decide_gate,
    decide_scenario,
    decide_suite,
    find_boundary,
    first_trials,
    forecast,
    operating_point,
    solve_boundary,
)
from seatrial.statistics.significance import ScenarioCounts

RELIABLE = History(passed=95, total=100)


def scenario(decision: str) -> ScenarioResult:
    return ScenarioResult(decision=decision, passed=0, trials=0, left_out=0)  # type: ignore[arg-type]


def suite(alarm: bool) -> SuiteResult:
    return SuiteResult(alarm=alarm, p_value=0.5, expected=0.0, observed=0)


@pytest.mark.parametrize(("alpha", "boundary", "error"), [(0.0015, 5.48, 0.00148), (0.0003, 7.10, 0.00028)])
def test_the_boundaries_are_those_of_the_specification(alpha: float, boundary: float, error: float) -> None:
    gate = HistoryGate(beta=0.1, max_trials=24)
    found = solve_boundary(100, alpha, gate=gate)
    assert found == pytest.approx(boundary, abs=0.03)
    assert ErrorOfBoundary(100, gate)(round(100 * found)) == pytest.approx(error, abs=0.00002)


@pytest.mark.parametrize(("total", "scenarios"), [(20, 20), (47, 1), (60, 100)])
def test_the_stored_boundaries_are_reproduced(total: int, scenarios: int) -> None:
    assert find_boundary(total, scenarios) == solve_boundary(total, DEFAULT_GATE.alpha / scenarios)


def test_the_script_makes_the_stored_row() -> None:
    path = Path(__file__).parents[2] / "scripts" / "history_boundaries.py"
    spec = importlib.util.spec_from_file_location("history_boundaries", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    _, rows = history_gate._read_table()
    assert tuple(value / 100 for value in script.make_row(20)) == rows[20]
    assert set(rows) == set(range(20, 101))


def test_a_number_of_scenarios_between_stored_ones_gets_the_boundary_of_the_next_larger() -> None:
    assert find_boundary(50, 97) == find_boundary(50, 100) > find_boundary(50, 90)


def test_more_scenarios_than_stored_are_computed() -> None:
    assert find_boundary(20, 1001) >= find_boundary(20, 1000)


def test_the_table_loads_in_milliseconds() -> None:
    history_gate._read_table.cache_clear()
    started = time.perf_counter()
    find_boundary(100, 20)
    assert time.perf_counter() - started < 0.1


def test_simulated_trials_of_an_unchanged_agent_are_worse_as_rarely_as_promised() -> None:
    rng = random.Random(1)
    boundary = find_boundary(50, 1)
    alarms = 0
    for _ in range(2000):
        history = History(passed=sum(rng.random() < 0.9 for _ in range(50)), total=50)
        answers = [rng.random() < 0.9 for _ in range(48)]
        alarms += decide_scenario(answers, history, boundary).decision == "worse"
    assert alarms <= stats.binom.ppf(0.999, 2000, DEFAULT_GATE.alpha)


def test_simulated_decisions_have_the_exact_probabilities() -> None:
    rng = random.Random(2)
    boundary = find_boundary(100, 20)
    point = operating_point(RELIABLE, 0.6, boundary)
    results = [decide_scenario([rng.random() < 0.6 for _ in range(48)], RELIABLE, boundary) for _ in range(2000)]
    for decision, chance in (("worse", point.worse), ("cleared", point.cleared), ("undecided", point.undecided)):
        count = sum(result.decision == decision for result in results)
        assert stats.binomtest(count, 2000, min(1.0, chance)).pvalue > 0.001
    assert sum(result.trials for result in results) / 2000 == pytest.approx(point.expected_trials, rel=0.05)
    assert point.worse + point.cleared + point.undecided == pytest.approx(1.0, abs=1e-12)


def test_passes_clear_a_reliable_scenario_and_failures_make_it_worse() -> None:
    boundary = find_boundary(100, 20)
    assert decide_scenario([True] * 24, RELIABLE, boundary).decision == "cleared"
    assert decide_scenario([False] * 24, RELIABLE, boundary).decision == "worse"
    assert decide_scenario([True], RELIABLE, boundary).decision == "go on"
    assert decide_scenario([], RELIABLE, boundary) == ScenarioResult(
        decision="go on", passed=0, trials=0, left_out=0, fewest_more=3
    )


def test_what_comes_after_the_decision_does_not_change_it() -> None:
    boundary = find_boundary(100, 20)
    short = decide_scenario([True] * 4, RELIABLE, boundary)
    assert decide_scenario([True] * 4 + [False] * 20, RELIABLE, boundary) == short


def test_an_instrument_error_delays_clearing_as_a_failure_would() -> None:
    boundary = find_boundary(100, 20)
    clean = decide_scenario([True] * 24, RELIABLE, boundary)
    spoiled = decide_scenario([None, *[True] * 24], RELIABLE, boundary)
    failed = decide_scenario([False, *[True] * 24], RELIABLE, boundary)
    assert (clean.left_out, spoiled.left_out) == (0, 1)
    assert spoiled.decision == failed.decision == "cleared"
    assert clean.trials < spoiled.trials == failed.trials - 1


def test_too_many_instrument_errors_leave_it_undecided() -> None:
    result = decide_scenario([None] * 90 + [True] * 48, RELIABLE, find_boundary(100, 20))
    assert (result.decision, result.left_out) == ("undecided", 90)


def test_a_scenario_that_answered_well_enough_cannot_become_worse_while_errors_delay_its_clearing() -> None:
    boundary = find_boundary(100, 20)
    answers = [None] * 10 + [True] * 4 + [False] * 44
    assert decide_scenario(answers, RELIABLE, boundary).decision == "undecided"


@pytest.mark.parametrize(
    ("passed", "total", "problem"),
    [(19, 19, "too short"), (20, 20, None), (9, 100, "cannot get worse"), (10, 100, None)],
)
def test_a_history_says_why_it_cannot_be_used(passed: int, total: int, problem: str | None) -> None:
    assert History(passed=passed, total=total).problem == problem


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="newest 100"):
        History(passed=0, total=101)
    with pytest.raises(UsageError, match="drop"):
        HistoryGate(drop=0.0)
    with pytest.raises(UsageError, match="max_trials"):
        HistoryGate(max_trials=0)


@pytest.mark.parametrize(
    ("decisions", "alarm", "verdict"),
    [
        (["cleared", "cleared"], False, "NOT WORSE"),
        (["cleared", "worse"], False, "REGRESSION"),
        (["cleared", "cleared"], True, "REGRESSION"),
        (["cleared", "undecided"], False, "UNDECIDED"),
        (["cleared", "go on"], False, "UNDECIDED"),
        ([], False, "UNDECIDED"),
    ],
)
def test_only_cleared_scenarios_without_an_alarm_are_not_worse(decisions: list[str], alarm: bool, verdict: str) -> None:
    assert decide_gate([scenario(one) for one in decisions], suite(alarm)) == verdict


def test_without_a_suite_test_nothing_is_not_worse() -> None:
    assert decide_gate([scenario("cleared")], None) == "UNDECIDED"


def counts(base: tuple[int, int], candidate: tuple[int, int]) -> ScenarioCounts:
    return ScenarioCounts(
        base_passed=base[0], base_total=base[1], candidate_passed=candidate[0], candidate_total=candidate[1]
    )


def test_the_suite_test_finds_a_small_drop_everywhere() -> None:
    assert first_trials(30) == 3
    assert first_trials(31) == 1
    assert decide_suite([counts((95, 100), (2, 3))] * 20).alarm
    assert not decide_suite([counts((95, 100), (3, 3))] * 20).alarm
    assert not decide_suite([]).alarm


def test_variance_between_runs_widens_the_suite_test() -> None:
    lower = [counts((95, 100), (2, 3))] * 6 + [counts((95, 100), (3, 3))] * 14
    exact, near, wide = (decide_suite(lower, variance=v).p_value for v in (1.0, 1.0001, 4.0))
    assert exact == pytest.approx(near, abs=0.02)
    assert wide > 3 * near
    assert decide_suite([counts((100, 100), (3, 3))], variance=2.0).p_value == 1.0


def test_equal_runs_have_no_extra_variance_and_shifted_ones_do() -> None:
    steady = [[History(passed=4, total=5)] * 20] * 10
    shifted = [[History(passed=5 - 2 * (number % 2), total=5)] * 20 for number in range(10)]
    assert between_run_variance(steady) == 1.0
    assert between_run_variance(shifted) > 5
    assert between_run_variance(shifted[:4]) == 1.0


def test_the_variance_of_simulated_runs_without_a_shock_is_near_one() -> None:
    rng = random.Random(3)
    found = [
        between_run_variance(
            [[History(passed=sum(rng.random() < 0.9 for _ in range(5)), total=5) for _ in range(20)] for _ in range(10)]
        )
        for _ in range(100)
    ]
    assert 1.0 <= sum(found) / 100 < 1.35


def test_a_scenario_that_did_not_run_adds_nothing_to_the_variance() -> None:
    runs = [[History(passed=4, total=5), History(passed=0, total=0)]] * 6
    assert between_run_variance(runs) == 1.0


def test_the_forecast_says_what_the_gate_costs_and_finds() -> None:
    found = forecast([RELIABLE] * 20)
    assert 60 <= found.expected_calls <= 110
    assert found.most_calls == 960
    assert found.power > 0.75
    assert found.weakest_power == pytest.approx(found.power)
    assert 0.5 < found.all_cleared <= 1.0
    assert found.false_alarms == pytest.approx(0.05)


def test_no_scenario_has_no_power() -> None:
    found = forecast([])
    assert (found.expected_calls, found.power) == (0.0, 0.0)

"""The page "Scoring & Thresholds" of Connexity, sentence by sentence. A name quotes the claim.

A test case of Connexity is a scenario here.
Where Seatrial decides otherwise, the name says so, and docs/differences.md says why.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.comparison.aggregates import find_regressions
from seatrial.model.comparison import RegressionLimits, SuiteFigures

WEIGHTS = {
    "tool_routing": 0.15,
    "parameter_extraction": 0.15,
    "result_interpretation": 0.15,
    "grounding_fidelity": 0.125,
    "instruction_compliance": 0.125,
    "information_gathering": 0.1,
    "conversation_management": 0.1,
    "response_delivery": 0.1,
}
LABELS = ["critical_fail", "fail", "poor", "acceptable", "good", "excellent"]
DEFAULT = {"input": "a", "metrics": ["default"]}
ONE_METRIC = {"input": "a", "metrics": ["tool_routing"]}
TASK = {"name": "task_completion", "weight": 0.15}
OUTCOMES = {"expected_outcomes": ["The appointment is on Friday.", "The new time was confirmed."]}


def all_scored(score: int, **others: int) -> dict[str, Any]:
    return {"graded": {**dict.fromkeys(WEIGHTS, score), **others}}


# How overall_score is calculated


def test_each_test_case_is_evaluated_across_8_default_metrics_with_these_default_weights(play: Any) -> None:
    found = play(DEFAULT, {"a": "ok"}).trial()["evaluation"]

    assert {name: grade["weight"] for name, grade in found.items()} == WEIGHTS


@pytest.mark.parametrize(("score", "overall"), [(5, 100), (4, 80), (3, 60), (0, 0)])
def test_if_every_metric_scores_5_you_get_100_if_every_metric_scores_3_you_get_60(
    play: Any, score: int, overall: int
) -> None:
    assert play(DEFAULT, {"a": all_scored(score)}).trial()["overall_score"] == overall


def test_the_overall_score_is_the_weighted_sum(play: Any) -> None:
    graded = {"graded": dict(zip(WEIGHTS, (5, 4, 3, 5, 4, 3, 2, 1), strict=True))}

    assert play(DEFAULT, {"a": graded}).trial()["overall_score"] == 70.5


# Per-metric scoring


@pytest.mark.parametrize(("score", "label"), list(enumerate(LABELS)))
def test_scored_metrics_have_labels_that_are_purely_descriptive(play: Any, score: int, label: str) -> None:
    found = play(ONE_METRIC, {"a": {"graded": {"tool_routing": score}}}, pass_threshold=0).trial()

    assert found["evaluation"]["tool_routing"]["label"] == label
    assert found["passed"] is True


def test_a_metric_scoring_0_does_not_independently_fail_the_test_case(play: Any) -> None:
    played = play(DEFAULT, {"a": all_scored(5, tool_routing=0)})

    assert played.code == 0
    assert played.trial()["overall_score"] == 85


@pytest.mark.parametrize(("done", "label", "overall"), [(1, "pass", 80), (0, "fail", 30)])
def test_binary_metrics_map_to_score_5_or_0_and_feed_into_the_weighted_sum(
    play: Any, done: int, label: str, overall: float
) -> None:
    asked = {"input": "a", "metrics": ["tool_routing", TASK]}
    found = play(asked, {"a": {"graded": {"tool_routing": 3, "task_completion": done}}}).trial()

    assert found["evaluation"]["task_completion"]["label"] == label
    assert found["overall_score"] == overall


def test_the_only_gate_at_the_test_case_level_is_overall_score_at_or_above_pass_threshold(play: Any) -> None:
    found = [play({**ONE_METRIC, "pass_threshold": gate}, {"a": all_scored(4)}).trial()["passed"] for gate in (80, 81)]

    assert found == [True, False]


# Pass/fail per test case


@pytest.mark.parametrize(("said", "passed"), [("11", True), ("10", False), ("01", False), ("00", False)])
def test_a_test_case_passes_when_all_of_its_expected_outcomes_pass(play: Any, said: str, passed: bool) -> None:
    found = play({"input": "a", **OUTCOMES}, {"a": {"graded": {"outcomes": said}}}).trial()

    assert found["passed"] is passed
    assert [(one["passed"], one["justification"]) for one in found["outcomes"]] == [(each == "1", "j") for each in said]


def test_the_gate_is_the_expected_outcomes_checklist_not_the_weighted_score(play: Any) -> None:
    asked = {**ONE_METRIC, **OUTCOMES}

    assert play(asked, {"a": {"graded": {"tool_routing": 0, "outcomes": "11"}}}).trial()["passed"] is True
    assert play(asked, {"a": {"graded": {"tool_routing": 5, "outcomes": "10"}}}).trial()["passed"] is False


def test_overall_score_and_the_per_metric_scores_are_still_recorded_for_observability(play: Any) -> None:
    found = play({**ONE_METRIC, **OUTCOMES}, {"a": {"graded": {"tool_routing": 1}}}).trial()

    assert (found["overall_score"], found["evaluation"]["tool_routing"]["value"]) == (20, 1)


@pytest.mark.parametrize(("score", "passed"), [(4, True), (3, False)])
def test_without_expected_outcomes_it_falls_back_to_overall_score_with_default_75(
    play: Any, score: int, passed: bool
) -> None:
    found = play(DEFAULT, {"a": all_scored(score)})

    assert found.trial()["passed"] is passed
    assert found.scenario()["gates"]["pass_threshold"] == 75


@pytest.mark.parametrize(("score", "passed"), [(4, True), (3, False)])
def test_when_the_judge_could_not_produce_outcomes_it_falls_back_to_overall_score(
    play: Any, score: int, passed: bool
) -> None:
    graded = {"graded": {"tool_routing": score, "outcomes": "none"}}
    found = play({**ONE_METRIC, **OUTCOMES}, {"a": graded}).trial()

    assert found["passed"] is passed
    assert found["outcomes_unavailable"] is True


def test_ours_takes_an_answer_that_lacks_one_outcome_for_no_answer(play: Any) -> None:
    found = play({**ONE_METRIC, **OUTCOMES}, {"a": {"graded": {"outcomes": "1"}}}).trial()

    assert (found["status"], found["error"]["kind"]) == ("errored", "judge")


# What can be overridden


def test_you_can_remove_metrics_and_weights_are_renormalized_to_sum_to_1(play: Any) -> None:
    asked = {"input": "a", "metrics": ["tool_routing", "response_delivery"]}
    found = play(asked, {"a": {"graded": {"tool_routing": 5, "response_delivery": 0}}}).trial()

    assert {name: grade["weight"] for name, grade in found["evaluation"].items()} == {
        "tool_routing": 0.6,
        "response_delivery": 0.4,
    }
    assert found["overall_score"] == 60


def test_you_can_add_metrics_including_binary_ones_like_task_completion(play: Any) -> None:
    asked = {"input": "a", "metrics": ["default", {**TASK, "weight": 0.25}]}
    found = play(asked, {"a": all_scored(4, task_completion=1)}).trial()

    assert found["evaluation"]["task_completion"]["weight"] == 0.2
    assert found["overall_score"] == 84


def test_metric_weights_can_be_overridden(play: Any) -> None:
    asked = {
        "input": "a",
        "metrics": [{"name": "tool_routing", "weight": 3}, {"name": "response_delivery", "weight": 1}],
    }

    assert play(asked, {"a": {"graded": {"tool_routing": 4, "response_delivery": 0}}}).trial()["overall_score"] == 60


@pytest.mark.parametrize(("gate", "passed"), [(50, True), (60, True), (90, False)])
def test_set_pass_threshold_to_50_for_lenient_evals_or_90_for_strict(play: Any, gate: int, passed: bool) -> None:
    said = {"a": all_scored(3)}

    assert play(DEFAULT, said, pass_threshold=gate).trial()["passed"] is passed
    assert play(DEFAULT, said, "--pass-threshold", str(gate)).trial()["passed"] is passed


def test_pass_threshold_is_only_used_as_a_fallback_for_test_cases_without_expected_outcomes(play: Any) -> None:
    asked = {**ONE_METRIC, **OUTCOMES, "pass_threshold": 90}

    assert play(asked, {"a": {"graded": {"tool_routing": 1}}}).trial()["passed"] is True


def test_judge_llm_model_and_provider_can_be_overridden(play: Any, folder: Any) -> None:
    played = play(ONE_METRIC, {"a": "ok"})
    judge = json.loads((folder.path / "suite.yaml").read_text())["suite"]["config"]["models"]["judge"]
    folder.seatrial("run", "suite.yaml", "--judge-model", judge.replace("openai:judge", "openai:cheaper"))

    assert played.trial()["judge"]["details"]["model"] == "openai:judge"
    assert folder.results()["scenarios"][0]["trials"][0]["judge"]["details"]["model"] == "openai:cheaper"


# Expected outcomes


def test_expected_outcomes_do_not_factor_into_the_overall_score_calculation(play: Any) -> None:
    scores = {
        play({**ONE_METRIC, **OUTCOMES}, {"a": {"graded": {"tool_routing": 4, "outcomes": said}}}).trial()[
            "overall_score"
        ]
        for said in ("11", "00")
    }

    assert scores == {80}


# Run-level pass thresholds


def test_metrics_is_the_mean_of_per_test_case_overall_score_across_all_results_that_produced_a_verdict(
    play: Any,
) -> None:
    asked = {**ONE_METRIC, "trials": 3, "pass_threshold": 0}
    said = [all_scored(5), all_scored(2), {"raises": "down"}]

    totals = play(asked, {"a": said}, threshold=0.5).results["totals"]

    assert totals["weighted_metrics_score_pct"] == 70
    assert (totals["metrics_pass_threshold"], totals["metrics_passed"]) == (80, False)


def test_cases_is_passed_count_by_total_executions_and_errored_results_count_as_not_passed(play: Any) -> None:
    asked = {"input": "a", "expected_output": "ok", "trials": 4}

    totals = play(asked, {"a": ["ok", "ok", "no", {"raises": "down"}]}).results["totals"]

    assert (totals["passed_count"], totals["total_executions"], totals["error_count"]) == (2, 4, 1)
    assert totals["cases_pass_rate_pct"] == 50
    assert (totals["cases_pass_threshold"], totals["cases_passed"]) == (100, False)


def test_after_a_run_completes_the_aggregate_metrics_include_both_dimensions(play: Any) -> None:
    totals = play(DEFAULT, {"a": "ok"}).results["totals"]

    for name in ("weighted_metrics_score_pct", "metrics_pass_threshold", "metrics_passed"):
        assert totals[name] is not None
    for name in ("cases_pass_rate_pct", "cases_pass_threshold", "cases_passed"):
        assert totals[name] is not None


@pytest.mark.parametrize(("gate", "passed"), [(80, True), (81, False)])
def test_metrics_passed_is_true_when_the_score_is_at_or_above_the_threshold(play: Any, gate: int, passed: bool) -> None:
    played = play(ONE_METRIC, {"a": all_scored(4)}, metrics_pass_threshold=gate)

    assert played.results["totals"]["metrics_passed"] is passed
    assert played.code == (0 if passed else 1)


@pytest.mark.parametrize(("gate", "passed"), [(75, True), (76, False)])
def test_cases_passed_is_true_when_the_rate_is_at_or_above_the_threshold(play: Any, gate: int, passed: bool) -> None:
    asked = {"input": "a", "expected_output": "ok", "trials": 4}
    played = play(asked, {"a": ["ok", "ok", "ok", "no"]}, cases_pass_threshold=gate)

    assert played.results["totals"]["cases_passed"] is passed
    assert played.code == (0 if passed else 1)


def test_a_run_can_fail_on_either_dimension_independently(play: Any) -> None:
    """Every outcome is met and the score is low; then the other way round."""
    asked = {**ONE_METRIC, **OUTCOMES}
    for graded, dimensions in (("11", (False, True)), ("10", (True, False))):
        score = 1 if graded == "11" else 5
        played = play(asked, {"a": {"graded": {"tool_routing": score, "outcomes": graded}}})
        assert (played.results["totals"]["metrics_passed"], played.results["totals"]["cases_passed"]) == dimensions
        assert played.code == 1


def test_without_a_cases_pass_threshold_ours_asks_that_every_scenario_passes_by_its_own_threshold(play: Any) -> None:
    asked = {"input": "a", "expected_output": "ok", "trials": 4, "threshold": 0.5}
    played = play(asked, {"a": ["ok", "ok", "ok", "no"]})

    assert played.code == 0
    assert played.results["totals"]["cases_pass_rate_pct"] == 75


def test_changes_to_the_eval_config_after_a_run_starts_do_not_shift_its_pass_criteria(play: Any, folder: Any) -> None:
    play(ONE_METRIC, {"a": all_scored(4)}, pass_threshold=60, metrics_pass_threshold=70)
    suite = json.loads((folder.path / "suite.yaml").read_text())
    suite["suite"]["config"] |= {"pass_threshold": 99, "metrics_pass_threshold": 99, "cases_pass_threshold": 1}
    folder.write("suite.yaml", json.dumps(suite))

    kept = folder.results()

    assert kept["passed"] is True
    assert kept["run"]["config"]["run"]["metrics_pass_threshold"] == 70
    assert kept["scenarios"][0]["gates"]["pass_threshold"] == 60


# Run comparison thresholds


def test_the_defaults_are_0_a_strict_pass_rate_5_points_and_20_percent() -> None:
    limits = RegressionLimits()

    assert (limits.max_pass_rate_drop, limits.max_avg_score_drop, limits.max_latency_increase_pct) == (0.0, 5.0, 20.0)


def regressions(limits: RegressionLimits | None = None, **candidate: float) -> list[str]:
    before = {"pass_rate": 1.0, "avg_score": 90.0, "avg_latency_ms": 1000.0}
    sides = SuiteFigures(**before), SuiteFigures(**{**before, **candidate})
    return [found.reason.value for found in find_regressions(*sides, limits or RegressionLimits())]


@pytest.mark.parametrize(
    ("candidate", "reasons"),
    [
        ({"pass_rate": 0.99}, ["pass_rate"]),
        ({"pass_rate": 1.0}, []),
        ({"avg_score": 85.0}, []),
        ({"avg_score": 84.99}, ["avg_score"]),
        ({"avg_latency_ms": 1200.0}, []),
        ({"avg_latency_ms": 1201.0}, ["avg_latency"]),
    ],
)
def test_any_pass_rate_drop_flags_regression_and_5_points_and_20_percent_are_tolerated(
    candidate: Any, reasons: Any
) -> None:
    assert regressions(**candidate) == reasons


@pytest.mark.parametrize(
    ("limit", "candidate"),
    [
        ({"max_pass_rate_drop": 0.1}, {"pass_rate": 0.9}),
        ({"max_avg_score_drop": 10.0}, {"avg_score": 80.0}),
        ({"max_latency_increase_pct": 50.0}, {"avg_latency_ms": 1500.0}),
    ],
)
def test_these_are_overridable(limit: Any, candidate: Any) -> None:
    assert regressions(**candidate) != []
    assert regressions(RegressionLimits(**limit), **candidate) == []


def test_they_are_query_params_on_the_compare_endpoint(tmp_path: Path) -> None:
    from seatrial.web.access import ServeOptions
    from seatrial.web.app import make_app

    document = make_app(ServeOptions(store=str(tmp_path / "runs.db"), root=tmp_path)).openapi()

    parameters = {one["name"] for one in document["paths"]["/api/runs/compare"]["get"]["parameters"]}
    assert {"max_pass_rate_drop", "max_avg_score_drop", "max_latency_increase_pct"} <= parameters


def compared(play: Any, folder: Any, scenario: Any, base: Any, candidate: Any, *flags: str) -> Any:
    for name, said in (("base", base), ("candidate", candidate)):
        play(scenario, {"a": said}, "--name", name)
    calm = ("--max-latency-increase-pct", "1000000")
    return json.loads(folder.seatrial("compare", "base", "candidate", "--json", *calm, *flags).out)


def test_they_determine_if_regression_detected_is_true_at_the_suite_level(play: Any, folder: Any) -> None:
    asked = {"input": "a", "expected_output": "ok"}

    assert compared(play, folder, asked, "ok", "no")["regression_detected"] is True
    assert compared(play, folder, asked, "ok", "no", "--max-pass-rate-drop", "1")["regression_detected"] is False
    assert compared(play, folder, asked, "ok", "ok")["regression_detected"] is False


def test_our_latency_limit_takes_no_rise_of_less_than_20_ms_for_a_regression() -> None:
    before, after = (SuiteFigures(pass_rate=1.0, avg_score=None, avg_latency_ms=ms) for ms in (10.0, 29.0))

    assert find_regressions(before, after, RegressionLimits()) == ()


# Per-test-case comparison

POINTS = {"input": "a", "metrics": [{"name": "tool_routing", "weight": 19}, {"name": "response_delivery", "weight": 1}]}
"""A point of response_delivery is one point of the overall score."""


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ((5, 5), (5, 0), "unchanged"),
        ((4, 5), (4, 0), "unchanged"),
        ((5, 5), (4, 5), "regression"),
        ((4, 0), (5, 0), "improvement"),
    ],
    ids=["5 points", "5 points again", "more, down", "more, up"],
)
def test_when_pass_fail_did_not_flip_a_score_delta_of_more_than_5_points_classifies_the_case(
    play: Any, folder: Any, before: Any, after: Any, status: str
) -> None:
    said = [all_scored(5, tool_routing=routing, response_delivery=delivery) for routing, delivery in (before, after)]

    [found] = compared(play, folder, POINTS, *said)["scenarios"]

    assert found["change"] == status


@pytest.mark.parametrize(("before", "after", "status"), [("ok", "no", "regression"), ("no", "ok", "improvement")])
def test_a_flip_of_pass_fail_classifies_the_case_first(
    play: Any, folder: Any, before: str, after: str, status: str
) -> None:
    [found] = compared(play, folder, {"input": "a", "expected_output": "ok"}, before, after)["scenarios"]

    assert found["change"] == status

"""From scenarios to the verdict of a run: every scenario, or a share of the cases, metrics and groups."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.conversation import ErrorKind
from seatrial.model.results import ModelUse
from seatrial.model.run import Gates, RunGates, RunOutcome, ScenarioEntry, ScenarioKey, Status, TrialSummary
from seatrial.verdicts.run import decide_run

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "scoring.json").read_text())
AT = datetime(2026, 1, 1, tzinfo=UTC)


def a_trial(name: str, index: int, mark: str, **fields: Any) -> TrialSummary:
    status = {".": Status.PASSED, "F": Status.FAILED, "E": Status.ERRORED}[mark]
    kind = ErrorKind.JUDGE if mark == "E" else None
    return TrialSummary(
        key=ScenarioKey("s", name), index=index, status=status, error_kind=kind, started_at=AT, **fields
    )


def an_entry(name: str, position: int, *, trials: int = 1, **fields: Any) -> ScenarioEntry:
    return ScenarioEntry(key=ScenarioKey("s", name), position=position, fingerprint="f", trials=trials, **fields)


def decide(scenarios: Mapping[str, str], *, entries: Mapping[str, Any] | None = None, **gates: Any) -> RunOutcome:
    """A run of scenarios by name, each with the marks of its trials: passed, Failed, Errored, - not run."""
    made = [
        an_entry(name, position, trials=len(marks), **(entries or {}).get(name, {}))
        for position, (name, marks) in enumerate(scenarios.items())
    ]
    trials = [
        a_trial(name, index, mark)
        for name, marks in scenarios.items()
        for index, mark in enumerate(marks)
        if mark != "-"
    ]
    return decide_run(made, trials, RunGates(**gates))


def status_of(outcome: RunOutcome) -> tuple[Status, tuple[str, ...]]:
    return outcome.verdict.status, outcome.verdict.failure_reasons


# Every scenario.


def test_a_run_passes_when_every_scenario_passed() -> None:
    assert status_of(decide({"a": "..", "b": "."})) == (Status.PASSED, ())


def test_a_run_fails_with_the_number_of_scenarios_that_did() -> None:
    assert status_of(decide({"a": ".", "b": "F", "c": "F"})) == (Status.FAILED, ("2 scenarios failed",))


def test_errored_scenarios_make_a_run_errored_and_not_failed() -> None:
    assert status_of(decide({"a": ".", "b": "E"})) == (Status.ERRORED, ("1 scenario errored",))


def test_failed_comes_before_errored() -> None:
    assert status_of(decide({"a": "F", "b": "E", "c": "-"})) == (
        Status.FAILED,
        ("1 scenario failed", "1 scenario errored", "1 scenario not run"),
    )


def test_an_inconclusive_scenario_makes_the_run_inconclusive() -> None:
    gates = {"a": {"gates": Gates(pass_rate=0.9, confidence=0.95)}}
    assert status_of(decide({"a": "..."}, entries=gates)) == (Status.INCONCLUSIVE, ("1 scenario inconclusive",))


@pytest.mark.parametrize("scenarios", [{}, {"a": "-"}, {"a": "---", "b": "-"}])
def test_a_run_without_a_trial_was_not_run(scenarios: dict[str, str]) -> None:
    assert status_of(decide(scenarios)) == (Status.NOT_RUN, ("nothing was run",))


def test_a_run_whose_scenarios_are_all_skipped_was_not_run() -> None:
    assert status_of(decide({"a": "-"}, entries={"a": {"skip": "later"}})) == (Status.NOT_RUN, ("nothing was run",))


def test_nothing_run_does_not_pass_with_a_cases_threshold_of_zero_either() -> None:
    assert decide({"a": "-"}, cases_pass_threshold=0.0).verdict.status is Status.NOT_RUN


def test_skipped_scenarios_do_not_count() -> None:
    outcome = decide({"a": ".", "b": "-"}, entries={"b": {"skip": "later"}})
    assert outcome.verdict.passed
    assert outcome.totals.total_executions == 1


def test_a_failure_that_was_foretold_does_not_fail_the_run() -> None:
    assert decide({"a": ".", "b": "F"}, entries={"b": {"xfail": "bug"}}).verdict.passed


def test_a_pass_that_was_not_foretold_fails_the_run() -> None:
    assert status_of(decide({"a": "."}, entries={"a": {"xfail": "bug"}})) == (Status.FAILED, ("1 scenario failed",))


def test_scenarios_are_told_in_the_order_of_the_selection() -> None:
    entries = [an_entry("b", 1), an_entry("a", 0)]
    outcome = decide_run(entries, [a_trial("b", 0, "."), a_trial("a", 0, ".")])
    assert [each.entry.key.name for each in outcome.scenarios] == ["a", "b"]


# A share of the cases.


def test_with_a_cases_threshold_a_share_of_all_trials_suffices() -> None:
    assert decide({"a": "....F"}, cases_pass_threshold=80.0).verdict.passed


def test_a_missed_cases_threshold_fails_with_the_rate() -> None:
    outcome = decide({"a": "..F"}, cases_pass_threshold=80.0)
    assert status_of(outcome) == (Status.FAILED, ("cases pass rate 66.67 %: 2/3 trials passed (threshold: 80)",))


def test_the_cases_rate_is_compared_exactly() -> None:
    assert decide({"a": "..F"}, cases_pass_threshold=66.67).totals.cases_passed is False
    assert decide({"a": "..F"}, cases_pass_threshold=66.66).totals.cases_passed is True


def test_a_rate_that_rounds_to_its_threshold_shows_the_digits_that_tell_them_apart() -> None:
    outcome = decide({"a": "..F"}, cases_pass_threshold=66.67)
    assert status_of(outcome)[1] == ("cases pass rate 66.667 %: 2/3 trials passed (threshold: 66.67)",)


def test_errored_and_missing_trials_are_in_the_denominator_of_the_cases() -> None:
    outcome = decide({"a": "..E-"}, cases_pass_threshold=75.0)
    assert outcome.totals.cases_pass_rate_pct == 50.0
    assert outcome.verdict.status is Status.ERRORED


def test_a_scenario_that_must_pass_fails_the_run_in_spite_of_the_share() -> None:
    entries = {"b": {"gates": Gates(must_pass=True)}}
    outcome = decide({"a": "........", "b": "F"}, entries=entries, cases_pass_threshold=50.0)
    assert status_of(outcome) == (Status.FAILED, ("must pass, did not: b",))


def test_a_scenario_that_must_pass_cannot_be_skipped_or_excused() -> None:
    for fields, marks in (({"skip": "later"}, "-"), ({"xfail": "bug"}, "F")):
        entries = {"b": {"gates": Gates(must_pass=True), **fields}}
        for threshold in (50.0, None):
            outcome = decide({"a": "........", "b": marks}, entries=entries, cases_pass_threshold=threshold)
            assert status_of(outcome)[1] == ("must pass, did not: b",)


def test_a_scenario_that_must_pass_is_told_once_where_all_must() -> None:
    outcome = decide({"a": ".", "b": "F"}, entries={"b": {"gates": Gates(must_pass=True)}})
    assert status_of(outcome) == (Status.FAILED, ("1 scenario failed",))


# Metrics.


def with_scores(*scores: float | None, **gates: Any) -> RunOutcome:
    entries = [an_entry("a", 0, trials=len(scores))]
    return decide_run(
        entries, [a_trial("a", i, ".", overall_score=score) for i, score in enumerate(scores)], RunGates(**gates)
    )


def test_scores_below_the_metrics_threshold_fail_a_run_whose_scenarios_all_passed() -> None:
    outcome = with_scores(70.0, 80.0)
    assert status_of(outcome) == (Status.FAILED, ("weighted metrics score 75 % (threshold: 80)",))
    assert (outcome.totals.metrics_passed, outcome.totals.cases_passed) == (False, True)


def test_a_mean_score_just_below_its_threshold_fails() -> None:
    outcome = with_scores(79.99, 80.0)
    assert status_of(outcome) == (Status.FAILED, ("weighted metrics score 79.995 % (threshold: 80)",))
    assert with_scores(80.1, 79.9).totals.metrics_passed is True


def test_without_a_score_the_metrics_threshold_has_nothing_to_say() -> None:
    outcome = with_scores(None, None)
    assert outcome.verdict.passed
    assert outcome.totals.metrics_passed is None


def test_the_metrics_score_is_the_mean_over_trials_that_have_one() -> None:
    assert with_scores(90.0, None, 80.0).totals.weighted_metrics_score_pct == 85.0


@pytest.mark.parametrize(("score", "passed"), [(80.0, True), (79.996, False), (79.99, False), (float("nan"), False)])
def test_the_metrics_score_is_compared_exactly(score: float, passed: bool) -> None:
    assert with_scores(score).verdict.passed is passed


# Groups.


def in_groups(scenarios: dict[str, str], *groups: dict[str, Any], **fields: Any) -> RunOutcome:
    """Scenarios whose tag is the first letter of their name."""
    entries = {name: {"tags": (name[0],), **fields.get(name, {})} for name in scenarios}
    return decide(scenarios, entries=entries, groups=groups, cases_pass_threshold=0.0)


def test_a_group_can_fail_a_run() -> None:
    outcome = in_groups({"x1": ".", "x2": "F", "y": "F"}, {"name": "safety", "tags": ["x"], "threshold": 1.0})
    assert status_of(outcome) == (
        Status.FAILED,
        ("group safety: 1 of 2 scenarios passed (threshold: 1.0)",),
    )


def test_a_group_never_saves_a_run() -> None:
    outcome = decide(
        {"a": "F"}, entries={"a": {"tags": ("x",)}}, groups=({"name": "g", "tags": ["x"], "threshold": 0.0},)
    )
    assert outcome.verdict.status is Status.FAILED


def test_a_group_passes_when_its_share_is_reached() -> None:
    assert in_groups({"x1": ".", "x2": "F"}, {"name": "g", "tags": ["x"], "threshold": 0.5}).verdict.passed


def test_a_group_is_errored_where_errors_alone_could_change_it() -> None:
    outcome = in_groups({"x1": ".", "x2": "E"}, {"name": "g", "tags": ["x"], "threshold": 1.0})
    assert outcome.verdict.status is Status.ERRORED


def test_a_scenario_that_must_pass_in_a_group_is_named() -> None:
    group = {"name": "g", "tags": ["x"], "threshold": 0.5, "must_pass": ["x2"]}
    assert in_groups({"x1": ".", "x2": "F"}, group).verdict.failure_reasons == ("group g: must pass, did not: x2",)


def test_a_group_may_consist_of_what_must_pass_alone() -> None:
    group = {"name": "g", "must_pass": ["x1"]}
    assert in_groups({"x1": "."}, group).verdict.passed
    assert not in_groups({"x1": "F"}, group).verdict.passed


def test_a_group_of_which_nothing_was_selected_says_nothing_for_or_against() -> None:
    outcome = in_groups({"x1": "."}, {"name": "g", "tags": ["other"], "must_pass": ["elsewhere"]})
    assert outcome.verdict.passed
    assert [(name, verdict.status) for name, verdict in outcome.groups] == [("g", Status.NOT_RUN)]


def test_a_group_whose_scenarios_are_all_skipped_keeps_the_run_from_passing() -> None:
    outcome = in_groups({"x1": "-", "y": "."}, {"name": "g", "tags": ["x"]}, x1={"skip": "later"})
    assert outcome.verdict.failure_reasons == ("group g: no scenario of the group ran",)
    assert not outcome.verdict.passed


# Totals.


def vectors(kind: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in VECTORS if case["kind"] == kind]


NAMES = {"total_estimated_cost_usd": "cost_usd"}
"""Their name -> ours."""


@pytest.mark.parametrize("case", vectors("run_gate"))
def test_the_gates_and_totals_of_a_run_follow_the_vectors(case: dict[str, Any]) -> None:
    given = case["input"]
    names = list(dict.fromkeys(result["test_case"] for result in given["results"]))
    trials = [
        a_trial(
            result["test_case"],
            result["rep"],
            "E" if result["error"] else "." if result["passed"] else "F",
            overall_score=result["overall_score"],
            median_latency_ms=result["agent_latency_p50_ms"],
            latency_ms=result["agent_latency_p50_ms"],
            cost_usd=result["estimated_cost_usd"],
        )
        for result in given["results"]
    ]
    entries = [
        an_entry(name, position, trials=sum(trial.key.name == name for trial in trials))
        for position, name in enumerate(names)
    ]
    gates = RunGates(
        cases_pass_threshold=given["cases_pass_threshold"], metrics_pass_threshold=given["metrics_pass_threshold"]
    )
    outcome = decide_run(entries, trials, gates)
    found = {
        "unique_test_case_count": len(outcome.scenarios),
        "pass_rate": (outcome.totals.cases_pass_rate_pct or 0.0) / 100,
    }
    for name, expected in case["expect"].items():
        actual = found[name] if name in found else getattr(outcome.totals, NAMES.get(name, name))
        assert actual == (pytest.approx(expected) if isinstance(expected, float) else expected), name
    passed = outcome.totals.cases_passed is True and outcome.totals.metrics_passed is not False
    assert outcome.verdict.passed is passed


def many(latencies: Sequence[float | None]) -> RunOutcome:
    trials = [a_trial("a", i, ".", latency_ms=ms, median_latency_ms=ms) for i, ms in enumerate(latencies)]
    return decide_run([an_entry("a", 0, trials=len(trials))], trials)


def test_the_ninety_fifth_percentile_needs_twenty_turns() -> None:
    assert many([float(n) for n in range(19)]).totals.latency_p95_ms is None
    assert many([float(n) for n in range(20)]).totals.latency_p95_ms == pytest.approx(18.65)


def test_the_ninety_fifth_percentile_is_that_of_all_turns_not_of_each_trials_median_turn() -> None:
    turns = (10.0, 10.0, 10.0, 500.0)
    slow = [
        a_trial("a", i, ".", turns=4, latency_ms=500.0, median_latency_ms=10.0, turn_latencies_ms=turns)
        for i in range(5)
    ]
    totals = decide_run([an_entry("a", 0, trials=5)], slow).totals
    assert (totals.latency_p50_ms, totals.latency_p95_ms) == (10.0, 500.0)


def test_without_the_latencies_of_all_turns_there_is_no_ninety_fifth_percentile() -> None:
    older = [a_trial("a", i, ".", turns=4, latency_ms=500.0, median_latency_ms=10.0) for i in range(30)]
    assert decide_run([an_entry("a", 0, trials=30)], older).totals.latency_p95_ms is None


def test_latencies_of_nothing_are_none() -> None:
    totals = many([None]).totals
    assert (totals.latency_avg_ms, totals.latency_p50_ms, totals.latency_max_ms) == (None, None, None)


def test_tokens_cost_and_model_calls_are_added_up() -> None:
    trials = [
        a_trial("a", 0, ".", tokens=5, cost_usd=0.5, instruments=ModelUse(calls=2, cached=1)),
        a_trial("a", 1, ".", tokens=None, cost_usd=0.25, instruments=None),
    ]
    totals = decide_run([an_entry("a", 0, trials=2)], trials).totals
    assert (totals.tokens, totals.cost_usd, totals.model_calls, totals.cache_hits) == (5, 0.75, 2, 1)


@given(st.dictionaries(st.sampled_from("abcd"), st.text(".FE-", min_size=1, max_size=4), min_size=1))
def test_a_run_passes_only_when_every_trial_did(scenarios: dict[str, str]) -> None:
    outcome = decide(scenarios)
    marks = "".join(scenarios.values())
    assert outcome.verdict.passed is (set(marks) == {"."})
    assert outcome.verdict.passed is not bool(outcome.verdict.failure_reasons)
    totals = outcome.totals
    assert totals.passed_count + totals.failed_count + totals.error_count + totals.not_run_count == len(marks)

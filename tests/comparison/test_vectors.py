"""The scoring vectors that concern comparisons."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from seatrial.comparison.aggregates import RunSide, classify, find_regressions
from seatrial.comparison.compare import compare_runs
from seatrial.errors import UsageError
from seatrial.model.comparison import ChangeKind, RegressionLimits, ScenarioFigures, SuiteFigures
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, TrialSummary
from seatrial.verdicts.run import decide_run

_FILE = Path(__file__).parents[1] / "vectors" / "scoring.json"
VECTORS = json.loads(_FILE.read_text("utf-8"))
NOW = datetime(2025, 5, 1, tzinfo=UTC)


def _of_kind(kind: str, part: str | None = None) -> list[Any]:
    found = [one for one in VECTORS if one["kind"] == kind and (part is None or part in one["input"]["baseline"])]
    assert found
    return [pytest.param(one, id=one["id"]) for one in found]


@pytest.mark.parametrize("vector", _of_kind("case_compare"))
def test_a_scenario_changes_as_the_vector_says(vector):
    sides = [
        ScenarioFigures(
            status=Status.PASSED if side["passed"] else Status.FAILED,
            passed=int(side["passed"]),
            failed=int(not side["passed"]),
            errored=0,
            answered=1,
            avg_score=side["overall_score"],
        )
        for side in (vector["input"]["baseline"], vector["input"]["candidate"])
    ]
    assert classify(*sides).value == vector["expect"]["status"]


@pytest.mark.parametrize("vector", _of_kind("compare", "aggregate"))
def test_figures_of_a_suite_regress_as_the_vector_says(vector):
    sides = [_figures(vector["input"][side]["aggregate"]) for side in ("baseline", "candidate")]
    limits = RegressionLimits(**(vector["input"]["thresholds"] or {}))
    expect = vector["expect"]
    if expect.get("config_error"):
        with pytest.raises(UsageError, match="is not 0 or more"):
            find_regressions(*sides, limits)
        return
    found = find_regressions(*sides, limits)
    assert bool(found) is expect["regression_detected"]
    if "reasons" in expect:
        assert [one.reason.value for one in found] == expect["reasons"]
    base, candidate = sides
    if "pass_rate_delta" in expect:
        assert candidate.pass_rate - base.pass_rate == pytest.approx(expect["pass_rate_delta"])
    if "avg_score_delta" in expect:
        assert candidate.avg_score - base.avg_score == pytest.approx(expect["avg_score_delta"])
    if "latency_avg_delta_ms" in expect:
        assert candidate.avg_latency_ms - base.avg_latency_ms == pytest.approx(expect["latency_avg_delta_ms"])


def _figures(aggregate: dict[str, Any]) -> SuiteFigures:
    return SuiteFigures(
        pass_rate=aggregate["pass_rate"],
        avg_score=aggregate["avg_overall_score"],
        avg_latency_ms=aggregate["latency_avg_ms"],
    )


@pytest.mark.parametrize("vector", _of_kind("compare", "results"))
def test_two_runs_compare_as_the_vector_says(vector):
    sides = [_side(name, vector["input"][name]["results"]) for name in ("baseline", "candidate")]
    expect = vector["expect"]
    if expect.get("config_error"):
        with pytest.raises(UsageError, match="has no results"):
            compare_runs(*sides)
        return
    comparison = compare_runs(*sides)
    assert comparison.regression_detected is expect["regression_detected"]
    if "reasons" in expect:
        assert [one.reason.value for one in comparison.regressions] == expect["reasons"]
    if "counts" in expect:
        assert {name: comparison.count(ChangeKind(name)) for name in expect["counts"]} == expect["counts"]
    for name, change in (("baseline_only", ChangeKind.MISSING), ("candidate_only", ChangeKind.NEW)):
        if name in expect:
            assert [key.name for key in comparison.keys(change)] == expect[name]


def _side(name: str, results: list[dict[str, Any]]) -> RunSide:
    entries = [
        ScenarioEntry(key=ScenarioKey("s", case), position=place, fingerprint="f", trials=1)
        for place, case in enumerate(dict.fromkeys(result["test_case"] for result in results))
    ]
    summaries = [_summary(result) for result in results]
    run = Run(id=name, name=name, state=RunState.FINISHED, started_at=NOW)
    return RunSide(run=run, outcome=decide_run(entries, summaries), summaries=summaries)


def _summary(result: dict[str, Any]) -> TrialSummary:
    status = Status.ERRORED if result["error"] else Status.PASSED if result["passed"] else Status.FAILED
    return TrialSummary(
        key=ScenarioKey("s", result["test_case"]),
        index=result["rep"],
        status=status,
        error_kind=ErrorKind.AGENT if result["error"] else None,
        overall_score=result["overall_score"],
        median_latency_ms=result["agent_latency_p50_ms"],
        cost_usd=result["estimated_cost_usd"],
        started_at=NOW,
    )

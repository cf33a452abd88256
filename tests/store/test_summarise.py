from datetime import UTC, datetime
from typing import Any

import pytest

from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, Transcript, Usage
from seatrial.model.results import BehaviourFailure, EvalResult, Judgement, MetricScore, Severity, TrajectoryMatch
from seatrial.model.run import ScenarioKey, Status, Trial, summarise


def a_turn(latency_ms: float = 1.0, **fields: Any) -> PlayedTurn:
    return PlayedTurn(index=0, user="u", reply="r", tool_calls=(), latency_ms=latency_ms, **fields)


def a_trial(*turns: PlayedTurn, **fields: Any) -> Trial:
    return Trial(
        key=ScenarioKey("s", "n"),
        index=0,
        status=Status.PASSED,
        transcript=Transcript(turns=turns, stop_reason=StopReason.GOAL_MET),
        started_at=datetime(2025, 5, 1, tzinfo=UTC),
        **fields,
    )


def a_match(matched: bool) -> EvalResult:
    return EvalResult(passed=matched, trajectory=TrajectoryMatch(mode="strict", matched=matched))


@pytest.mark.parametrize(
    ("results", "matched"),
    [((), None), ((a_match(True),), True), ((a_match(True), EvalResult(passed=False), a_match(False)), False)],
)
def test_trajectories_match_when_each_one_does(results: tuple[EvalResult, ...], matched: bool | None) -> None:
    assert summarise(a_trial(a_turn(), results=results)).trajectory_matched is matched


@pytest.mark.parametrize(
    ("latencies", "slowest", "median"),
    [((), None, None), ((5.0,), 5.0, 5.0), ((9.0, 1.0, 2.0), 9.0, 2.0), ((4.0, 1.0, 9.0, 2.0), 9.0, 3.0)],
)
def test_latencies_are_the_slowest_and_the_median_turn(
    latencies: tuple[float, ...], slowest: float | None, median: float | None
) -> None:
    summary = summarise(a_trial(*map(a_turn, latencies)))
    assert (summary.latency_ms, summary.median_latency_ms) == (slowest, median)


def test_a_summary_keeps_the_latency_of_every_turn() -> None:
    assert summarise(a_trial(*map(a_turn, (9.0, 1.0, 2.0)))).latencies_ms == (9.0, 1.0, 2.0)
    assert summarise(a_trial(a_turn(5.0))).latencies_ms == (5.0,)
    assert summarise(a_trial()).latencies_ms == ()


def test_an_unknown_cost_or_usage_is_none_not_nothing() -> None:
    known = a_turn(usage=Usage(input_tokens=2, output_tokens=3), cost_usd=0.5)
    assert (summarise(a_trial(known)).tokens, summarise(a_trial(known)).cost_usd) == (5, 0.5)
    assert summarise(a_trial(known, a_turn())).cost_usd is None
    assert summarise(a_trial(a_turn())).tokens is None


def test_an_error_keeps_its_kind_and_words() -> None:
    summary = summarise(a_trial(error=ErrorInfo(kind=ErrorKind.TOOL, message="no mock")))
    assert (summary.error_kind, summary.error_message) == (ErrorKind.TOOL, "no mock")


def test_a_judgement_keeps_its_scores_without_reasons_and_its_failures() -> None:
    judgement = Judgement(
        scores=(MetricScore(metric="m", value=3.0, reason="long", turn=1, weight=0.5),),
        failures=(BehaviourFailure(category="c", severity=Severity.LOW, label="l", explanation="e", turn=2),),
        overall_score=70.0,
    )
    summary = summarise(a_trial(judgement=judgement))
    assert summary.scores == (MetricScore(metric="m", value=3.0, turn=1, weight=0.5),)
    assert (summary.failures, summary.overall_score) == ((("low", "l", "e", 2),), 70.0)

"""When a trial passes, and that nothing else can make it pass."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, Transcript
from seatrial.model.results import BehaviourFailure, EvalResult, Judgement, MetricScore, OutcomeResult, Severity
from seatrial.model.run import Status, Verdict
from seatrial.verdicts.trial import decide_trial, find_error

NAN = float("nan")


def an_error(kind: ErrorKind = ErrorKind.AGENT) -> ErrorInfo:
    return ErrorInfo(kind=kind, message="boom")


def a_transcript(*, turns: int = 1, error: ErrorInfo | None = None) -> Transcript:
    played = tuple(PlayedTurn(index=i, user="hi", reply="hello", tool_calls=None) for i in range(turns))
    return Transcript(turns=played, stop_reason=StopReason.SCRIPT_ENDED, error=error)


def a_result(passed: bool = True, **fields: Any) -> EvalResult:
    return EvalResult(passed=passed, reasoning="because", evaluator="contains", **fields)


def outcomes(*passed: bool) -> tuple[OutcomeResult, ...]:
    return tuple(
        OutcomeResult(id=str(i), statement=f"statement {i}", passed=p, justification="so") for i, p in enumerate(passed)
    )


def decided(*results: EvalResult, judgement: Judgement | None = None, **fields: Any) -> Verdict:
    return decide_trial(a_transcript(), results, judgement, **fields)


def test_a_trial_passes_when_every_result_passed() -> None:
    assert decided(a_result(), a_result()) == Verdict(status=Status.PASSED)


def test_one_failed_result_fails_the_trial_and_all_are_named() -> None:
    verdict = decided(a_result(), a_result(False), a_result(False, turn=1))
    assert verdict == Verdict(status=Status.FAILED, failure_reasons=("contains: because", "turn 2: contains: because"))


def test_an_error_in_the_conversation_makes_it_errored_whatever_the_results_say() -> None:
    verdict = decide_trial(a_transcript(error=an_error()), [a_result(False), a_result()])
    assert verdict == Verdict(status=Status.ERRORED, failure_reasons=("agent: boom",))


def test_an_evaluator_without_an_answer_makes_it_errored_although_another_failed() -> None:
    verdict = decided(a_result(False), a_result(False, error=an_error(ErrorKind.EVALUATOR)))
    assert verdict == Verdict(status=Status.ERRORED, failure_reasons=("evaluator: boom",))


def test_a_judge_without_an_answer_makes_it_errored() -> None:
    verdict = decided(a_result(), judgement=Judgement(error=an_error(ErrorKind.JUDGE), outcomes=outcomes(True)))
    assert verdict.status is Status.ERRORED


@pytest.mark.parametrize("judgement", [None, Judgement()])
def test_nothing_checked_is_errored(judgement: Judgement | None) -> None:
    assert decided(judgement=judgement) == Verdict(
        status=Status.ERRORED, failure_reasons=("config: nothing was checked; add an expectation",)
    )


def test_nothing_played_is_errored_although_every_result_passed() -> None:
    assert decide_trial(a_transcript(turns=0), [a_result()]).status is Status.ERRORED


def test_all_outcomes_must_be_true() -> None:
    assert decided(judgement=Judgement(outcomes=outcomes(True, True))).passed
    verdict = decided(judgement=Judgement(outcomes=outcomes(True, False)))
    assert verdict == Verdict(status=Status.FAILED, failure_reasons=("Outcome not met: statement 1 (so)",))


def test_with_outcomes_the_score_does_not_matter() -> None:
    assert decided(judgement=Judgement(outcomes=outcomes(True), overall_score=10.0)).passed
    assert not decided(judgement=Judgement(outcomes=outcomes(False), overall_score=99.0)).passed


@pytest.mark.parametrize(
    ("score", "passed"), [(75.0, True), (74.99, False), (74.996, False), (100.0, True), (NAN, False)]
)
def test_without_outcomes_the_score_must_reach_the_threshold_exactly(score: float, passed: bool) -> None:
    assert decided(judgement=Judgement(overall_score=score)).passed is passed


def test_a_score_below_the_threshold_is_told() -> None:
    verdict = decided(judgement=Judgement(overall_score=61.25), pass_threshold=80)
    assert verdict.failure_reasons == ("overall score 61.25 (threshold: 80)",)


def test_a_good_judgement_does_not_save_a_failed_result() -> None:
    assert not decided(a_result(False), judgement=Judgement(outcomes=outcomes(True), overall_score=100.0)).passed


def test_unavailable_outcomes_leave_the_decision_to_the_score() -> None:
    assert decided(judgement=Judgement(outcomes_unavailable=True, overall_score=80.0)).passed
    assert decided(a_result(), judgement=Judgement(outcomes_unavailable=True)).status is Status.ERRORED


def test_turn_metrics_alone_are_a_check_that_the_scenario_decides_on() -> None:
    assert decided(judgement=Judgement(scores=(MetricScore(metric="helpfulness", value=2.0, turn=0),))).passed


# Whatever is put together.

errors = st.one_of(st.none(), st.sampled_from(ErrorKind).map(an_error))
results = st.lists(
    st.tuples(st.booleans(), errors).map(lambda pair: a_result(pair[0] and pair[1] is None, error=pair[1])), max_size=4
)
judgements = st.one_of(
    st.none(),
    st.builds(
        Judgement,
        outcomes=st.lists(st.booleans(), max_size=3).map(lambda passed: outcomes(*passed)),
        overall_score=st.one_of(st.none(), st.floats(0, 100), st.just(NAN)),
        outcomes_unavailable=st.booleans(),
        failures=st.sampled_from([(), (BehaviourFailure(category="c", severity=Severity.LOW, label="l"),)]),
        error=errors,
    ),
)


@given(error=errors, turns=st.integers(0, 2), results=results, judgement=judgements, threshold=st.floats(0, 100))
def test_no_combination_passes_when_anything_errored_failed_or_nothing_was_checked(
    error: ErrorInfo | None, turns: int, results: list[EvalResult], judgement: Judgement | None, threshold: float
) -> None:
    transcript = a_transcript(turns=turns, error=error)
    verdict = decide_trial(transcript, results, judgement, pass_threshold=threshold)
    errored = [error, *(result.error for result in results), judgement and judgement.error]
    assert (find_error(transcript, results, judgement) is None) is (verdict.status is not Status.ERRORED)
    assert verdict.passed is not bool(verdict.failure_reasons)
    if any(errored) or turns == 0 or (not results and judgement is None):
        assert verdict.status is Status.ERRORED
    if verdict.passed:
        assert all(result.passed for result in results)
        assert judgement is None or all(outcome.passed for outcome in judgement.outcomes)
        assert results or judgement


def test_an_overall_score_is_compared_before_it_is_rounded() -> None:
    scores = (
        MetricScore(metric="a", value=3.7498, weight=0.5),
        MetricScore(metric="b", value=3.7499, weight=0.5),
    )
    verdict = decided(judgement=Judgement(scores=scores, overall_score=75.0), pass_threshold=75.0)
    assert verdict == Verdict(status=Status.FAILED, failure_reasons=("overall score 74.997 (threshold: 75)",))


def test_an_overall_score_without_weighted_scores_is_taken_as_it_is() -> None:
    assert decided(judgement=Judgement(overall_score=75.0), pass_threshold=75.0).passed
    assert not decided(judgement=Judgement(overall_score=74.996), pass_threshold=75.0).passed


# Trials that were repeated after an error of the agent.


def test_a_trial_that_was_repeated_after_an_error_of_the_agent_fails_although_it_passed_then() -> None:
    transcript = replace(a_transcript(), earlier=(an_error(),))
    verdict = decide_trial(transcript, [a_result()])
    assert verdict == Verdict(status=Status.FAILED, failure_reasons=("errored before it was repeated: agent: boom",))


@pytest.mark.parametrize("kind", [ErrorKind.JUDGE, ErrorKind.INFRA, ErrorKind.EVALUATOR])
def test_an_instrument_that_breaks_in_the_second_try_does_not_hide_the_agents_error(kind: ErrorKind) -> None:
    transcript = replace(a_transcript(error=ErrorInfo(kind=kind, message="down")), earlier=(an_error(),))
    assert find_error(transcript, [], None) == an_error()
    assert decide_trial(transcript, []).status is Status.ERRORED


def test_an_agent_that_errors_again_shows_its_last_error() -> None:
    again = ErrorInfo(kind=ErrorKind.LIMIT, message="too slow")
    transcript = replace(a_transcript(error=again), earlier=(an_error(),))
    assert find_error(transcript, [], None) == again

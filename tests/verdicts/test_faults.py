"""What an agent did when a tool failed, from the rows of a trial."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.faults import FaultFinding
from seatrial.model.results import EvalResult
from seatrial.model.run import ScenarioEntry, ScenarioKey, Status, Trial, Variant, summarise
from seatrial.verdicts.faults import FaultDecision, classify, decide_variant
from seatrial.verdicts.run import decide_run
from seatrial.verdicts.trial import count_earlier, decide_again

SETTINGS: dict[str, Any] = {"tool": "book", "fault": "timeout", "checks_effects": True, "checks_words": True}
FAILED_CALL = ToolCall("book", {}, None, "timeout", altered="timeout")
KEY = ScenarioKey("suite", "books / book=timeout")


def a_trial(*calls: ToolCall, passed: bool = True, turns: int = 1, **fields: Any) -> Trial:
    """A trial whose last turn has these calls."""
    played = [PlayedTurn(index=index, user="hi", reply="hello", tool_calls=()) for index in range(turns)]
    played[-1] = replace(played[-1], tool_calls=calls)
    return Trial(
        key=KEY,
        index=0,
        status=Status.PASSED if passed else Status.FAILED,
        transcript=Transcript(turns=tuple(played), stop_reason=StopReason.SCRIPT_ENDED),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        **fields,
    )


def a_result(evaluator: str, passed: bool, **fields: Any) -> EvalResult:
    return EvalResult(passed=passed, reasoning="because", evaluator=evaluator, **fields)


def found(trial: Trial, **settings: Any) -> str:
    return classify(trial, {**SETTINGS, **settings}).result


def an_error(kind: ErrorKind) -> ErrorInfo:
    return ErrorInfo(kind=kind, message="boom")


@pytest.mark.parametrize(
    ("kind", "result"),
    [(kind, "crashed" if kind in (ErrorKind.AGENT, ErrorKind.LIMIT) else "errored") for kind in ErrorKind],
)
def test_only_errors_of_the_agent_are_crashes(kind: ErrorKind, result: str) -> None:
    trial = replace(a_trial(FAILED_CALL), status=Status.ERRORED, error=an_error(kind))
    assert found(trial) == result


def test_a_call_that_no_mock_answers_is_the_agents_own_mistake() -> None:
    error = ErrorInfo(kind=ErrorKind.TOOL, message="no mock", counts_as_failed=True)
    assert found(replace(a_trial(FAILED_CALL), status=Status.ERRORED, error=error)) == "crashed"


@pytest.mark.parametrize("calls", [(), (ToolCall("search", {}, 1, altered="timeout"),), (ToolCall("book", {}, 1),)])
def test_without_the_fault_the_tool_is_not_reached(calls: tuple[ToolCall, ...]) -> None:
    assert found(a_trial(*calls)) == "not reached"


def test_words_show_a_recovery_only_with_an_answer_after_the_fault() -> None:
    before, after = ToolCall("book", {}, 1), ToolCall("book", {}, {"id": 1})
    refused = ToolCall("book", {}, None, "no such table")
    assert found(a_trial(FAILED_CALL, after), checks_effects=False) == "recovered"
    assert found(a_trial(before, FAILED_CALL), checks_effects=False) == "unclear"
    assert found(a_trial(FAILED_CALL, refused), checks_effects=False) == "unclear"
    assert found(a_trial(FAILED_CALL), checks_effects=True) == "recovered"


def test_words_of_turns_before_the_fault_are_no_claim() -> None:
    results = (a_result("contains", True, turn=0), a_result("end_state", False))
    assert found(a_trial(FAILED_CALL, passed=False, turns=2, results=results)) == "unclear"
    results = (a_result("contains", True, turn=1), a_result("end_state", False))
    assert found(a_trial(FAILED_CALL, passed=False, turns=2, results=results)) == "claimed success"


@pytest.mark.parametrize("effect", ["end_state", "trajectory", "tool_calls", "tool_calls_args", "invariant"])
def test_wrong_effects_and_right_words_are_a_false_claim(effect: str) -> None:
    results = (a_result("contains", True), a_result(effect, False))
    assert found(a_trial(FAILED_CALL, passed=False, results=results)) == "claimed success"


@pytest.mark.parametrize(
    "results",
    [
        (a_result("contains", False), a_result("end_state", False)),
        (a_result("contains", True), a_result("said", False), a_result("end_state", False)),
        (a_result("contains", True), a_result("limits", False)),
        (a_result("end_state", False),),
        (a_result("reply", True), a_result("end_state", False)),
        (a_result("judge", True), a_result("end_state", False)),
    ],
)
def test_a_claim_is_not_guessed(results: tuple[EvalResult, ...]) -> None:
    assert found(a_trial(FAILED_CALL, passed=False, results=results)) == "unclear"


def test_that_words_are_absent_is_no_claim() -> None:
    results = (a_result("contains", True), a_result("end_state", False))
    assert found(a_trial(FAILED_CALL, passed=False, results=results), checks_words=False) == "unclear"


def test_the_user_was_told_only_if_all_of_on_failure_holds() -> None:
    yes, no = a_result("contains", True), a_result("judge", False)
    broken = a_result("judge", False, error=an_error(ErrorKind.JUDGE))
    for on_failure, result in (
        ((yes,), "told the user"),
        ((yes, no), "unclear"),
        ((yes, broken), "errored"),
        ((), "unclear"),
    ):
        assert found(a_trial(FAILED_CALL, passed=False, on_failure=on_failure)) == result


def test_a_trial_that_errored_before_it_was_repeated_stays_a_crash() -> None:
    trial = a_trial(FAILED_CALL, fault=FaultFinding(result="recovered"), results=(a_result("contains", True),))
    repeated = count_earlier(trial, (an_error(ErrorKind.AGENT),))
    assert repeated.fault is not None
    assert repeated.fault.result == "crashed"


def test_an_edited_file_is_classified_again() -> None:
    results = (a_result("contains", True), a_result("end_state", False))
    edited = a_trial(FAILED_CALL, results=results, fault=FaultFinding(result="recovered"))
    variant = Variant(kind="fault", scenario="books", settings=SETTINGS)
    again = decide_again(edited, pass_threshold=75.0, variant=variant)
    assert again.status is Status.FAILED
    assert again.fault is not None
    assert again.fault.result == "claimed success"


def an_entry(trials: int = 1) -> ScenarioEntry:
    variant = Variant(kind="fault", scenario="books", settings=SETTINGS)
    return ScenarioEntry(key=KEY, position=0, fingerprint="f", trials=trials, variant=variant)


@pytest.mark.parametrize(
    ("results", "status"),
    [
        (["recovered", "told the user"], Status.PASSED),
        (["recovered", "not reached"], Status.PASSED),
        (["recovered", "claimed success"], Status.FAILED),
        (["recovered", "unclear"], Status.FAILED),
        (["recovered", "crashed"], Status.FAILED),
        (["recovered", "errored"], Status.ERRORED),
        (["errored", "crashed"], Status.FAILED),
        (["recovered"], Status.NOT_RUN),
        (["not reached", "not reached"], Status.INCONCLUSIVE),
        ([], Status.NOT_RUN),
    ],
)
def test_a_sweep_passes_only_if_nothing_bad_happened_and_something_was_shown(
    results: list[Any], status: Status
) -> None:
    trials = [
        replace(summarise(a_trial(FAILED_CALL)), index=index, fault=FaultFinding(result=result))
        for index, result in enumerate(results)
    ]
    outcome = decide_run([an_entry(trials=2)], trials)
    assert outcome.verdict.status is status
    assert outcome.faults is not None
    assert sum(outcome.faults.counts.values()) == len(results)


def test_a_row_without_a_finding_is_no_pass() -> None:
    summary = summarise(a_trial(FAILED_CALL))
    assert decide_variant(an_entry(), [summary])[0].status is Status.ERRORED
    decision = FaultDecision()
    decision.add(an_entry(), [summary])
    assert decision.verdict().status is Status.ERRORED


def test_a_trial_that_fails_without_its_fault_keeps_the_sweep_from_passing() -> None:
    good = replace(summarise(a_trial(FAILED_CALL)), fault=FaultFinding(result="recovered"))
    bad = replace(good, index=1, status=Status.FAILED, fault=FaultFinding(result="not reached"))
    assert decide_run([an_entry(trials=2)], [good, bad]).verdict.status is Status.FAILED

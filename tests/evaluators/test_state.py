import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.evaluators.end_state import EndState
from seatrial.model.conversation import ErrorKind, StopReason, Transcript
from seatrial.model.protocols import TrialContext, TurnContext
from seatrial.model.results import EvalResult


def judged(expected: dict[str, Any], state: dict[str, Any] | None) -> EvalResult:
    transcript = Transcript(turns=(), stop_reason=StopReason.SCRIPT_ENDED, state=state)
    return asyncio.run(EndState(contains=expected).evaluate(TrialContext(transcript=transcript)))


def test_the_state_may_hold_more_at_any_depth() -> None:
    state = {"orders": [{"id": 1, "status": "paid", "at": "now"}], "user": {"name": "Ann", "age": 4}, "log": []}

    assert judged({"orders": [{"status": "paid"}], "user": {"age": {"$gt": 3}}}, state).passed


def test_every_difference_is_named_with_its_path() -> None:
    result = judged({"a": {"b": 1, "c": 2}, "d": [{"e": 1}], "f": 1}, {"a": {"b": 2}, "d": [{"e": 2}], "f": [1]})

    assert result.reasoning == (
        "State differs: a.b: expected 1, got 2; a.c: missing; d[0].e: expected 1, got 2; f: expected 1, got [1]"
    )
    assert result.checks[0].name == "state"


def test_a_list_of_another_length_differs() -> None:
    assert not judged({"a": [1]}, {"a": [1, 2]}).passed


def test_without_a_state_there_is_no_answer() -> None:
    for result in (judged({"a": 1}, None), asyncio.run(EndState(contains={"a": 1}).evaluate(TurnContext()))):
        assert not result.passed
        assert result.error is not None
        assert result.error.kind is ErrorKind.CONFIG


def test_an_empty_state_is_a_state() -> None:
    result = judged({"a": 1}, {})

    assert not result.passed
    assert result.error is None


@pytest.mark.parametrize("expected", ["x", {"a": {"$nope": 1}}])
def test_a_wrong_expectation_is_refused(expected: Any) -> None:
    with pytest.raises(UsageError, match=r"end_state\.contains"):
        EndState(contains=expected)

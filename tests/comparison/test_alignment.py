"""Where a failing conversation parts from a passing one."""

from datetime import UTC, datetime
from typing import Any

import pytest

from seatrial.comparison.alignment import align, align_closest
from seatrial.model.comparison import Alignment, DifferenceKind
from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.run import ScenarioKey, Status, Trial

LOOKUP = ToolCall("lookup", {"id": "A1"})
REFUND = ToolCall("refund", {"id": "A1", "amount": 10})


def a_trial(*turns: Any, error: str | None = None) -> Trial:
    """A trial whose turns are (reply, calls)."""
    played = tuple(
        PlayedTurn(index=index, user="hi", reply=reply, tool_calls=None if calls is None else tuple(calls))
        for index, (reply, calls) in enumerate(turns)
    )
    info = ErrorInfo(kind=ErrorKind.AGENT, message=error) if error else None
    return Trial(
        key=ScenarioKey("shop", "refund"),
        index=0,
        status=Status.PASSED,
        transcript=Transcript(turns=played, stop_reason=StopReason.SCRIPT_ENDED, error=info),
        started_at=datetime(2025, 5, 1, tzinfo=UTC),
    )


def aligned(passing: list[ToolCall], failing: list[ToolCall]) -> Alignment:
    return align(("good", a_trial(("done", passing))), ("bad", a_trial(("sorry", failing))))


def test_conversations_part_where_another_tool_is_called():
    found = aligned([LOOKUP, REFUND], [LOOKUP, ToolCall("cancel", {})])
    assert (found.parting, found.step) == (DifferenceKind.CALL, 1)
    assert found.text == "step 2 (turn 1): passing called refund, failing called cancel"


def test_conversations_part_where_one_calls_nothing_more():
    found = aligned([LOOKUP, REFUND], [LOOKUP])
    assert found.text == "step 2 (turn 1): passing called refund, failing called nothing more"


def test_conversations_part_where_an_argument_differs():
    found = aligned([LOOKUP, REFUND], [LOOKUP, ToolCall("refund", {"id": "A1", "amount": 100, "why": ["x"]})])
    assert (found.parting, found.step) == (DifferenceKind.ARGUMENTS, 1)
    assert found.text == "step 2 (turn 1): refund was called with amount: 10 → 100; why: nothing → ['x']"
    assert found.steps[1].differences == ("amount: 10 → 100", "why: nothing → ['x']")


def test_conversations_part_where_a_call_failed_in_one_of_them():
    found = aligned([LOOKUP], [ToolCall("lookup", {"id": "A1"}, error="timeout")])
    assert found.parting is DifferenceKind.ERROR
    assert "lookup went well in the passing trial and failed (timeout) in the failing one" in found.text


@pytest.mark.parametrize(
    ("good", "bad", "text"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "a.b[1]: 2 → 3"),
        ({"a": 1}, {"a": True}, "a: 1 → True"),
        ({"a": None}, {}, "a: None → nothing"),
        ({"a": 1}, "not a mapping", "arguments: {'a': 1} → 'not a mapping'"),
        (None, {"a": 1}, "arguments: None → {'a': 1}"),
    ],
)
def test_argument_differences_are_named_by_their_place(good, bad, text):
    assert text in aligned([ToolCall("f", good)], [ToolCall("f", bad)]).text


def test_equal_numbers_of_two_kinds_are_no_difference():
    assert aligned([ToolCall("f", {"a": 2})], [ToolCall("f", {"a": 2.0})]).parting is DifferenceKind.REPLY


def test_calls_are_laid_beside_each_other_by_name():
    found = aligned([LOOKUP, REFUND], [ToolCall("greet"), LOOKUP, ToolCall("log"), REFUND])
    rows = [(step.passing and step.passing.name, step.failing and step.failing.name) for step in found.steps]
    assert rows == [(None, "greet"), ("lookup", "lookup"), (None, "log"), ("refund", "refund")]


def test_the_turn_of_the_parting_is_named():
    good = a_trial(("one", [LOOKUP]), ("two", [REFUND]))
    bad = a_trial(("one", [LOOKUP]), ("two", [ToolCall("cancel")]))
    assert align(("good", good), ("bad", bad)).text.startswith("step 2 (turn 2): ")


def test_the_same_calls_leave_the_replies():
    found = aligned([LOOKUP], [LOOKUP])
    assert (found.parting, found.step) == (DifferenceKind.REPLY, None)
    assert found.text == "the same tool call; the replies differ from turn 1 on"


def test_an_error_at_the_end_is_named():
    found = align(("good", a_trial(("done", [LOOKUP]))), ("bad", a_trial((None, [LOOKUP]), error="endpoint gave 500")))
    assert found.text == "the same tool call; then the failing trial ended with: endpoint gave 500"


def test_the_same_conversation_was_judged_differently():
    same = a_trial(("done", [LOOKUP]))
    assert align(("good", same), ("bad", same)).text.endswith("they were judged differently")


def test_the_pair_that_agrees_the_longest_is_chosen():
    passing = [("early", a_trial(("x", [REFUND]))), ("late", a_trial(("x", [LOOKUP, REFUND])))]
    found = align_closest(passing, [("bad", a_trial(("x", [LOOKUP, ToolCall("cancel")])))])
    assert found is not None
    assert (found.passing, found.failing, found.step) == ("late", "bad", 1)


def test_calls_that_were_not_recorded_are_not_aligned():
    assert align_closest([("good", a_trial(("x", None)))], [("bad", a_trial(("y", [LOOKUP])))]) is None


def test_a_conversation_of_thousands_of_calls_is_aligned_at_its_beginning():
    many = [ToolCall("step", {"n": number}) for number in range(3_000)]
    found = aligned(many, [*many[:2_500], ToolCall("other")])
    assert found.step == 2_500
    assert len(found.steps) == 400

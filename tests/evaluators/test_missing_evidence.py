"""What evaluators say where some calls are known and others may have been made."""

import asyncio
from typing import Any

import pytest

from seatrial.evaluators.end_state import EndState
from seatrial.evaluators.limits import Limits
from seatrial.evaluators.passfail import PassFail
from seatrial.evaluators.tool_calls import ToolArgs, ToolCalls
from seatrial.evaluators.trajectory import Trajectory
from seatrial.model.conversation import ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.protocols import Evaluator, TrialContext
from seatrial.model.results import TrialError

LOOKED_UP = (ToolCall("lookup", {"id": 7}),)


def a_trial(*calls: ToolCall, complete: bool = False, ours: tuple[str, ...] = ("lookup", "refund")) -> TrialContext:
    """One turn; `ours` are the tools that the agent calls through Seatrial."""
    turn = PlayedTurn(index=0, user="u", reply="r", tool_calls=calls or None, calls_complete=complete)
    transcript = Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED, reachable_tools=ours)
    return TrialContext(transcript=transcript)


def verdict(evaluator: Evaluator, ctx: TrialContext) -> str:
    result = asyncio.run(evaluator.evaluate(ctx))
    if result.error is not None:
        assert result.error.kind is ErrorKind.CONFIG
        assert "tools: all_wrapped" in (result.error.hint or "")
        return "errored"
    return "passed" if result.passed else "failed"


def expecting(tool: str) -> list[Evaluator]:
    return [
        PassFail(expected_tools=[tool]),
        PassFail(expected_tool_args={tool: {}}),
        ToolCalls(must_include=[tool]),
        ToolCalls(must_include=[tool], ordered=True),
        ToolArgs(tool, {}),
        Trajectory(mode="contains", expected=[tool]),
        Trajectory(mode="in_order", expected=[tool]),
        Trajectory(mode="strict", expected=[tool]),
        Trajectory(mode="contains", expected=[{"name": tool, "count": 1}]),
    ]


FORBIDDING: list[Evaluator] = [
    ToolCalls(must_exclude=["delete"]),
    ToolCalls(must_include=["lookup"], must_exclude=["delete"]),
    ToolArgs("lookup", {"id": 7}, calls="all"),
    Trajectory(mode="contains", forbidden=["delete"]),
    Trajectory(mode="strict", expected=["lookup"]),
    Trajectory(mode="unordered", expected=["lookup"]),
    Trajectory(mode="within", expected=["lookup"]),
    Trajectory(mode="contains", expected=[{"name": "lookup", "count": 1}]),
    Trajectory(mode="in_order", expected=[{"name": "lookup", "max": 2}]),
    Trajectory(mode="in_order", expected=[{"name": "lookup", "optional": True}]),
    Limits(tool_calls=1),
]


@pytest.mark.parametrize("calls", [(), LOOKED_UP])
def test_a_call_of_ours_that_was_not_seen_was_not_made(calls: tuple[ToolCall, ...]) -> None:
    for evaluator in expecting("refund"):
        assert verdict(evaluator, a_trial(*calls)) == "failed", evaluator


@pytest.mark.parametrize("calls", [(), LOOKED_UP])
def test_of_another_tool_nobody_knows(calls: tuple[ToolCall, ...]) -> None:
    for evaluator in expecting("send_mail")[:-2]:
        assert verdict(evaluator, a_trial(*calls)) == "errored", evaluator


def test_where_all_calls_are_known_what_is_missing_fails() -> None:
    for evaluator in expecting("send_mail"):
        assert verdict(evaluator, a_trial(*LOOKED_UP, complete=True, ours=())) == "failed", evaluator


def test_one_missing_call_of_ours_is_enough_to_fail() -> None:
    both = ["send_mail", "refund"]
    for evaluator in (
        PassFail(expected_tools=both),
        ToolCalls(must_include=both),
        ToolCalls(must_include=both, ordered=True),
        Trajectory(mode="contains", expected=both),
    ):
        assert verdict(evaluator, a_trial(*LOOKED_UP)) == "failed", evaluator


def test_what_was_seen_is_enough_for_calls_that_must_be_made() -> None:
    for evaluator in expecting("lookup")[:7]:
        assert verdict(evaluator, a_trial(*LOOKED_UP, ours=())) == "passed", evaluator


def test_what_must_not_be_called_passes_only_where_all_calls_are_known() -> None:
    for evaluator in FORBIDDING:
        assert verdict(evaluator, a_trial(*LOOKED_UP)) == "errored", evaluator
        assert verdict(evaluator, a_trial(*LOOKED_UP, complete=True)) == "passed", evaluator


def test_what_must_not_be_called_and_was_seen_fails_in_any_case() -> None:
    seen = (*LOOKED_UP, ToolCall("delete", {}), ToolCall("lookup", {"id": 8}), ToolCall("lookup", {"id": 9}))
    for evaluator in FORBIDDING:
        assert verdict(evaluator, a_trial(*seen)) == "failed", evaluator


def test_an_order_is_broken_only_where_no_later_call_could_mend_it() -> None:
    seen = (ToolCall("refund", {}), *LOOKED_UP)
    for evaluator in (
        Trajectory(mode="in_order", expected=["lookup", "refund"]),
        ToolCalls(must_include=["lookup", "refund"], ordered=True),
    ):
        assert verdict(evaluator, a_trial(*seen)) == "failed"
        assert verdict(evaluator, a_trial(*seen, ours=())) == "errored"


def test_a_state_that_no_mock_wrote_is_empty_where_the_agent_could_call_them() -> None:
    written = EndState(contains={"refunded": True})
    assert not asyncio.run(written.evaluate(a_trial())).error
    unreachable = asyncio.run(written.evaluate(a_trial(ours=())))
    assert unreachable.error is not None


def test_names_are_not_denied_where_nobody_knows() -> None:
    called = a_trial(*LOOKED_UP).tools_called
    assert called[0] == "lookup"
    assert "lookup" in called
    assert "refund" not in called
    assert called.count("refund") == 0
    questions: list[Any] = [
        lambda: "delete" in called,
        lambda: called.count("delete"),
        lambda: called == ["lookup"],
        lambda: bool(a_trial().tools_called),
        lambda: a_trial(ours=()).tools_called,
    ]
    for ask in questions:
        with pytest.raises(TrialError, match="tools_called: "):
            ask()
    assert called != ["delete"]


def test_names_are_denied_where_all_calls_are_known() -> None:
    called = a_trial(*LOOKED_UP, complete=True, ours=()).tools_called
    assert "delete" not in called
    assert called == ["lookup"]

import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.evaluators.passfail import PassFail
from seatrial.evaluators.tool_calls import ToolArgs
from seatrial.evaluators.trajectory import Trajectory
from seatrial.model.conversation import ErrorKind, ToolCall
from seatrial.model.protocols import Evaluator, TurnContext
from seatrial.model.results import EvalResult
from seatrial.model.scenario import ExpectedCall


def judged(trajectory: Trajectory, *calls: ToolCall) -> EvalResult:
    return asyncio.run(trajectory.evaluate(TurnContext(reply="ok", tool_calls=calls)))


def test_the_reasons_stand_one_on_a_line() -> None:
    trajectory = Trajectory(
        expected=["check_availability", {"name": "create_booking"}], forbidden=[ExpectedCall(name="delete_booking")]
    )

    result = judged(trajectory, ToolCall("check_availability", {}), ToolCall("delete_booking", {}))

    assert result.reasoning.splitlines() == [
        "Missing tool calls: create_booking",
        "Forbidden tool calls: delete_booking",
        "Agent called: [check_availability, delete_booking]",
        "Expected (in_order): [check_availability, create_booking]",
    ]
    assert [check.name for check in result.checks] == ["missing_calls", "forbidden_calls"]
    assert result.trajectory is not None
    assert not result.trajectory.matched


def test_wrong_arguments_are_named() -> None:
    trajectory = Trajectory(mode="unordered", expected=[{"name": "book", "args": {"service": "haircut"}}])

    result = judged(trajectory, ToolCall("book", {"service": "massage"}))

    assert "Arguments differ: book.service: expected 'haircut', got 'massage'" in result.reasoning.splitlines()
    assert "Extra tool calls: book" in result.reasoning.splitlines()


def test_a_match_carries_its_trajectory() -> None:
    result = judged(Trajectory(expected=["a"]), ToolCall("a"))

    assert result.passed
    assert result.trajectory is not None
    assert result.trajectory.matched
    assert result.trajectory.actual == ("a",)


@pytest.mark.parametrize(
    "trajectory",
    [Trajectory(expected=["a"]), Trajectory(forbidden=["a"]), Trajectory(mode="strict"), Trajectory(mode="within")],
)
def test_without_recorded_calls_there_is_no_answer(trajectory: Trajectory) -> None:
    result = asyncio.run(trajectory.evaluate(TurnContext(reply="ok", tool_calls=None)))

    assert not result.passed
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONFIG


@pytest.mark.parametrize(
    ("trajectory", "arguments"),
    [
        (Trajectory(expected=[{"name": "a", "args": {"x": 1}}]), None),
        (Trajectory(forbidden=[{"name": "a", "args": {"x": 1}}]), None),
        (Trajectory(mode="contains", expected=[{"name": "a", "args": {"x": 1}, "max": 0}]), None),
    ],
)
def test_arguments_that_nobody_can_read_are_never_to_the_agents_advantage(
    trajectory: Trajectory, arguments: Any
) -> None:
    result = judged(trajectory, ToolCall("a", arguments))

    assert not result.passed
    assert result.error is not None


ASKED = {"name": "a", "args": {"x": 1}}


@pytest.mark.parametrize("arguments", ["{", '[{"x": 1}]', "", ["x"], 5])
@pytest.mark.parametrize(
    "rule",
    [
        Trajectory(expected=[ASKED]),
        Trajectory(mode="within", expected=[ASKED]),
        Trajectory(mode="contains", expected=[{**ASKED, "max": 0}]),
        Trajectory(expected=[{**ASKED, "optional": True}]),
        Trajectory(forbidden=[ASKED]),
        ToolArgs("a", {"x": 1}),
        ToolArgs("a", {"x": 1}, calls="all"),
        PassFail(expected_tool_args={"a": {"x": 1}}),
        PassFail(expected_tool_args={"a": {}}),
    ],
    ids=repr,
)
def test_a_malformed_call_fails_every_rule_about_its_arguments(rule: Evaluator, arguments: Any) -> None:
    result = asyncio.run(rule.evaluate(TurnContext(reply="ok", tool_calls=[ToolCall("a", arguments)])))

    assert not result.passed
    assert result.error is None


def test_unrecorded_arguments_do_not_matter_where_none_are_expected() -> None:
    assert judged(Trajectory(mode="strict", expected=["a"]), ToolCall("a")).passed


def test_a_trajectory_built_empty_in_python_passes() -> None:
    assert judged(Trajectory(), ToolCall("a")).passed


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"mode": "ordered"}, r"trajectory\.mode: unknown value 'ordered'\. Did you mean 'in_order'\?"),
        ({"mode": "in-order"}, r"trajectory\.mode: unknown value 'in-order'\. Did you mean 'in_order'\?"),
        ({"expected": "a"}, r"trajectory\.expected: expected a list of calls, got 'a'"),
        ({"expected": [5]}, r"trajectory\.expected\[0\]: expected a tool's name"),
        ({"expected": [{"nmae": "a"}]}, r"unknown key 'nmae'\. Did you mean 'name'\?"),
        ({"expected": [{}]}, r"give exactly one of name and any_of"),
        ({"expected": [{"name": " "}]}, r"trajectory\.expected\[0\]\.name: expected a tool's name"),
        ({"expected": [{"name": "a", "any_of": ["b"]}]}, r"give exactly one of name and any_of"),
        ({"expected": [{"any_of": []}]}, r"any_of: expected a list of alternatives"),
        ({"expected": [{"any_of": ["a"], "args": {}}]}, r"args belong to each alternative"),
        ({"expected": [{"any_of": [{"name": "a", "count": 2}]}]}, r"any_of\[0\]: count has no meaning here"),
        ({"expected": [{"any_of": [{"any_of": ["a"]}]}]}, r"an alternative cannot have alternatives"),
        ({"expected": [{"name": "a", "args": [1]}]}, r"args: expected a mapping of arguments, got \[1\]"),
        ({"expected": [{"name": "a", "args": {"x": {"$type": "int"}}}]}, r"\.args\.x\.\$type: unknown type 'int'"),
        ({"expected": [{"name": "a", "arg_match": "loose"}]}, r"arg_match: unknown value 'loose'"),
        ({"expected": [{"name": "a", "count": -1}]}, r"count: expected a whole number"),
        ({"expected": [{"name": "a", "count": True}]}, r"count: expected a whole number"),
        ({"expected": [{"name": "a", "count": 1, "max": 2}]}, r"count and max cannot be combined"),
        ({"expected": [{"name": "a", "optional": True, "min": 1}]}, r"min and optional cannot be combined"),
        ({"expected": [{"name": "a", "min": 3, "max": 2}]}, r"min 3 is greater than max 2"),
        ({"forbidden": [{"name": "a", "max": 1}]}, r"trajectory\.forbidden\[0\]: max has no meaning here"),
    ],
)
def test_a_wrong_trajectory_is_refused_when_it_is_built(given: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Trajectory(**given)


def test_alternatives_may_be_plain_names_in_python_too() -> None:
    trajectory = Trajectory(expected=[ExpectedCall(any_of=("update", "delete"))])  # type: ignore[arg-type]

    assert judged(trajectory, ToolCall("delete", {})).passed
    assert not judged(trajectory, ToolCall("create", {})).passed

import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.evaluators.passfail import PassFail
from seatrial.model.conversation import ErrorKind, ToolCall
from seatrial.model.protocols import TurnContext
from seatrial.model.results import EvalResult
from seatrial.model.scenario import Scenario


def judged(reply: str | None, calls: list[ToolCall] | None = None, **expected: Any) -> EvalResult:
    ctx = TurnContext(reply=reply, tool_calls=calls)  # type: ignore[arg-type]
    return asyncio.run(PassFail(**expected).evaluate(ctx))


def test_a_passing_result_is_built_check_by_check() -> None:
    result = judged(
        "You have 30 DAYS.",
        [ToolCall("get_weather", {"location": "Seattle", "unit": "C"}), ToolCall("mail")],
        expected_tools=["get_weather", "mail"],
        expected_tool_args={"get_weather": {"location": "Seattle"}},
        expected_output="30 days",
    )

    assert result.reasoning == (
        "Output produced: PASS. Expected tools called: PASS (get_weather, mail). Tool arguments match: PASS. "
        'Expected output found: PASS ("30 days" found in output).'
    )
    assert [check.name for check in result.checks] == [
        "output_produced",
        "expected_tools",
        "tool_args",
        "expected_output",
    ]
    assert result.passed
    assert result.score == 1.0


@pytest.mark.parametrize("reply", [None, "", " \n"])
def test_an_empty_reply_fails_before_anything_else_is_looked_at(reply: str | None) -> None:
    result = judged(reply, None, expected_tools=["a"])

    assert result.reasoning == "Output produced: FAIL (empty output)."
    assert result.error is None


def test_all_missing_tools_are_named_once() -> None:
    result = judged("ok", [ToolCall("c")], expected_tools=["a", "c", "b", "a"], expected_output="ok")

    assert result.reasoning == "Output produced: PASS. Expected tools called: FAIL (missing: a, b)."


@pytest.mark.parametrize(
    ("calls", "detail"),
    [
        ([ToolCall("get_weather", {"location": "Paris"})], "get_weather.location: expected 'Seattle', got 'Paris'"),
        ([ToolCall("get_weather", {})], "get_weather.location: missing"),
        ([], "get_weather: not called"),
        ([ToolCall("get_weather", "{")], "get_weather: arguments are not a mapping, got '{'"),
    ],
)
def test_wrong_arguments_say_what_was_wrong(calls: list[ToolCall], detail: str) -> None:
    result = judged("ok", calls, expected_tool_args={"get_weather": {"location": "Seattle"}})

    assert result.reasoning == f"Output produced: PASS. Tool arguments match: FAIL ({detail})."
    assert result.error is None


def test_every_wrong_argument_is_named() -> None:
    result = judged("ok", [ToolCall("a", {"x": 2})], expected_tool_args={"a": {"x": 1, "y": 1}, "b": {}})

    assert result.checks[-1].detail == "a.x: expected 1, got 2; a.y: missing; b: not called"


def test_a_missing_text_is_quoted() -> None:
    result = judged("ok", [], expected_output="30 days")

    assert result.reasoning == ('Output produced: PASS. Expected output found: FAIL ("30 days" not found in output).')


def test_expected_tools_without_recorded_calls_are_an_error_of_the_setup() -> None:
    result = judged("ok", None, expected_tools=["a"])

    assert not result.passed
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONFIG
    assert "AgentResult(output, tool_calls=[...])" in (result.error.hint or "")


def test_expected_arguments_that_were_not_recorded_are_an_error_of_the_setup() -> None:
    result = judged("ok", [ToolCall("a")], expected_tool_args={"a": {"x": 1}})

    assert result.error is not None
    assert "the arguments of 'a' were not recorded" in result.error.message


def test_empty_expectations_need_no_evidence() -> None:
    assert judged("ok", None, expected_tools=[], expected_tool_args={}).passed


def test_what_is_not_given_comes_from_the_scenario_and_what_is_given_wins() -> None:
    scenario = Scenario(name="s", input="x", expected_output="yes", expected_tools=["a"])
    ctx = TurnContext(reply="yes", tool_calls=[], scenario=scenario)

    assert not asyncio.run(PassFail().evaluate(ctx)).passed
    assert asyncio.run(PassFail(expected_tools=[]).evaluate(ctx)).passed
    assert not asyncio.run(PassFail(expected_tools=[], expected_output="no").evaluate(ctx)).passed


def test_a_tools_arguments_that_are_no_mapping_are_refused_when_it_is_built() -> None:
    with pytest.raises(UsageError, match=r"passfail\.expected_tool_args\.a: expected a mapping of arguments, got 'x'"):
        PassFail(expected_tool_args={"a": "x"})  # type: ignore[dict-item]

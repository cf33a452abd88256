"""Calls and results held against the tools' JSON Schemas."""

import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError
from seatrial.tools.tool_box import MockSet
from seatrial.tools.tool_schemas import check_tools

AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


def ask(mock: Any, arguments: Any, **definition: Any) -> ToolAnswer:
    tools = [{"name": "refund", **definition}]
    box = MockSet.parse({"refund": mock}, matches=lambda expected, actual: False, tools=tools).open("t", 0)
    return asyncio.run(box.call("refund", arguments, turn=0))


def test_a_call_that_keeps_to_the_schema_is_answered():
    assert ask({"returns": "ok"}, {"amount": 5}, parameters=AMOUNT).result == "ok"


def test_a_call_that_breaks_the_schema_is_an_error_that_the_agent_sees():
    answer = ask({"returns": "ok"}, {"amount": "five"}, parameters=AMOUNT)
    assert answer == ToolAnswer(error="invalid arguments for 'refund': amount: 'five' is not of type 'number'")


def test_a_wrapped_definition_is_understood():
    tools = [{"type": "function", "function": {"name": "refund", "parameters": AMOUNT}}]
    box = MockSet.parse({"refund": {"returns": 1}}, matches=lambda a, b: False, tools=tools).open("t", 0)
    assert "required property" in (asyncio.run(box.call("refund", {}, turn=0)).error or "")


def test_a_mock_that_breaks_the_output_schema_ends_the_trial():
    with pytest.raises(TrialError, match="output_schema") as caught:
        ask({"returns": {"id": 1}}, {}, output_schema={"type": "string"})
    assert caught.value.info.kind is ErrorKind.TOOL


@pytest.mark.parametrize("mock", [{"raises": "no"}, {"fault": "malformed"}, {"fault": "truncated", "returns": "abcd"}])
def test_faults_and_errors_are_not_held_against_the_output_schema(mock: Any):
    ask(mock, {}, output_schema={"type": "object"})


def test_a_reference_out_of_the_schema_is_never_fetched():
    with pytest.raises(TrialError, match="which is not part of it"):
        ask({"returns": 1}, {"a": 1}, parameters={"$ref": "http://127.0.0.1:1/schema.json"})


@pytest.mark.parametrize(
    ("tools", "part"),
    [
        ({"name": "a"}, "tools: expected a list"),
        (["a"], "tools[0]: expected a mapping"),
        ([{"description": "x"}], "tools[0]: name: expected the name of the tool, got None"),
        ([{"name": "a"}, {"name": "a"}], "tools[1]: 'a' is defined twice"),
        ([{"name": "a", "params": {}}], "tools[0]: unknown key 'params'"),
        ([{"name": "a", "parameters": {"type": "objekt"}}], "tools[0]: parameters: not a JSON Schema"),
        ([{"name": "a", "output_schema": 5}], "tools[0]: output_schema: expected a JSON Schema, got 5"),
    ],
)
def test_a_mistake_in_a_definition_is_said_with_its_place(tools: Any, part: str):
    [problem] = check_tools(tools)
    assert part in problem


def test_a_mistake_in_a_definition_is_refused_at_once():
    with pytest.raises(UsageError, match=r"tools\[0\]: parameters"):
        MockSet.parse({}, matches=lambda a, b: False, tools=[{"name": "a", "parameters": 5}])

"""What is particular to pydantic-ai: structured output, arguments that are checked before a tool is called."""

from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

import seatrial
from seatrial import Scenario
from seatrial.testing import shop


class Receipt(BaseModel):
    total: int


def play(target: Any, **scenario: Any) -> Any:
    asked = Scenario(name="x", input="Please.", **scenario)
    report = seatrial.run(asked, agent={"type": "pydantic_ai", "target": target}, store=None)
    assert report.status != "not_run"
    (trial,) = report.trials()
    assert trial.error is None, trial.error
    return trial


def asking_for(arguments: Any) -> FunctionModel:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        first = len(messages) == 1
        return ModelResponse(parts=[ToolCallPart("lookup_order", arguments) if first else TextPart("Sorry.")])

    return FunctionModel(answer)


def test_the_form_of_an_answer_is_no_tool_call() -> None:
    trial = play(Agent(TestModel(custom_output_args={"total": 12}), output_type=Receipt))

    assert trial.transcript.reply == '{"total": 12}'
    assert trial.transcript.tool_calls == ()


def test_arguments_that_the_tool_does_not_take_are_told_and_no_mock_answers_them() -> None:
    agent = Agent(asking_for({"order": 7}), tools=[shop.lookup_order])
    trial = play(agent, mocks={"lookup_order": {"returns": "here"}})

    (call,) = trial.transcript.tool_calls
    assert (call.name, call.arguments, call.result) == ("lookup_order", {"order": 7}, None)
    assert "order_id" in call.error


def test_arguments_that_are_no_json_stay_as_they_came() -> None:
    (call,) = play(Agent(asking_for('{"order_id": '), tools=[shop.lookup_order])).transcript.tool_calls

    assert call.arguments == '{"order_id": '
    assert call.error is not None


def test_a_call_that_comes_to_nothing_is_told_also_where_it_has_the_id_of_an_earlier_one() -> None:
    asked = [ToolCallPart("lookup_order", {"order_id": "A-1"}, "1"), ToolCallPart("delete_order", {"id": 5}, "1")]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[asked.pop(0) if asked else TextPart("Done.")])

    trial = play(Agent(FunctionModel(answer), tools=[shop.lookup_order]))

    assert [call.name for call in trial.transcript.tool_calls] == ["lookup_order", "delete_order"]

"""Data and SDK objects as replies. The objects of real SDKs are tested in integrations/."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from pydantic import BaseModel

import seatrial
from seatrial import Expect, Scenario
from seatrial.model.run import Trial


class Advice(BaseModel):
    text: str
    risk: int


@dataclass
class Booking:
    day: date
    seats: int


def play(returned: Any, **scenario: Any) -> Trial:
    def agent(messages: Any) -> Any:
        return returned(messages) if callable(returned) else returned

    asked = Scenario(name="x", input="Hello.", **scenario)
    (trial,) = seatrial.run(asked, agent=agent, store=None).trials()
    return trial


def test_a_model_is_a_reply_in_json() -> None:
    trial = play(Advice(text="Wait.", risk=2), expect=Expect(reply_json={"risk": {"$lte": 3}}))

    assert trial.status == "passed"
    assert trial.transcript.reply == '{"text": "Wait.", "risk": 2}'
    assert trial.transcript.tool_calls is None


def test_a_dataclass_is_a_reply_in_json_which_a_schema_checks() -> None:
    schema = {"type": "object", "properties": {"seats": {"type": "integer"}, "day": {"type": "string"}}}
    trial = play(Booking(day=date(2026, 1, 2), seats=4), scorers=[{"json_schema": {"schema": schema}}])

    assert trial.status == "passed"
    assert trial.transcript.reply == '{"day": "2026-01-02", "seats": 4}'


def test_an_answer_of_the_converse_api_is_read_and_its_calls_are_answered() -> None:
    def answer(messages: Any) -> Any:
        if messages[-1]["role"] == "tool":
            blocks = [{"text": f"It is {messages[-1]['content']}."}]
            return {"output": {"message": {"role": "assistant", "content": blocks}}, "stopReason": "end_turn"}
        use = {"toolUse": {"toolUseId": "t1", "name": "lookup", "input": {"id": 7}}}
        return {
            "output": {"message": {"role": "assistant", "content": [use]}},
            "stopReason": "tool_use",
            "usage": {"inputTokens": 3, "outputTokens": 2},
        }

    trial = play(answer, mocks={"lookup": {"returns": "shipped"}})

    assert trial.transcript.reply == "It is shipped."
    assert [(call.name, call.arguments) for call in trial.transcript.tool_calls] == [("lookup", {"id": 7})]

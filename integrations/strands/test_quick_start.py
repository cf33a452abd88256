"""The form of the quick start in Strands' README, with a fake model: a function with `@tool`, given to an Agent."""

import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, tool
from strands.models import Model

import seatrial
from seatrial import Scenario


class Caller(Model):
    """Calls the first tool, then says what it returned. (The README asks Claude on Bedrock.)"""

    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, output_model: Any, prompt: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, tool_specs: Any = None, *args: Any, **options: Any) -> AsyncIterator[Any]:
        last = messages[-1]["content"][-1]
        yield {"messageStart": {"role": "assistant"}}
        if "toolResult" in last:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": f"It has {last['toolResult']['content'][0]['text']}."}}}
        else:
            use = {"toolUseId": "use-1", "name": tool_specs[0]["name"]}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"text": last["text"]})}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if "toolResult" in last else "tool_use"}}


@tool
def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


agent = Agent(model=Caller(), tools=[word_count])
ASK = "How many words has this sentence?"


def play(**scenario: Any) -> Any:
    report = seatrial.run(Scenario(name="x", input=ASK, **scenario), agent=agent, store=None)
    assert report.passed, report.failure_reasons
    (trial,) = report.trials()
    return trial


def test_the_agent_runs_unchanged() -> None:
    trial = play(expected_tools=["word_count"], expected_tool_args={"word_count": {"text": ASK}})

    assert trial.transcript.reply == "It has 6."


def test_a_mock_answers_for_the_tool() -> None:
    assert play(mocks={"word_count": {"returns": 17}}).transcript.reply == "It has 17."

"""The form of the quick start in Agent Framework's README, with a fake client: an Agent with two plain functions."""

from typing import Annotated, Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message
from pydantic import Field

import seatrial
from seatrial import Scenario


class Caller(FunctionInvocationLayer, BaseChatClient):
    """Calls both tools at once, then says what they returned. (The README asks a model of OpenAI.)"""

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> ChatResponse:
        results = [each for message in messages for each in message.contents if each.type == "function_result"]
        contents = (
            [Content.from_text("; ".join(str(each.result).strip() for each in results))]
            if results
            else [
                Content.from_function_call("call-1", "get_weather", arguments={"location": "Amsterdam"}),
                Content.from_function_call("call-2", "get_menu_specials", arguments={}),
            ]
        )
        return ChatResponse(messages=[Message(role="assistant", contents=contents)])


def get_weather(location: Annotated[str, Field(description="The place.")]) -> str:
    """Get the weather of a place."""
    return f"It is sunny in {location}."


def get_menu_specials() -> str:
    """Get the specials of today."""
    return "Clam Chowder"


agent = Agent(
    client=Caller(),
    instructions="You know the weather and the menu.",
    tools=[get_weather, get_menu_specials],
)


def play(**scenario: Any) -> Any:
    asked = Scenario(name="x", input="How is the weather in Amsterdam, and what are the specials?", **scenario)
    report = seatrial.run(asked, agent=agent, store=None)
    assert report.passed, report.failure_reasons
    (trial,) = report.trials()
    return trial


def test_the_agent_runs_unchanged_and_makes_both_calls() -> None:
    trial = play(expected_tools=["get_weather", "get_menu_specials"])

    assert trial.transcript.reply == "It is sunny in Amsterdam.; Clam Chowder"


def test_mocks_answer_for_plain_functions() -> None:
    mocks = {"get_weather": {"returns": "rain"}, "get_menu_specials": {"returns": "soup"}}

    assert play(mocks=mocks).transcript.reply == "rain; soup"

"""What is particular to Google's kit: a plugin sees what every agent of a runner does."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import google_search
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from seatrial import Scenario, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.testing.agent_contract import AgentContract


def play(agent: Any, **scenario: Any) -> Any:
    (trial,) = AgentContract(agent={"type": "google_adk", "target": agent}).play(Scenario(name="plugin", **scenario))
    return trial


def refund_order(order_id: str) -> dict[str, str]:
    """Pay an order back."""
    return {"error": f"order {order_id} was paid in cash"}


def raising_refund_order(order_id: str) -> str:
    """Pay an order back."""
    raise RuntimeError("the till is locked")


raising_refund_order.__name__ = "refund_order"


def test_a_tool_that_answers_with_an_error_has_failed() -> None:
    import agent

    trial = play(LlmAgent(name="shop", model=agent.Scripted(), tools=[refund_order]), input="Please refund order B-2.")

    (call,) = trial.transcript.tool_calls
    assert call.error == "order B-2 was paid in cash"
    assert call.result == {"error": "order B-2 was paid in cash"}


def test_a_tool_that_raises_ends_the_run_as_the_kit_wants_it_and_the_call_is_told() -> None:
    import agent

    shop = LlmAgent(name="shop", model=agent.Scripted(), tools=[raising_refund_order])
    trial = play(shop, input="Please refund order B-2.")

    assert trial.error.kind is ErrorKind.AGENT
    (call,) = trial.transcript.tool_calls
    assert call.error == "RuntimeError: the till is locked"


def test_a_mock_does_not_hide_that_a_tool_is_not_there() -> None:
    import agent

    asked = {"mocks": {"teleport_parcel": {"returns": "done"}}, "tools": [{"name": "teleport_parcel"}]}
    trial = play(LlmAgent(name="shop", model=agent.Scripted()), input="Please teleport it.", **asked)

    (call,) = trial.transcript.tool_calls
    assert call.error is not None
    assert "not found" in call.error


def test_the_scenarios_system_message_reaches_the_model() -> None:
    import agent

    heard: list[str] = []

    class Listening(agent.Scripted):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            heard.append(str(llm_request.config.system_instruction))
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    trial = play(LlmAgent(name="shop", model=Listening()), input="Hello!", system="Speak like a pirate.")

    assert trial.error is None
    assert "Speak like a pirate." in heard[0]


def test_a_model_that_answers_with_an_error_is_an_error_of_the_agent() -> None:
    import agent

    class Blocked(agent.Scripted):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            yield LlmResponse(error_code="SAFETY", error_message="not that")

    trial = play(LlmAgent(name="shop", model=Blocked()), input="Hello!")

    assert trial.error.kind is ErrorKind.AGENT
    assert trial.error.message == "the model gave no answer: SAFETY: not that"


def test_an_agent_that_is_kept_from_plugins_is_refused() -> None:
    import agent

    hidden = AgentTool(agent.expert, include_plugins=False)
    shop = LlmAgent(name="shop", sub_agents=[LlmAgent(name="desk", tools=[hidden])])

    with pytest.raises(UsageError, match=r"the agent 'expert' is an AgentTool with include_plugins=False"):
        play(shop, input="Hello!")


class Searching(BaseLlm):
    """As Gemini does, it runs tools by itself and tells of them afterwards."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        code = types.ExecutableCode(code="print(1 + 1)", language=types.Language.PYTHON)
        result = types.CodeExecutionResult(output="2", outcome=types.Outcome.OUTCOME_OK)
        parts = [
            types.Part(executable_code=code),
            types.Part(code_execution_result=result),
            types.Part(text="In Hamburg."),
        ]
        yield LlmResponse(
            content=types.Content(role="model", parts=parts),
            grounding_metadata=types.GroundingMetadata(web_search_queries=["parcel P-1"]),
        )


searcher = LlmAgent(name="shop", model=Searching(model="gemini-2.5-flash"), tools=[google_search])


def test_tools_that_the_provider_runs_are_told() -> None:
    trial = play(searcher, input="Where is it?")

    assert trial.transcript.reply == "In Hamburg."
    assert [(call.name, call.arguments, call.result) for call in trial.transcript.tool_calls] == [
        ("google_search", {"queries": ["parcel P-1"]}, None),
        ("code_execution", {"code": "print(1 + 1)"}, "2"),
    ]


def test_a_mock_for_a_tool_that_the_provider_runs_is_refused() -> None:
    trial = play(searcher, input="Where is it?", mocks={"google_search": {"returns": "nowhere"}})

    assert trial.error.kind is ErrorKind.CONFIG
    assert trial.error.message == (
        "the model's provider runs the tool 'google_search' by itself, where no mock can answer it"
    )

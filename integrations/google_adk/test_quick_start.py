"""The quick starts of Google's kit, with a fake model: the README's agent and workflow, a search, a coordinator."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk import Agent, Workflow
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools import google_search
from google.genai import types

import seatrial
from seatrial import Scenario


class Searcher(BaseLlm):
    """Searches by itself, as Gemini does. (The README asks Gemini.)"""

    model: str = "gemini-2.5-flash"

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text="It is sunny.")]),
            grounding_metadata=types.GroundingMetadata(web_search_queries=["weather"]),
        )


class Speaker(BaseLlm):
    """Says a text, or hands over."""

    model: str = "gemini-2.5-flash"
    to: str | None = None

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        call = types.FunctionCall(name="transfer_to_agent", args={"agent_name": self.to})
        part = types.Part(text="Hello!") if self.to is None else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


root_agent = Agent(
    name="search_assistant",
    model=Searcher(),
    instruction="Answer with a search where needed.",
    description="An assistant that can search the web.",
    tools=[google_search],
)
greeter = LlmAgent(name="greeter", model=Speaker())
task_executor = LlmAgent(name="task_executor", model=Speaker())
coordinator = LlmAgent(
    name="Coordinator",
    model=Speaker(to="greeter"),
    description="I coordinate greetings and tasks.",
    sub_agents=[greeter, task_executor],
)


class Knows(BaseLlm):
    """Names a fruit, and knows what it is good for. (The README asks Gemini.)"""

    model: str = "gemini-2.5-flash"

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        asked = llm_request.config.system_instruction
        said = str([part.text for content in llm_request.contents for part in content.parts])
        text = "apple" if "Name a fruit" in asked else "An apple a day helps." if "apple" in said else "Of what?"
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


greeting_agent = Agent(name="greeting_agent", model=Speaker(), instruction="Greet the user.")
fruit = Agent(name="generate_fruit_agent", model=Knows(), instruction="Name a fruit.")
benefit = Agent(name="generate_benefit_agent", model=Knows(), instruction="Tell what the fruit is good for.")
workflow = Workflow(name="root_agent", edges=[("START", fruit, benefit)])


def test_the_agent_of_the_readme_runs_unchanged() -> None:
    play(greeting_agent, input="Hi!", expected_output="Hello!")


def test_the_workflow_of_the_readme_runs_unchanged() -> None:
    play(workflow, input="Go.", expected_output="An apple a day helps.")


def play(agent: Any, **scenario: Any) -> None:
    report = seatrial.run(Scenario(name="x", **scenario), agent=agent, store=None)
    assert report.passed, report.failure_reasons


def test_a_search_of_the_provider_is_recorded() -> None:
    play(root_agent, input="How is the weather?", expected_tools=["google_search"], expected_output="sunny")


def test_the_coordinator_hands_over() -> None:
    play(
        coordinator,
        input="Hi!",
        expected_tool_args={"transfer_to_agent": {"agent_name": "greeter"}},
        expected_output="Hello!",
    )

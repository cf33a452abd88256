"""The form of the quick start in smolagents' README, with a fake model: a CodeAgent that searches the web."""

from typing import Any

from smolagents import CodeAgent, Model, WebSearchTool
from smolagents.models import ChatMessage, MessageRole

import seatrial
from seatrial import Scenario


class Coder(Model):
    """Searches, then answers with what it found. (The README asks a model of the hub.)"""

    def generate(self, messages: list[ChatMessage], **options: Any) -> ChatMessage:
        code = "final_answer(web_search('speed of a leopard'))"
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>{code}</code>")


agent = CodeAgent(tools=[WebSearchTool()], model=Coder())


def test_the_agent_runs_unchanged_and_its_search_is_mocked() -> None:
    asked = Scenario(
        name="x",
        input="How many seconds does a leopard need for the Pont des Arts?",
        mocks={"web_search": {"returns": "58 km/h"}},
        expected_tools=["web_search"],
        expected_output="58 km/h",
    )
    report = seatrial.run(asked, agent=agent, store=None)

    assert report.passed, report.failure_reasons

"""The quick start in smolagents' README, with a fake model: a CodeAgent that searches the web and streams."""

from collections.abc import Iterator
from typing import Any

from smolagents import CodeAgent, Model, WebSearchTool
from smolagents.models import ChatMessage, ChatMessageStreamDelta, MessageRole

import seatrial
from seatrial import Scenario


class Coder(Model):
    """Searches, then answers with what it found. (The README asks a model of the hub.)"""

    def generate(self, messages: list[ChatMessage], **options: Any) -> ChatMessage:
        code = "final_answer(web_search('speed of a leopard'))"
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>{code}</code>")

    def generate_stream(self, messages: list[ChatMessage], **options: Any) -> Iterator[ChatMessageStreamDelta]:
        text = self.generate(messages).content
        for piece in (text[:9], text[9:]):
            yield ChatMessageStreamDelta(content=piece)


agent = CodeAgent(tools=[WebSearchTool()], model=Coder(), stream_outputs=True)


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

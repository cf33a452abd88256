"""The form of LlamaIndex' starter tutorial, with its own fake model: a FunctionAgent that multiplies."""

from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

import seatrial
from seatrial import Scenario


def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
    """Calls the tool, then says what it returned. (The tutorial asks a model of OpenAI.)"""
    last = messages[-1]
    if last.role.value == "tool":
        return ChatMessage(role="assistant", blocks=[TextBlock(text=f"The result is {last.content}.")])
    call = ToolCallBlock(tool_name="multiply", tool_kwargs={"a": 1234, "b": 4567}, tool_call_id="call-1")
    return ChatMessage(role="assistant", blocks=[call])


agent = FunctionAgent(
    tools=[multiply],
    llm=MockFunctionCallingLLM(response_generator=answer),
    system_prompt="You can multiply two numbers.",
)


def test_the_agent_runs_unchanged() -> None:
    asked = Scenario(
        name="x",
        input="What is 1234 * 4567?",
        expected_tool_args={"multiply": {"a": 1234, "b": 4567}},
        expected_output="5635678",
    )
    report = seatrial.run(asked, agent=agent, store=None)

    assert report.passed, report.failure_reasons

"""What is particular to agents of LlamaIndex: a memory, a Context, and events."""

import warnings
from collections.abc import Sequence
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM

from seatrial import Scenario, Turn
from seatrial.testing import shop
from seatrial.testing.agent_contract import AgentContract


def play(agent: Any, **scenario: Any) -> Any:
    (trial,) = AgentContract(agent={"type": "llama_index", "target": agent}).play(Scenario(name="turns", **scenario))
    return trial


def test_the_scenarios_system_message_reaches_the_model() -> None:
    heard: list[str] = []

    def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        heard.extend(f"{message.role.value}: {message.content}" for message in messages)
        return ChatMessage(role="assistant", content="Arr.")

    agent = FunctionAgent(llm=MockFunctionCallingLLM(response_generator=answer))
    trial = play(agent, input="Hello!", system="Speak like a pirate.")

    assert trial.transcript.reply == "Arr."
    assert heard == ["system: Speak like a pirate.", "user: Hello!"]


def test_tokens_that_the_model_does_not_tell_are_unknown() -> None:
    import agent

    silent = FunctionAgent(llm=MockFunctionCallingLLM(response_generator=agent.answer))

    assert play(silent, input="Hello!").transcript.usage is None


def test_a_call_that_the_model_writes_as_text_is_told_and_mocked() -> None:
    lines = [
        'Thought: I look.\nAction: lookup_order\nAction Input: {"order_id": "A-1"}',
        "Thought: I can answer.\nAnswer: found it",
    ]

    def answer(messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        return ChatMessage(role="assistant", content=lines[any("Observation" in str(m.content) for m in messages[1:])])

    agent = ReActAgent(tools=[shop.lookup_order], llm=MockFunctionCallingLLM(response_generator=answer))
    trial = play(agent, input="Where is order A-1?", mocks={"lookup_order": {"returns": "in parcel P-mock"}})

    assert trial.transcript.reply == "found it"
    (call,) = trial.transcript.tool_calls
    assert (call.name, call.arguments, call.result) == ("lookup_order", {"order_id": "A-1"}, "in parcel P-mock")


def test_a_second_turn_does_not_make_llama_index_warn_of_its_memory() -> None:
    import agent

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        play(agent.agent, turns=(Turn(user="Hello!"), Turn(user="Good morning!")))

    assert [str(warning.message) for warning in heard if "memory" in str(warning.message)] == []

"""What is particular to agents of smolagents: each trial talks to a twin of the user's agent."""

from typing import Any

import pytest
from smolagents import CodeAgent, ToolCallingAgent
from smolagents.models import ChatMessage

from seatrial import Scenario, Turn, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.testing.agent_contract import AgentContract


def play(agent: Any, **scenario: Any) -> Any:
    (trial,) = AgentContract(agent={"type": "smolagents", "target": agent}).play(Scenario(name="twin", **scenario))
    return trial


def test_the_users_agent_stays_as_it_was() -> None:
    import agent

    tools = dict(agent.agent.tools)
    trial = play(agent.agent, input="Where is order A-1?")

    assert trial.error is None
    assert agent.agent.memory.steps == []
    assert agent.agent.tools == tools
    assert agent.agent.monitor.total_input_token_count == 0


def test_the_scenarios_system_message_reaches_the_model() -> None:
    import agent

    heard: list[str] = []

    class Listening(agent.Scripted):
        def generate(self, messages: list[ChatMessage], **options: Any) -> ChatMessage:
            heard.append(str(messages[0].content))
            return super().generate(messages, **options)

    trial = play(ToolCallingAgent(tools=[], model=Listening()), input="Hello!", system="Speak like a pirate.")

    assert trial.error is None
    assert "Speak like a pirate." in heard[0]


def test_a_template_without_place_for_a_system_message_is_an_error_of_the_configuration() -> None:
    import agent

    terse = ToolCallingAgent(tools=[], model=agent.Scripted())
    terse.prompt_templates["system_prompt"] = "Be terse."
    trial = play(terse, input="Hello!", system="Speak like a pirate.")

    assert trial.error.kind is ErrorKind.CONFIG
    assert "custom_instructions" in trial.error.message


def test_a_retry_begins_without_the_steps_of_the_try_before() -> None:
    import agent

    seen: list[int] = []

    class Faltering(agent.Scripted):
        def generate(self, messages: list[ChatMessage], **options: Any) -> ChatMessage:
            seen.append(sum("Good morning" in str(message.content) for message in messages))
            if len(seen) == 2:
                raise ConnectionError("the model is away")
            return super().generate(messages, **options)

    turns = (Turn(user="My name is Ada."), Turn(user="Good morning, what is my name?"))
    trial = play(ToolCallingAgent(tools=[], model=Faltering()), turns=turns, retries=1)

    assert trial.transcript.reply == "You are Ada."
    assert seen == [0, 1, 1]


def test_a_mock_takes_the_place_of_a_managed_agent() -> None:
    import agent

    trial = play(agent.agent, input="Ask the expert.", mocks={"expert": {"returns": "it is in Bremen"}})

    (call,) = trial.transcript.tool_calls
    assert (call.name, call.arguments) == ("expert", {"task": "Where is order E-5?"})
    assert "it is in Bremen" in trial.transcript.reply


def test_an_agent_that_runs_its_code_elsewhere_is_refused() -> None:
    import agent

    class Elsewhere:
        """Stands for a remote executor, which needs a machine to run on."""

    remote = CodeAgent(tools=[], model=agent.Coding(), executor=Elsewhere())

    with pytest.raises(UsageError, match="Elsewhere, where its tool calls can neither be recorded nor mocked"):
        play(remote, input="Hello!")

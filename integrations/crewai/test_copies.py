"""What is particular to CrewAI: each trial talks to a copy, and a crew is told what the user says through inputs."""

from typing import Any

import pytest

from seatrial import Scenario, Turn, UsageError
from seatrial.testing.agent_contract import AgentContract


def play(agent: Any, **scenario: Any) -> Any:
    (trial,) = AgentContract(agent={"type": "crewai", "target": agent}).play(Scenario(name="copies", **scenario))
    return trial


def test_the_users_crew_stays_as_it_was() -> None:
    import agent

    tools, spent = list(agent.clerk.tools), agent.clerk.llm.get_token_usage_summary()
    trial = play(agent.crew, turns=(Turn(user="Where is order A-1?"), Turn(user="Ask the expert.")))

    assert trial.error is None
    assert agent.clerk.tools == tools
    assert agent.answer.description == "{input}"
    assert agent.clerk.llm.get_token_usage_summary() == spent


def test_the_scenarios_system_message_reaches_the_model() -> None:
    import agent

    heard: list[str] = []

    class Listening(agent.Scripted):
        def call(self, messages: Any, tools: Any = None, **options: Any) -> Any:
            heard.append(str(messages))
            return super().call(messages, tools, **options)

    trial = play(
        agent.make_agent("Clerk", Listening(model="listening"), []), input="Hello!", system="Speak like a pirate."
    )

    assert trial.error is None
    assert "Speak like a pirate." in heard[0]


def test_a_crew_with_one_placeholder_of_any_name_is_told_what_the_user_says() -> None:
    import agent

    task = agent.Task(description="{question}", expected_output="An answer.", agent=agent.expert)
    trial = play(agent.Crew(agents=[agent.expert], tasks=[task]), input="Where is order A-1?")

    assert "Hamburg" in trial.transcript.reply


def test_a_crew_that_cannot_be_told_what_the_user_says_is_refused() -> None:
    import agent

    task = agent.Task(description="Say hello.", expected_output="A greeting.", agent=agent.expert)

    with pytest.raises(UsageError, match=r"a placeholder in a task's description, such as \{input\}; found: none"):
        play(agent.Crew(agents=[agent.expert], tasks=[task]), input="Hello!")


def test_arguments_that_a_tool_does_not_take_are_told_as_they_came() -> None:
    import agent

    class Confused(agent.Scripted):
        def next_steps(self, messages: Any) -> Any:
            step = super().next_steps(messages)
            return step if isinstance(step, str) else [agent.shop.Call(name=step[0].name, arguments={"number": 1})]

    trial = play(agent.make_agent("Clerk", Confused(model="confused"), agent.TOOLS), input="Please refund order B-2.")

    (call,) = trial.transcript.tool_calls
    assert call.arguments == {"number": 1}
    assert "arguments validation failed" in call.error

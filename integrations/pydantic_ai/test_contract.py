"""pydantic-ai holds the contract of agents."""

from typing import Any

import pytest

from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "pydantic_ai", "target": "agent:agent"},
    waiting={"type": "pydantic_ai", "target": "agent:guarded"},
    nested="ask_expert",
    parallel=True,
    attachments=True,
    tells_tools=True,
)
ISOLATED = AgentContract(agent=CONTRACT.agent, nested="ask_expert", tells_tools=True, config={"isolation": "process"})


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


@pytest.mark.parametrize(
    "clause",
    [
        "each turn has only its own calls",
        "a mock's error reaches the agent",
        "in a scenario with mocks, a tool without one never runs",
        "a mock of an unknown tool is refused",
        "images and files reach the model",
    ],
)
def test_the_adapter_holds_in_processes_of_their_own(clause: str) -> None:
    ISOLATED.check(clause)


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")


def test_a_stored_conversation_continues_in_the_middle_of_a_turn(forks: Any) -> None:
    whole, forked = forks(CONTRACT.agent)

    assert forked.error is None
    assert forked.seen_calls == whole.seen_calls
    assert len(forked.seen_calls) == 4
    assert [turn.reply for turn in forked.turns] == [turn.reply for turn in whole.turns]
    assert forked.reply == "You are Ada."

"""The OpenAI Agents SDK holds the contract of agents."""

from typing import Any

import pytest

from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "openai_agents", "target": "agent:agent"},
    nested="ask_expert",
    waiting={"type": "openai_agents", "target": "agent:guarded"},
    handoff="transfer_to_billing",
    parallel=True,
    attachments=True,
    tells_tools=True,
    unknown_tools=False,  # the SDK ends the run
)


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")


def test_a_stored_conversation_continues_in_the_middle_of_a_turn(forks: Any) -> None:
    whole, forked = forks(CONTRACT.agent)

    assert forked.error is None
    assert forked.seen_calls == whole.seen_calls
    assert len(forked.seen_calls) == 4
    assert [turn.reply for turn in forked.turns] == [turn.reply for turn in whole.turns]
    assert forked.reply == "You are Ada."

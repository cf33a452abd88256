"""The OpenAI Agents SDK holds the contract of agents."""

import pytest

from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "openai_agents", "target": "agent:agent"},
    nested="ask_expert",
    handoff="transfer_to_billing",
    tells_tools=True,
    unknown_tools=False,  # the SDK ends the run
)


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")

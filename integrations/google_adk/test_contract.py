"""Google's Agent Development Kit holds the contract of agents."""

import pytest

from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "google_adk", "target": "agent:agent"},
    nested="expert",
    handoff="transfer_to_agent",
    waiting={"type": "google_adk", "target": "agent:guarded"},
    parallel=True,
    attachments=True,
    tells_tools=True,
)
APP_CONTRACT = AgentContract(agent={"type": "google_adk", "target": "agent:app"}, tells_tools=True)


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


@pytest.mark.parametrize("clause", APP_CONTRACT.clauses)
def test_the_adapter_holds_for_apps(clause: str) -> None:
    APP_CONTRACT.check(clause)


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")

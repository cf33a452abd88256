"""LlamaIndex holds the contract of agents."""

import pytest

from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "llama_index", "target": "agent:agent"},
    nested="ask_expert",
    parallel=True,
    attachments=True,
    tells_tools=True,
)
WORKFLOW_CONTRACT = AgentContract(
    agent={"type": "llama_index", "target": "agent:workflow"}, nested="ask_expert", handoff="handoff", tells_tools=True
)


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


@pytest.mark.parametrize("clause", WORKFLOW_CONTRACT.clauses)
def test_the_adapter_holds_for_workflows(clause: str) -> None:
    WORKFLOW_CONTRACT.check(clause)


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")

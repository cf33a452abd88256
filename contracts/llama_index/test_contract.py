"""LlamaIndex holds the contract of agents."""

import pytest

from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(agent={"type": "llama_index", "target": "agent:agent"}, nested="ask_expert")
WORKFLOW_CONTRACT = AgentContract(
    agent={"type": "llama_index", "target": "agent:workflow"}, nested="ask_expert", handoff="handoff"
)


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


@pytest.mark.parametrize("clause", WORKFLOW_CONTRACT.clauses)
def test_the_adapter_holds_for_workflows(clause: str) -> None:
    WORKFLOW_CONTRACT.check(clause)

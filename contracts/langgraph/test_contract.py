"""LangGraph holds the contract of agents."""

import pytest

from seatrial.testing.agent_contract import AgentContract

AGENTS = ("agent:graph", "agent:graph_with_threads", "agent:make")
CONTRACTS = {
    target: AgentContract(agent={"type": "langgraph", "target": target}, nested="ask_expert") for target in AGENTS
}


@pytest.mark.parametrize("target", AGENTS)
@pytest.mark.parametrize("clause", CONTRACTS[AGENTS[0]].clauses)
def test_the_adapter_holds(target: str, clause: str) -> None:
    CONTRACTS[target].check(clause)

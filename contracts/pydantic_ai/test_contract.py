"""pydantic-ai holds the contract of agents."""

import pytest

from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(agent={"type": "pydantic_ai", "target": "agent:agent"}, nested="ask_expert")


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)

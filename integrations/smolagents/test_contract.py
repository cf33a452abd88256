"""smolagents holds the contract of agents."""

import pytest

from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "smolagents", "target": "agent:agent"},
    parallel=True,
    attachments=False,
    nested="expert",
    tells_tools=True,
)
CODE_CONTRACT = AgentContract(
    agent={"type": "smolagents", "target": "agent:coder"}, nested="expert", unknown_tools=False, tells_tools=True
)
"""A CodeAgent calls its tools from Python: a name that is not there is an error in its code, and no call."""


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


@pytest.mark.parametrize("clause", CODE_CONTRACT.clauses)
def test_the_adapter_holds_for_code_agents(clause: str) -> None:
    CODE_CONTRACT.check(clause)


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")

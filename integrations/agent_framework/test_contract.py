"""Microsoft's Agent Framework holds the contract of agents."""

import pytest

import seatrial
from seatrial import Scenario
from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(agent={"type": "agent_framework", "target": "agent:agent"}, nested="ask_expert", parallel=True)


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


def test_names_of_tools_are_known_unless_an_agent_is_among_them() -> None:
    told = AgentContract(agent={"type": "agent_framework", "target": "agent:plain"}, tells_tools=True)

    told.check("a mock of an unknown tool is refused")


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")


def test_a_function_may_return_the_response_of_the_framework() -> None:
    import agent as module

    async def answer(input: str):
        return await module.plain.run(input)

    report = seatrial.run(Scenario(name="response", input="Where is order A-1?"), agent=answer, store=None)
    (trial,) = report.trials()

    assert report.passed
    assert [call.name for call in trial.transcript.tool_calls] == ["lookup_order", "track_parcel"]
    assert trial.transcript.usage.output_tokens == 3

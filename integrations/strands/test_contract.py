"""Strands holds the contract of agents."""

import pytest

import seatrial
from seatrial import AgentResult, Scenario
from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "strands", "target": "agent:agent"}, nested="ask_expert", parallel=True, tells_tools=True
)


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")


def test_the_agent_itself_does_not_change() -> None:
    import agent as module

    CONTRACT.check("two calls are recorded with arguments and results")

    assert module.agent.messages == []


def test_a_function_may_return_the_result_of_the_sdk() -> None:
    import agent as module

    def answer(input: str) -> AgentResult:
        return module.Agent(model=module.Scripted(), callback_handler=None)(input)

    report = seatrial.run(Scenario(name="result", input="Good morning!"), agent=answer, store=None)
    (trial,) = report.trials()

    assert report.passed
    assert trial.transcript.reply == "How can I help?"
    assert trial.transcript.tool_calls is None

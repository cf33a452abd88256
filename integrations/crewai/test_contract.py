"""CrewAI holds the contract of agents."""

import pytest

from seatrial import Scenario
from seatrial.model.conversation import ErrorKind
from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "crewai", "target": "agent:agent"}, parallel=True, attachments=False, tells_tools=True
)
CREW_CONTRACT = AgentContract(agent={"type": "crewai", "target": "agent:crew"}, nested="delegate_work_to_coworker")
WRITER_CONTRACT = AgentContract(agent={"type": "crewai", "target": "agent:writer"}, tells_tools=True)
"""A model that writes its calls as text, for which CrewAI itself tries a failing tool again."""
TRIED_AGAIN = ("a tool's error is recorded", "a mock's error reaches the agent")


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


@pytest.mark.parametrize("clause", CREW_CONTRACT.clauses)
def test_the_adapter_holds_for_crews(clause: str) -> None:
    CREW_CONTRACT.check(clause)


@pytest.mark.parametrize("clause", [clause for clause in WRITER_CONTRACT.clauses if clause not in TRIED_AGAIN])
def test_the_adapter_holds_for_models_that_write_their_calls(clause: str) -> None:
    WRITER_CONTRACT.check(clause)


def test_every_try_of_a_failing_tool_is_told() -> None:
    (trial,) = WRITER_CONTRACT.play(Scenario(name="tool error", input="Please refund order B-2."))

    calls = trial.transcript.tool_calls or ()
    assert len(calls) > 1
    assert {(call.name, call.error) for call in calls} == {("refund_order", "ShopError: order B-2 was paid in cash")}


def test_a_mock_for_a_tool_of_crewais_own_is_refused() -> None:
    mocks = {"delegate_work_to_coworker": {"returns": "it is here"}}
    (trial,) = CREW_CONTRACT.play(Scenario(name="delegation", input="Ask the expert.", mocks=mocks))

    assert trial.error is not None
    assert trial.error.kind is ErrorKind.CONFIG
    assert "'delegate_work_to_coworker'" in trial.error.message
    assert [call.name for call in trial.transcript.tool_calls or ()] == ["delegate_work_to_coworker"]


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")

"""LangGraph holds the contract of agents, and what only graphs can do is told as well."""

from typing import Any

import pytest

import seatrial
from seatrial import Scenario, Turn, UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.testing.agent_contract import AgentContract

CONTRACTS = {
    target: AgentContract(
        agent={"type": "langgraph", "target": target},
        nested="ask_expert",
        handoff="transfer_to_billing",
        parallel=True,
        attachments=True,
        tells_tools=target != "agent:make",
    )
    for target in ("agent:graph", "agent:graph_with_threads", "agent:make")
}


@pytest.mark.parametrize(
    ("target", "clause"), [(target, clause) for target, contract in CONTRACTS.items() for clause in contract.clauses]
)
def test_the_adapter_holds(target: str, clause: str) -> None:
    CONTRACTS[target].check(clause)


def play(target: str, *said: str, **more: Any) -> Any:
    scenario = Scenario(name="x", turns=[Turn(user=text) for text in said], **more)
    report = seatrial.run(scenario, agent={"type": "langgraph", "target": target}, store=None)
    assert report.status != "not_run"
    (trial,) = report.trials()
    return trial


@pytest.mark.parametrize("target", ["agent:by_hand", "agent:by_bare_arguments"])
def test_tools_that_a_node_runs_by_itself_are_told_once(target: str) -> None:
    trial = play(target, "Where is order A-1?")

    assert [(call.name, call.arguments) for call in trial.transcript.tool_calls] == [
        ("lookup_order", {"order_id": "A-1"}),
        ("track_parcel", {"parcel_id": "P-A-1"}),
    ]
    assert [call.result for call in trial.transcript.tool_calls][1] == "parcel P-A-1 is in Hamburg"


def test_a_mock_that_cannot_stand_in_is_refused() -> None:
    trial = play("agent:by_hand", "Where is order A-1?", mocks={"lookup_order": {"returns": "nowhere"}})

    assert trial.error.kind is ErrorKind.CONFIG
    assert "'lookup_order' is mocked, but" in trial.error.message


def test_a_tool_that_a_node_calls_by_hand_though_none_may_run_ends_the_trial() -> None:
    trial = play("agent:by_hand", "Where is order A-1?", unmocked_tools="error")

    assert trial.error.kind is ErrorKind.TOOL
    assert trial.error.message == "Tool 'lookup_order' was called but no mock is defined"


def test_a_mock_stands_in_for_a_tool_that_a_node_runs_by_itself() -> None:
    mocks = {"lookup_order": {"returns": "P-mock"}}
    trial = play("agent:by_bare_arguments", "Where is order A-1?", mocks=mocks, unmocked_tools="passthrough")

    assert "P-mock is in Hamburg" in trial.transcript.reply


def test_an_interrupt_is_a_question_and_the_next_message_its_answer() -> None:
    trial = play("agent:with_boss", "Please refund order B-2.", "no")

    asked, answered = trial.transcript.turns
    assert asked.reply == "May B-2 be paid back?"
    assert asked.tool_calls == ()
    assert [(call.name, call.result) for call in answered.tool_calls] == [("refund_order", "the boss says no")]
    assert answered.reply == "No refund: the boss says no"


def test_a_turn_that_is_tried_again_goes_on_in_its_thread() -> None:
    trial = play("agent:flaky", "Hello, my name is Ada.", "What is my name?", retries=1)

    assert trial.transcript.turns[0].retries == 1
    assert trial.transcript.reply == "You are Ada."


def test_a_graph_without_messages_is_refused() -> None:
    with pytest.raises(UsageError, match="the graph's state has no 'messages'"):
        play("agent:without_messages", "Good morning!")


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:graph").check("in a scenario with mocks, a tool without one never runs")


@pytest.mark.parametrize("target", CONTRACTS)
def test_a_stored_conversation_continues_in_the_middle_of_a_turn(forks: Any, target: str) -> None:
    whole, forked = forks(CONTRACTS[target].agent)

    assert forked.error is None
    assert forked.seen_calls == whole.seen_calls
    assert len(forked.seen_calls) == 4
    assert [turn.reply for turn in forked.turns] == [turn.reply for turn in whole.turns]
    assert forked.reply == "You are Ada."

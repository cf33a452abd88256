"""LangGraph's own examples with a fake model: a graph with a context, and a graph that asks a person."""

from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict

import seatrial
from seatrial import Scenario, Turn
from seatrial.model.conversation import ErrorKind


class Context(TypedDict):
    user_id: str


def greet(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"messages": [AIMessage(f"Hello, {runtime.context['user_id']}!")]}


greeter = StateGraph(MessagesState, context_schema=Context).add_node(greet).add_edge(START, "greet").compile()


def careful(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"messages": [AIMessage(f"Hello, {(runtime.context or {}).get('user_id', 'stranger')}!")]}


template = StateGraph(MessagesState, context_schema=Context).add_node(careful).add_edge(START, "careful").compile()


def ask_human(state: MessagesState) -> dict[str, Any]:
    answer = interrupt({"question": "Do you approve?", "amount": 500})
    return {"messages": [AIMessage("Approved." if answer["approved"] else "Rejected.")]}


approver = StateGraph(MessagesState).add_node(ask_human).add_edge(START, "ask_human").compile(InMemorySaver())


def play(target: Any, settings: Any = (), **scenario: Any) -> Any:
    agent = {"type": "langgraph", "target": target, **dict(settings)}
    report = seatrial.run(Scenario(name="x", **scenario), agent=agent, store=None)
    report.asserted = True
    (trial,) = report.trials()
    return trial


def test_nodes_get_the_context() -> None:
    assert play(greeter, {"context": {"user_id": "ada"}}, input="Hi.").transcript.reply == "Hello, ada!"


def test_a_missing_context_is_a_mistake_of_the_settings() -> None:
    trial = play(greeter, input="Hi.")

    assert trial.error.kind is ErrorKind.CONFIG
    assert "the agent needs a context of type Context" in trial.error.message
    assert '{type: langgraph, target: ..., context: "package.module:make_context"}' in trial.error.hint


def test_a_graph_that_can_do_without_its_context_runs() -> None:
    assert play(template, input="Hi.").transcript.reply == "Hello, stranger!"


def test_a_turn_resumes_the_graph_with_a_value() -> None:
    trial = play(approver, turns=[Turn(user="Pay 500."), Turn(resume={"approved": True})])

    assert trial.error is None
    assert [turn.reply for turn in trial.transcript.turns] == [
        '{"question": "Do you approve?", "amount": 500}',
        "Approved.",
    ]
    assert trial.transcript.turns[1].user == '(resume: {"approved": true})'


def test_an_approval_of_what_is_no_call_is_a_mistake_of_the_scenario() -> None:
    trial = play(approver, turns=[Turn(user="Pay 500."), Turn(approve=["pay"])])

    assert trial.error.kind is ErrorKind.CONFIG
    assert "resume" in trial.error.hint

"""LangChain holds the contract of agents."""

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

import seatrial
from seatrial import Scenario, Turn
from seatrial.model.conversation import ErrorKind
from seatrial.testing import shop
from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "langchain", "target": "agent:agent"},
    waiting={"type": "langchain", "target": "agent:guarded"},
    nested="ask_expert",
    parallel=True,
    attachments=True,
    tells_tools=True,
)


@pytest.mark.parametrize("clause", CONTRACT.clauses)
def test_the_adapter_holds(clause: str) -> None:
    CONTRACT.check(clause)


def run_with(target: Any, **scenario: Any) -> Any:
    asked = Scenario(name="x", **scenario)
    report = seatrial.run(asked, agent={"type": "langchain", "target": target}, store=None)
    assert report.status != "not_run"
    (trial,) = report.trials()
    return trial


def play(target: str, *said: str):
    return run_with(target, turns=[Turn(user=text) for text in said])


@pytest.mark.parametrize("target", ["agent:chain", "agent:model"])
def test_a_chain_or_a_model_is_told_what_was_said(target: str) -> None:
    trial = play(target, "Hello, my name is Ada.", "What is my name?")

    assert trial.transcript.reply == "You are Ada."
    assert trial.transcript.usage.input_tokens > 0
    assert trial.transcript.tool_calls == ()


def test_a_call_that_a_bare_model_asks_for_is_told_though_nobody_answers() -> None:
    (call,) = play("agent:model", "Where is order A-1?").transcript.tool_calls

    assert (call.name, call.arguments, call.error) == ("lookup_order", {"order_id": "A-1"}, "not answered")


def test_a_chain_that_takes_only_the_latest_text_is_refused_a_second_turn() -> None:
    trial = play("agent:forgetful", "Good morning!", "And again.")

    assert trial.transcript.turns[0].reply == "How can I help?"
    assert trial.error.kind is ErrorKind.CONFIG
    assert "cannot be told what was said before" in trial.error.message


def test_the_form_of_an_answer_is_no_tool_call() -> None:
    trial = play("agent:form", "How much was it?")

    assert trial.error is None
    assert trial.transcript.tool_calls == ()
    assert "12" in trial.transcript.reply


def test_tokens_that_one_of_the_models_does_not_tell_are_not_known() -> None:
    from agent import ShopModel

    class Forgetful(ShopModel):
        def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
            result = super()._generate(messages, *args, **options)
            if len(messages) == 1:
                result.generations[0].message.usage_metadata = None
            return result

    target = create_agent(Forgetful(), [shop.lookup_order])
    trial = run_with(target, input="Where is order A-1?", limits={"tokens": 1000})

    assert trial.transcript.usage is None
    assert "tokens of the trial is not known" in trial.error.message


@pytest.mark.parametrize("mocks", [{}, {"refund": {"when": [{"args": {"amount": 1000}, "returns": "refunded 1000"}]}}])
@pytest.mark.parametrize("rounds", [[(1000,), (5,)], [(1000, 5)]], ids=["one after the other", "at once"])
def test_calls_to_which_the_model_gives_one_id_keep_their_own_arguments(rounds: Any, mocks: Any) -> None:
    from agent import ShopModel

    answers = [
        AIMessage("", tool_calls=[{"name": "refund", "args": {"amount": amount}, "id": "call_1"} for amount in amounts])
        for amounts in rounds
    ]

    class OneId(ShopModel):
        def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
            message = answers.pop(0) if answers else AIMessage("Done.")
            return ChatResult(generations=[ChatGeneration(message=message)])

    @tool
    def refund(amount: int) -> str:
        """Pay money back."""
        return f"refunded {amount}"

    if mocks:
        mocks["refund"]["returns"] = "refunded 5"
    trial = run_with(create_agent(OneId(), [refund]), input="Please.", mocks=mocks)

    calls = [(call.arguments, call.result) for call in trial.transcript.tool_calls]
    assert calls == [({"amount": 1000}, "refunded 1000"), ({"amount": 5}, "refunded 5")]


def test_the_agent_is_recognised_without_its_type() -> None:
    AgentContract(agent="agent:agent").check("in a scenario with mocks, a tool without one never runs")


def test_a_function_may_yield_what_a_model_streams() -> None:
    async def answer(input: str):
        for piece in ("Good ", "morning", "!"):
            yield AIMessageChunk(piece, id="one")

    report = seatrial.run(Scenario(name="x", input="Hi.", expected_output="Good morning!"), agent=answer, store=None)

    assert report.passed, report.failure_reasons

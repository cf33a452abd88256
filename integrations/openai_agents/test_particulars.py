"""What is particular to the OpenAI Agents SDK: approvals, tools that OpenAI runs, errors that the model is not told."""

from typing import Any

import pytest
from agents import Agent, LocalShellTool, Runner, Usage, WebSearchTool, function_tool

import seatrial
from seatrial import Scenario
from seatrial.model.conversation import ErrorKind
from seatrial.testing import shop


def play(tools: list[Any], **scenario: Any) -> Any:
    from agent import ShopModel

    target = Agent(name="Shop", model=ShopModel(), tools=tools)
    asked = Scenario(name="x", **{"input": "Please refund order B-2.", **scenario})
    report = seatrial.run(asked, agent={"type": "openai_agents", "target": target}, store=None)
    assert report.status != "not_run"
    (trial,) = report.trials()
    return trial


def test_the_exception_of_a_tool_is_told_though_the_model_is_not_told_it() -> None:
    trial = play([function_tool(shop.refund_order)])

    (call,) = trial.transcript.tool_calls
    assert call.error == "ShopError: order B-2 was paid in cash"
    assert "paid in cash" not in trial.transcript.reply


def test_an_approval_that_nobody_can_give_is_a_mistake_of_the_set_up() -> None:
    trial = play([function_tool(shop.refund_order, needs_approval=True)])

    assert trial.error.kind is ErrorKind.CONFIG
    assert "approve refund_order" in trial.error.message


def test_a_mock_needs_no_approval() -> None:
    tool = function_tool(shop.refund_order, needs_approval=True)
    trial = play([tool], mocks={"refund_order": {"returns": "paid back"}})

    assert trial.error is None
    assert [call.result for call in trial.transcript.tool_calls] == ["paid back"]
    assert tool.needs_approval is True


def test_a_mock_for_a_tool_that_openai_runs_is_refused() -> None:
    trial = play([WebSearchTool()], input="Good morning!", mocks={"web_search": {"returns": "nothing"}})

    assert trial.error.kind is ErrorKind.CONFIG
    assert "'web_search' is mocked, but it is a WebSearchTool" in trial.error.message


def test_a_tool_that_openai_runs_needs_no_mock() -> None:
    tools = [WebSearchTool(), function_tool(shop.refund_order)]
    trial = play(tools, input="Good morning!", mocks={"refund_order": {"returns": "done"}})

    assert trial.error is None


def test_a_tool_that_runs_here_and_cannot_be_held_back_is_refused_beside_mocks() -> None:
    tools = [LocalShellTool(executor=lambda request: "done"), function_tool(shop.refund_order)]
    trial = play(tools, input="Good morning!", mocks={"refund_order": {"returns": "done"}})

    assert trial.error.kind is ErrorKind.CONFIG
    assert "is a LocalShellTool, which Seatrial can neither mock nor stop" in trial.error.message


def test_an_agent_behind_a_tool_needs_no_mock() -> None:
    from agent import ask_expert

    mocks = {"lookup_order": {"returns": "P-mock"}, "track_parcel": {"returns": "lost"}}
    trial = play([ask_expert], input="Ask the expert.", mocks=mocks)

    assert trial.error is None
    assert [(call.name, call.real) for call in trial.transcript.tool_calls] == [
        ("ask_expert", False),
        ("lookup_order", False),
        ("track_parcel", False),
    ]


def test_tokens_that_the_model_does_not_tell_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.Usage", lambda **_: Usage(requests=1))
    trial = play([], input="Good morning!", limits={"tokens": 100})

    assert trial.transcript.usage is None
    assert "tokens of the trial is not known" in trial.error.message


def test_a_function_may_return_a_streamed_result_that_it_read() -> None:
    from agent import agent

    async def answer(input: str) -> Any:
        result = Runner.run_streamed(agent, input)
        async for _ in result.stream_events():
            pass
        return result

    report = seatrial.run(Scenario(name="x", input="Where is order A-1?"), agent=answer, store=None)
    (trial,) = report.trials()

    assert report.passed, report.failure_reasons
    assert [call.name for call in trial.transcript.tool_calls] == ["lookup_order", "track_parcel"]
    assert "Hamburg" in trial.transcript.reply


def test_a_streamed_result_that_was_not_read_is_refused() -> None:
    from agent import agent

    async def answer(input: str) -> Any:
        result = Runner.run_streamed(agent, input)
        result.cancel()
        result.is_complete = False
        return result

    report = seatrial.run(Scenario(name="x", input="Where is order A-1?"), agent=answer, store=None)
    report.asserted = True
    (trial,) = report.trials()

    assert trial.error.kind is ErrorKind.AGENT
    assert "before its end" in trial.error.message

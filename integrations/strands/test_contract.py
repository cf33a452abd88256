"""Strands holds the contract of agents."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import seatrial
from seatrial import AgentResult, Scenario, Turn
from seatrial.model.conversation import ErrorKind
from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "strands", "target": "agent:agent"},
    waiting={"type": "strands", "target": "agent:guarded"},
    nested="ask_expert",
    parallel=True,
    attachments=True,
    tells_tools=True,
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


def test_interrupts_of_hooks_and_tools_are_answered_in_turns() -> None:
    """The forms of Strands' own page on interrupts: a hook that asks for "A", and a tool that asks by itself."""
    import agent as module
    from strands import Agent, ToolContext, tool
    from strands.hooks import BeforeToolCallEvent

    def ask(event: BeforeToolCallEvent) -> None:
        if event.interrupt("for_cancelling", reason="APPROVAL") != "A":
            event.cancel_tool = "approval was not granted"

    @tool(context=True)
    def cancel_order(order_id: str, tool_context: ToolContext) -> str:
        """Cancel an order."""
        return f"{order_id} cancelled because of {tool_context.interrupt('why')['reason']}"

    asking = Agent(model=module.Scripted(), tools=[module.cancel_order])
    asking.add_hook(ask)
    asks_itself = Agent(model=module.Scripted(), tools=[cancel_order])

    def play(agent: Agent, *resumed: Any) -> Any:
        turns = (Turn(user="Please cancel order H-1."), *(Turn(resume=value) for value in resumed))
        report = seatrial.run(Scenario(name="resume", turns=turns), agent=agent, store=None)
        report.asserted = True
        (trial,) = report.trials()
        return trial

    granted, denied = play(asking, "A"), play(asking, {"cancel_order": "B"})
    itself = play(asks_itself, {"reason": "rain"})

    for trial in (granted, denied, itself):
        assert trial.error is None, trial.error
        assert trial.transcript.turns[0].reply == "(waits for approval: cancel_order)"
        assert trial.transcript.turns[0].tool_calls == ()
        assert len(trial.transcript.turns[1].tool_calls) == 1
    assert granted.transcript.tool_calls[0].result == "order H-1 is cancelled"
    assert denied.transcript.tool_calls[0].error == "approval was not granted"
    assert itself.transcript.tool_calls[0].result == "H-1 cancelled because of rain"


def test_a_nested_agent_may_wait_for_a_person() -> None:
    import agent as module

    clerk = module.Agent(
        name="ask_expert",
        description="Cancels orders.",
        model=module.Cancelling(),
        tools=[module.cancel_order],
        interventions=[module.HumanInTheLoop()],
    )
    outer = module.Agent(model=module.Scripted(), tools=[clerk])
    turns = (Turn(user="Ask the expert."), Turn(approve=("cancel_order",)))
    report = seatrial.run(Scenario(name="nested", turns=turns), agent=outer, store=None)
    report.asserted = True
    (trial,) = report.trials()

    assert trial.error is None, trial.error
    assert [call.name for call in trial.transcript.turns[0].tool_calls] == []
    assert sorted(call.name for call in trial.transcript.turns[1].tool_calls) == ["ask_expert", "cancel_order"]
    assert "order N-5 is cancelled" in trial.transcript.reply


def test_tools_get_values_of_the_settings_and_a_missing_one_is_no_failure() -> None:
    import agent as module
    from strands import Agent, ToolContext, tool

    @tool(context=True)
    def lookup_order(order_id: str, tool_context: ToolContext) -> str:
        """Find the parcel of an order."""
        return f"P-of-{tool_context.invocation_state['user_id']}"

    agent = Agent(model=module.Scripted(), tools=[lookup_order, module.track_parcel])

    def play(**settings: Any) -> Any:
        asked = Scenario(name="x", input="Where is order A-1?")
        given = {"type": "strands", "target": agent, **settings}
        report = seatrial.run(asked, agent=given, store=None)
        report.asserted = True
        (trial,) = report.trials()
        return trial

    for values in ({"user_id": "ada"}, lambda: {"user_id": "ada"}):
        assert "P-of-ada is in Hamburg" in play(invocation_state=values).transcript.reply
    missing = play()
    assert missing.error.kind is ErrorKind.CONFIG
    assert missing.error.hint.startswith('write {type: strands, target: ..., invocation_state: "package.module:')


def test_a_function_may_yield_what_the_agent_streams() -> None:
    import agent as module

    async def answer(input: str) -> AsyncIterator[Any]:
        agent = module.Agent(
            model=module.Scripted(), tools=[module.lookup_order, module.track_parcel], callback_handler=None
        )
        async for event in agent.stream_async(input):
            yield event

    (trial,) = AgentContract(agent=answer).play(Scenario(name="stream", input="Where is order A-1?"))

    assert trial.error is None, trial.error
    assert (
        trial.transcript.reply
        == "Order A-1: [{'text': 'order A-1 is in parcel P-A-1'}]; [{'text': 'parcel P-A-1 is in Hamburg'}]."
    )

"""Microsoft's Agent Framework holds the contract of agents."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

import seatrial
from seatrial import Scenario, Turn
from seatrial.model.conversation import ErrorKind
from seatrial.testing.agent_contract import AgentContract

CONTRACT = AgentContract(
    agent={"type": "agent_framework", "target": "agent:agent"},
    waiting={"type": "agent_framework", "target": "agent:guarded"},
    nested="ask_expert",
    parallel=True,
    attachments=True,
)


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


def play_turns(agent, *turns: Turn, **scenario):
    report = seatrial.run(Scenario(name="turns", turns=turns, **scenario), agent=agent, store=None)
    report.asserted = True
    (trial,) = report.trials()
    assert trial.error is None, trial.error
    return trial.transcript


def test_a_call_beside_one_that_waits_is_recorded_once() -> None:
    import agent as module

    class Both(module.Scripted):
        """Looks an order up and cancels it, at once."""

        def next_steps(self, said):
            results = [each["content"].strip() for each in said if each["role"] == "tool"]
            order = {"order_id": "S-1"}
            calls = [module.shop.Call(name=name, arguments=order) for name in ("lookup_order", "cancel_order")]
            return "; ".join(results) if results else calls

    agent = module.Agent(client=Both(), tools=module.guarded.default_options["tools"])
    first, second = play_turns(agent, Turn(user="Go."), Turn(approve=("cancel_order",))).turns

    assert first.reply == "(waits for approval: cancel_order)"
    assert first.tool_calls == ()
    assert sorted(call.name for call in second.tool_calls) == ["cancel_order", "lookup_order"]
    assert second.reply == "order S-1 is in parcel P-S-1; order S-1 is cancelled"


def test_a_result_from_another_program_is_given_in_a_turn() -> None:
    import agent as module
    from agent_framework import FunctionTool

    schema = {"type": "object", "properties": {"order_id": {"type": "string"}}}
    elsewhere = FunctionTool(name="cancel_order", description="Cancel an order.", input_model=schema)
    agent = module.Agent(client=module.client, tools=[elsewhere])
    said = play_turns(agent, Turn(user="Please cancel order X-1."), Turn(resume={"cancel_order": "done elsewhere"}))

    assert said.turns[0].tool_calls == ()
    (call,) = said.turns[1].tool_calls
    assert (call.name, call.arguments, call.result) == ("cancel_order", {"order_id": "X-1"}, "done elsewhere")
    assert "done elsewhere" in said.reply


def test_tools_get_values_of_the_settings_and_a_missing_one_is_no_failure() -> None:
    import agent as module
    from agent_framework import FunctionInvocationContext, tool

    @tool
    def lookup_order(order_id: str, ctx: FunctionInvocationContext) -> str:
        """Find the parcel of an order."""
        return f"P-of-{ctx.kwargs['user_id']}"

    agent = module.Agent(client=module.client, tools=[lookup_order, module.track_parcel])

    def play(**settings: Any) -> Any:
        asked = Scenario(name="x", input="Where is order A-1?")
        given = {"type": "agent_framework", "target": agent, **settings}
        report = seatrial.run(asked, agent=given, store=None)
        report.asserted = True
        (trial,) = report.trials()
        return trial

    for values in ({"user_id": "ada"}, lambda: {"user_id": "ada"}):
        assert "P-of-ada is in Hamburg" in play(function_invocation_kwargs=values).transcript.reply
    missing = play()
    assert missing.error.kind is ErrorKind.CONFIG
    assert missing.error.hint.startswith(
        'write {type: agent_framework, target: ..., function_invocation_kwargs: "package.module:'
    )


def test_a_function_may_yield_what_the_agent_streams() -> None:
    import agent as module

    async def answer(input: str) -> AsyncIterator[Any]:
        async for update in module.plain.run(input, stream=True):
            yield update

    (trial,) = AgentContract(agent=answer).play(Scenario(name="stream", input="Where is order A-1?"))

    assert trial.error is None, trial.error
    assert trial.transcript.reply == "Order A-1: order A-1 is in parcel P-A-1 ; parcel P-A-1 is in Hamburg ."
    assert [call.name for call in trial.transcript.tool_calls] == ["lookup_order", "track_parcel"]

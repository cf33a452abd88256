"""The Claude Agent SDK, with Claude Code itself and a scripted model, holds what other agents hold.

Its tools have the names that the model sees, such as `mcp__shop__lookup_order`, so the shared contract does not fit.
"""

from base64 import b64decode
from dataclasses import replace
from typing import Any

import seatrial
from seatrial import Attachment, EndState, Scenario, Turn, World
from seatrial.model.conversation import ErrorKind
from seatrial.testing import shop

PIXEL = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
AGENT = {"type": "claude_agent_sdk", "target": "agent:options"}
LOOKUP, TRACK, REFUND = (f"mcp__shop__{name}" for name in ("lookup_order", "track_parcel", "refund_order"))


def play(*scenarios: Scenario, agent: Any = AGENT) -> list[Any]:
    report = seatrial.run(scenarios, agent=agent, store=None, concurrency=3)
    report.asserted = True
    return list(report.trials())


def test_a_reply_is_recorded_without_calls_and_with_tokens_and_cost() -> None:
    (trial,) = play(Scenario(name="a", input="Good morning!"))

    assert trial.error is None
    assert trial.transcript.reply == "How can I help?"
    assert trial.transcript.tool_calls == ()
    assert trial.transcript.usage.output_tokens > 0
    assert trial.transcript.cost_usd is not None


def test_calls_are_recorded_once_with_results_and_times() -> None:
    (trial,) = play(Scenario(name="a", input="Where is order A-1?"))

    assert trial.error is None
    calls = trial.transcript.tool_calls
    assert [(call.name, call.arguments) for call in calls] == [
        (LOOKUP, {"order_id": "A-1"}),
        (TRACK, {"parcel_id": "P-A-1"}),
    ]
    assert calls[1].result == "parcel P-A-1 is in Hamburg"
    assert all(call.started_ms is not None and call.duration_ms is not None for call in calls)
    assert "Hamburg" in trial.transcript.reply


def test_a_tools_error_is_recorded_and_reaches_the_model() -> None:
    (trial,) = play(Scenario(name="a", input="Please refund order B-2."))

    (call,) = trial.transcript.tool_calls
    assert "paid in cash" in call.error
    assert "paid in cash" in trial.transcript.reply


def test_mocks_answer_separately_for_each_trial() -> None:
    orders = ["M-1", "M-2", "M-3"]
    trials = play(
        *(
            Scenario(
                name=order,
                input=f"Where is order {order}?",
                mocks={LOOKUP: {"returns": f"it is in parcel P-{order}-mock"}, TRACK: {"returns": f"at {order}"}},
            )
            for order in orders
        )
    )

    for order, trial in zip(orders, trials, strict=True):
        assert trial.error is None, trial.error
        assert f"P-{order}-mock" in trial.transcript.reply
        assert f"at {order}" in trial.transcript.reply
        assert [call.real for call in trial.transcript.tool_calls] == [False, False]


def test_the_error_of_a_mock_reaches_the_model() -> None:
    (trial,) = play(Scenario(name="a", input="Please refund order B-2.", mocks={REFUND: {"raises": "till locked"}}))

    assert trial.transcript.tool_calls[0].error == "till locked"
    assert "till locked" in trial.transcript.reply


def test_a_world_answers_and_its_end_state_is_judged() -> None:
    def refund(state: dict[str, Any], order_id: str) -> str:
        state["refunds"].append(order_id)
        return "paid by the world"

    refund.__name__ = REFUND
    world = World(seed={"refunds": []}, tools=[refund])
    ended = EndState(contains={"refunds": ["B-2"]})
    (trial,) = play(Scenario(name="a", input="Please refund order B-2.", world=world, end_state=ended))

    assert trial.status == "passed", (trial.error, trial.failure_reasons)
    assert "paid by the world" in trial.transcript.reply


def test_a_tool_without_a_mock_never_runs() -> None:
    mocks = {LOOKUP: {"returns": "it is in parcel P-unmocked"}}
    (trial,) = play(Scenario(name="a", input="Where is order U-1?", mocks=mocks))

    assert "P-unmocked" not in shop.TRACKED
    assert trial.error.kind is ErrorKind.TOOL
    assert trial.error.message == f"Tool {TRACK!r} was called but no mock is defined"


def test_a_tool_of_claude_code_is_recorded() -> None:
    (trial,) = play(Scenario(name="a", input="Run it."))

    (call,) = trial.transcript.tool_calls
    assert (call.name, call.arguments, call.real) == ("Bash", {"command": "echo ran"}, True)
    assert "ran" in str(call.result)


def test_a_tool_of_claude_code_without_a_mock_never_runs() -> None:
    (trial,) = play(Scenario(name="a", input="Run it.", unmocked_tools="error"))

    assert trial.error.kind is ErrorKind.TOOL
    assert trial.error.message == "Tool 'Bash' was called but no mock is defined"


def test_a_mock_of_a_tool_that_claude_code_runs_is_refused() -> None:
    (trial,) = play(Scenario(name="a", input="Run it.", mocks={"Bash": {"returns": "done"}}))

    assert trial.error.kind is ErrorKind.CONFIG
    assert "runs the tool 'Bash' by itself" in trial.error.message


def test_turns_share_a_session_and_have_their_own_calls_tokens_and_cost() -> None:
    ask = (Turn(user="My name is Ada. Where is order A-1?"), Turn(user="What is my name?"))
    (trial,) = play(Scenario(name="a", turns=ask))

    assert trial.error is None
    first, second = trial.transcript.turns
    assert [len(turn.tool_calls) for turn in (first, second)] == [2, 0]
    assert second.reply == "You are Ada."
    assert first.usage.output_tokens == 15
    assert second.usage.output_tokens == 5
    assert second.cost_usd < first.cost_usd


def test_an_agent_that_exceeds_its_timeout_is_errored() -> None:
    (trial,) = play(Scenario(name="a", input="Call the courier.", timeout_seconds=2))

    assert trial.error.kind is ErrorKind.LIMIT


def test_a_history_is_refused() -> None:
    before = ({"role": "user", "content": "My name is Grace."},)
    (trial,) = play(Scenario(name="a", history=before, input="What is my name?"))

    assert trial.error.kind is ErrorKind.CONFIG


def test_the_options_are_recognised_without_their_type() -> None:
    (trial,) = play(Scenario(name="a", input="Good morning!", system="Be brief."), agent="agent:options")

    assert trial.transcript.reply == "How can I help?"


def test_a_function_may_return_the_messages_of_the_sdk() -> None:
    import agent as module
    from claude_agent_sdk import query

    async def answer(input: str) -> list[Any]:
        return [message async for message in query(prompt=input, options=module.options)]

    (trial,) = play(Scenario(name="a", input="Where is order A-1?"), agent=answer)

    assert trial.error is None
    looked_up, _ = trial.transcript.tool_calls
    assert (looked_up.name, looked_up.result) == (LOOKUP, "order A-1 is in parcel P-A-1")
    assert trial.transcript.usage.output_tokens == 15


GUARDED = {"type": "claude_agent_sdk", "target": "agent:guarded"}
CANCEL = "mcp__shop__cancel_order"


def test_calls_at_once_are_all_recorded_and_mocks_answer_each() -> None:
    mocks = {LOOKUP: {"when": [{"args": {"order_id": "B-2"}, "returns": "two"}], "returns": "one"}}
    real, mocked = play(
        Scenario(name="a", input="Look up both orders."), Scenario(name="b", input="Look up both orders.", mocks=mocks)
    )

    asked = [(LOOKUP, {"order_id": "A-1"}), (LOOKUP, {"order_id": "B-2"})]
    for trial in (real, mocked):
        assert trial.error is None, trial.error
        assert [(call.name, call.arguments) for call in trial.transcript.tool_calls] == asked
    assert [call.result for call in mocked.transcript.tool_calls] == ["one", "two"]
    assert "P-A-1" in real.transcript.reply
    assert "P-B-2" in real.transcript.reply


def test_an_error_of_the_model_is_the_agents() -> None:
    env = {"CLAUDE_CODE_MAX_RETRIES": "0", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    broken = {"type": "claude_agent_sdk", "target": replaced(env=env)}
    (trial,) = play(Scenario(name="a", input="Good morning!", timeout_seconds=60), agent=broken)

    assert trial.error.kind is ErrorKind.AGENT, trial.error


def replaced(*, env: dict[str, str], **changes: Any) -> Any:
    import agent as module

    return replace(module.options, env={**module.options.env, **env}, **changes)


def cancelling(order: str, decision: Turn, **more: Any) -> Scenario:
    return Scenario(name=order, turns=(Turn(user=f"Please cancel order {order}."), decision), **more)


def test_a_call_waits_until_a_turn_approves_it() -> None:
    approve = Turn(approve=(CANCEL,))
    mocks = {CANCEL: {"returns": "cancelled by the mock"}}
    real, mocked = play(cancelling("A-1", approve), cancelling("M-1", approve, mocks=mocks), agent=GUARDED)

    for trial, result in ((real, "order A-1 is cancelled"), (mocked, "cancelled by the mock")):
        assert trial.error is None, trial.error
        asked, answered = trial.transcript.turns
        assert (asked.reply, asked.tool_calls) == (f"(waits for approval: {CANCEL})", ())
        assert [call.result for call in answered.tool_calls] == [result]
        assert result in answered.reply
        assert answered.usage.output_tokens == 10
    assert "M-1" not in shop.CANCELLED


def test_a_rejected_call_does_not_run_and_is_recorded_once() -> None:
    (trial,) = play(cancelling("R-1", Turn(reject=(CANCEL,))), agent=GUARDED)

    assert trial.error is None, trial.error
    assert "R-1" not in shop.CANCELLED
    (call,) = trial.transcript.tool_calls
    assert (call.name, call.arguments, call.real) == (CANCEL, {"order_id": "R-1"}, False)
    assert call.error == "rejected by the user"
    assert "rejected by the user" in trial.transcript.reply


def test_calls_before_one_that_waits_belong_to_their_turn() -> None:
    turns = (Turn(user="Run it, then cancel order T-1."), Turn(approve=(CANCEL,)))
    (trial,) = play(Scenario(name="a", turns=turns), agent=GUARDED)

    assert trial.error is None, trial.error
    seen = [[call.name for call in turn.tool_calls] for turn in trial.transcript.turns]
    assert seen == [["Bash"], [CANCEL]]


def test_a_decision_about_a_tool_that_does_not_wait_is_errored() -> None:
    both = Turn(approve=(CANCEL, "Bash"))
    wrong, misspelt, idle = play(
        cancelling("W-1", both),
        cancelling("W-2", Turn(approve=("cancel_order",))),
        Scenario(name="idle", turns=(Turn(user="Good morning!"), Turn(approve=(CANCEL,)))),
        agent=GUARDED,
    )

    assert wrong.error.kind is ErrorKind.AGENT
    assert "a person decides about 'Bash'" in wrong.error.message
    assert misspelt.error.message == f"a person decides about 'cancel_order', but the agent waits for {CANCEL}"
    assert "waits for nothing" in idle.error.message


def test_a_call_that_claude_code_denies_counts_as_not_run() -> None:
    (trial,) = play(Scenario(name="a", input="Please cancel order D-1."), agent=GUARDED)

    (call,) = trial.transcript.tool_calls
    assert "requested permissions" in call.error
    assert not call.real


def test_a_mocked_tool_needs_no_approval_in_a_scenario_without_decisions() -> None:
    mocks = {CANCEL: {"returns": "cancelled by the mock"}}
    (trial,) = play(Scenario(name="a", input="Please cancel order N-1.", mocks=mocks), agent=GUARDED)

    assert trial.error is None, trial.error
    assert "cancelled by the mock" in trial.transcript.reply


def test_a_reply_that_is_streamed_in_part_messages_is_whole() -> None:
    partly = {"type": "claude_agent_sdk", "target": replaced(env={}, include_partial_messages=True)}
    (trial,) = play(Scenario(name="a", input="Where is order A-1?"), agent=partly)

    assert trial.error is None
    assert [call.name for call in trial.transcript.tool_calls] == [LOOKUP, TRACK]
    assert "Hamburg" in trial.transcript.reply


def test_images_and_files_reach_the_model() -> None:
    files = (Attachment.of(PIXEL, name="hat.png"), Attachment.of(PDF, name="receipt.pdf"))
    (trial,) = play(Scenario(name="a", input="What is attached?", attach=files))

    assert trial.error is None, trial.error
    shown = f"[image/png, {len(PIXEL)} bytes] and [application/pdf, {len(PDF)} bytes]"
    assert trial.transcript.reply == f"I see {shown}."


def test_the_calls_of_subagents_are_recorded_and_mocked() -> None:
    nested = {"type": "claude_agent_sdk", "target": "agent:nested"}
    mocks = {LOOKUP: {"returns": "it is in parcel P-mock"}}
    real, mocked, behind = play(
        Scenario(name="a", input="Ask the expert."),
        Scenario(name="b", input="Ask the expert.", mocks=mocks, unmocked_tools="passthrough"),
        Scenario(name="c", turns=(Turn(user="Ask the expert in the background."), Turn(user="Good morning!"))),
        agent=nested,
    )

    for trial in (real, mocked, behind):
        assert trial.error is None, trial.error
        assert sorted(call.name for call in trial.transcript.turns[0].tool_calls) == ["Agent", LOOKUP, TRACK]
    assert "P-E-5 is in Hamburg" in real.transcript.reply
    assert "P-mock is in Hamburg" in mocked.transcript.reply
    assert behind.transcript.reply == "How can I help?"

"""Turns in which a person decides, and guardrails that stop the agent."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import AgentReply, Expect, Scenario, ToolCall, Turn
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Trial


class Clerk:
    """Waits for a person before it cancels an order; its guardrail stops insults."""

    name = "clerk"
    answers_own_tools = True
    keeps_conversation = True
    takes_decisions = True

    def open(self, start: Any) -> "Clerk":
        return self

    async def respond(self, messages: Sequence[Any], *, timeout: float) -> AgentReply:
        decision = messages[-1].get("decision")
        if decision is not None:
            call = ToolCall("cancel_order", {}, error="rejected" if decision["reject"] else None)
            return AgentReply(reply=f"Decided: {decision}", tool_calls=(call,))
        if "cancel" in messages[-1]["content"]:
            return AgentReply(reply="May I?", tool_calls=(), awaits=("cancel_order",))
        if "idiot" in messages[-1]["content"]:
            return AgentReply(reply="(stopped)", tool_calls=(), guardrail="insults")
        return AgentReply(reply='{"risk": 2, "advice": "none"}', tool_calls=())

    async def close(self) -> None: ...


def play(*turns: Turn, agent: Any = None, **scenario: Any) -> Trial:
    asked = Scenario(name="x", turns=turns, **scenario)
    (trial,) = seatrial.run(asked, agent=agent or Clerk(), store=None).trials()
    return trial


ASK = Turn(user="Please cancel it.")


@pytest.mark.parametrize(
    ("turn", "decision", "shown"),
    [
        (Turn(approve=["cancel_order"]), ["cancel_order"], "(approve: cancel_order)"),
        (Turn(reject=["cancel_order"]), ["cancel_order"], "(reject: cancel_order)"),
        (Turn(resume={"yes": True}), {"yes": True}, '(resume: {"yes": true})'),
    ],
)
def test_a_decision_reaches_the_agent_and_is_part_of_the_transcript(turn: Turn, decision: Any, shown: str) -> None:
    trial = play(ASK, turn)

    assert trial.error is None
    assert trial.transcript.turns[1].user == shown
    assert str(decision) in trial.transcript.reply
    assert [call.error for call in trial.transcript.tool_calls] == ["rejected" if turn.reject else None]


@pytest.mark.parametrize("turns", [[ASK], [ASK, Turn(user="Yes.")]])
def test_a_call_that_nobody_decides_about_is_errored(turns: list[Turn]) -> None:
    trial = play(*turns)

    assert trial.error.kind is ErrorKind.CONFIG
    assert trial.error.message == "the agent waits for a person to approve cancel_order"
    assert "{approve: [cancel_order]}" in trial.error.hint


def test_an_agent_that_cannot_wait_is_refused_before_the_first_trial() -> None:
    with pytest.raises(UsageError, match="cannot wait for a person; agents of these types can: langchain, langgraph"):
        play(ASK, Turn(approve=["cancel_order"]), agent=lambda messages: "Done.")


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ("{expect: {reply_contains_any: [x]}}", "'user' is missing: what the user says"),
        ("{user: Yes., approve: [a]}", "has more than one of user, approve or reject, and resume"),
        ("{approve: [a], resume: 1}", "has more than one of user, approve or reject, and resume"),
        ("{approve: [a], attach: [suite.yaml]}", "attach: belongs to a message: this turn has no 'user'"),
        ("{approve: [a], reject: [a]}", "both approves and rejects 'a'"),
    ],
)
def test_a_turn_must_be_a_message_or_one_decision(turn: str, problem: str, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(f"suite: {{agent: 'x:y'}}\nscenarios:\n  - name: a\n    turns: [{turn}]\n")
    with pytest.raises(UsageError) as caught:
        seatrial.run(suite, store=None)
    assert problem in str(caught.value)


def test_an_expected_guardrail_passes() -> None:
    trial = play(Turn(user="You idiot.", expect=Expect(guardrail="insults")), Turn(user="Sorry."))

    assert trial.status == "passed"
    assert [turn.guardrail for turn in trial.transcript.turns] == ["insults", None]


def test_a_guardrail_may_be_expected_of_the_whole_trial() -> None:
    assert play(Turn(user="You idiot."), expect=Expect(guardrail="insults")).status == "passed"


@pytest.mark.parametrize(
    ("said", "expected", "reason"),
    [
        ("Good morning!", "insults", "Guardrail 'insults' must stop the agent, but no guardrail did"),
        ("You idiot.", "spam", "Guardrail 'spam' must stop the agent, but 'insults' did"),
    ],
)
def test_another_guardrail_or_none_fails(said: str, expected: str, reason: str) -> None:
    trial = play(Turn(user=said, expect=Expect(guardrail=expected)))

    assert trial.status == "failed"
    assert reason in str(trial.failure_reasons)


def test_a_guardrail_that_nobody_expects_is_an_error_of_the_agent() -> None:
    trial = play(Turn(user="You idiot."))

    assert trial.error.kind is ErrorKind.AGENT
    assert "the guardrail 'insults' stopped the agent" in trial.error.message


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        ({"risk": {"$lte": 3}}, None),
        ({"risk": 2, "advice": {"$regex": "no"}}, None),
        ({"risk": {"$lte": 1}}, "risk: expected {'$lte': 1}, got 2"),
        ({"level": 1}, "level: expected 1, got nothing"),
    ],
)
def test_fields_of_a_json_reply_are_compared(expected: Any, reason: str | None) -> None:
    trial = play(Turn(user="Good morning!", expect=Expect(reply_json=expected)))

    assert trial.status == ("passed" if reason is None else "failed")
    assert reason is None or reason in str(trial.failure_reasons)


def test_a_reply_that_is_no_json_object_fails() -> None:
    trial = play(Turn(user="Hello.", expect=Expect(reply_json={"a": 1})), agent=lambda messages: "[1]")
    other = play(Turn(user="Hello.", expect=Expect(reply_json={"a": 1})), agent=lambda messages: "Hello.")

    assert "no object" in str(trial.failure_reasons)
    assert "Reply is not JSON" in str(other.failure_reasons)

"""Each operator: its mutants are what they say, a suite made for it catches all of them, and a blind one none."""

from typing import Any

import pytest

import seatrial
from seatrial import AgentResult, Expect, Invariant, Scenario, Suite, ToolArgs, ToolCall, Trajectory, Turn
from seatrial.model.conversation import PlayedTurn, StopReason, Transcript
from seatrial.model.mutation import MutationResult
from seatrial.mutants.mutant import Mutant, collect_facts
from seatrial.mutants.operators import OPERATORS

GET = ToolCall("get_order", {"order_id": "W1"}, {"total": 30, "email": "ann@shop.example"})
VERIFY = ToolCall("verify_user", {"name": "Ann"}, "ok")
REFUND = ToolCall("refund_order", {"order_id": "W1", "amount": 20}, {"reference": "R-77"})
FIRST, LAST = "Your order W1 is open. Shall I refund 20?", "It is refunded. The reference is R-77."
OTHER = "We are open until 18:00."


def agent(messages: list[dict[str, Any]]) -> AgentResult:
    asked = messages[-1]["content"]
    if asked == "When do you close?":
        return AgentResult(OTHER, tool_calls=[])
    if asked == "Yes.":
        return AgentResult(LAST, tool_calls=[REFUND])
    return AgentResult(FIRST, tool_calls=[VERIFY, GET])


TURNS = ("Refund W1, I am Ann.", "Yes.")


def user(conversation: list[tuple[str, str]]) -> str | None:
    return TURNS[len(conversation)] if len(conversation) < len(TURNS) else None


def transcript() -> Transcript:
    turns = (
        PlayedTurn(index=0, user=TURNS[0], reply=FIRST, tool_calls=(VERIFY, GET)),
        PlayedTurn(index=1, user=TURNS[1], reply=LAST, tool_calls=(REFUND,)),
    )
    return Transcript(turns=turns, stop_reason=StopReason.SCRIPT_ENDED)


def mutants_of(operator: str, **facts: Any) -> list[Mutant]:
    from msgspec.structs import replace

    known = collect_facts([("refunds", transcript()), ("closes", _closes())], ["delete_order"])
    changed = replace(known, scenario="refunds", **facts)
    return list(OPERATORS[operator].mutants(transcript(), changed))


def _closes() -> Transcript:
    call = ToolCall("get_order", {"order_id": "W2"}, {})
    turn = PlayedTurn(index=0, user="When do you close?", reply=OTHER, tool_calls=(call,))
    return Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED)


def names(mutant: Mutant) -> list[list[str]]:
    return [[call.name for call in turn.tool_calls or ()] for turn in mutant.transcript.turns]


BOTH = [["verify_user", "get_order"], ["refund_order"]]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("drop", [[["get_order"], ["refund_order"]], [["verify_user"], ["refund_order"]], [BOTH[0], []]]),
        ("duplicate", [[BOTH[0], ["refund_order", "refund_order"]]]),
        ("reorder", []),
        (
            "wrong tool",
            [
                [["get_order", "get_order"], BOTH[1]],
                [["verify_user", "refund_order"], BOTH[1]],
                [BOTH[0], ["get_order"]],
            ],
        ),
        ("act early", [[["verify_user", "get_order", "refund_order"], []]]),
        ("skip the check", [[[], ["refund_order"]]]),
        ("destructive extra", [[BOTH[0], ["refund_order", "delete_order"]]]),
    ],
)
def test_an_operator_changes_the_calls_as_it_says(operator: str, expected: list[Any]) -> None:
    found = mutants_of(operator)

    assert [names(mutant) for mutant in found] == expected
    assert all(mutant.operator == operator and mutant.what for mutant in found)
    assert [mutant.transcript.reply for mutant in found] == [LAST] * len(found)


def test_two_calls_change_places_if_one_of_them_changes_something() -> None:
    turn = PlayedTurn(index=0, user="hi", reply="Done.", tool_calls=(VERIFY, REFUND, GET))
    known = collect_facts([], [])

    [first, second] = OPERATORS["reorder"].mutants(
        Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED), known
    )

    assert names(first) == [["refund_order", "verify_user", "get_order"]]
    assert names(second) == [["verify_user", "get_order", "refund_order"]]
    assert first.what == ("made refund_order({'order_id': 'W1', 'amount': 20}) before verify_user in turn 1")


def test_arguments_are_another_value_off_missing_or_of_another_type() -> None:
    found = [mutant.transcript.turns[1].tool_calls[0].args for mutant in mutants_of("argument") if mutant.turn == 1]  # type: ignore[index]

    assert found == [
        {"order_id": "W2", "amount": 20},
        {"amount": 20},
        {"order_id": ["W1"], "amount": 20},
        {"order_id": "W1", "amount": 21},
        {"order_id": "W1", "amount": 30},
        {"order_id": "W1"},
        {"order_id": "W1", "amount": "20"},
    ]


def test_a_failed_call_keeps_its_reply() -> None:
    found = mutants_of("ignore the error")

    assert [call.name for mutant in found for call in mutant.transcript.seen_calls if call.error] == [
        "verify_user", "get_order", "refund_order",
    ]  # fmt: skip
    assert all(mutant.transcript.reply == LAST for mutant in found)


@pytest.mark.parametrize(
    ("operator", "replies"),
    [
        ("empty reply", [("", LAST), (FIRST, "")]),
        ("cut reply", [(FIRST[: len(FIRST) // 2], LAST), (FIRST, LAST[: len(LAST) // 2])]),
        ("foreign reply", [(OTHER, LAST), (FIRST, OTHER)]),
        (
            "negated reply",
            [("Your order W1 is not open. Shall I refund 20?", LAST), (FIRST, LAST.replace("is", "is not", 1))],
        ),
        ("leaked value", [(FIRST, f"{LAST} By the way, the email is ann@shop.example.")]),
    ],
)
def test_an_operator_changes_the_replies_as_it_says(operator: str, replies: list[tuple[str, str]]) -> None:
    found = mutants_of(operator)

    assert [tuple(turn.reply for turn in mutant.transcript.turns) for mutant in found] == replies
    assert all(names(mutant) == BOTH for mutant in found)


def test_a_promise_is_added_to_the_last_reply() -> None:
    found = mutants_of("invented promise")

    assert len(found) == 3
    assert all(mutant.transcript.reply == f"{LAST} {mutant.added}" for mutant in found)


def test_only_a_user_without_a_script_is_left_early() -> None:
    assert mutants_of("stop early") == []
    [mutant] = mutants_of("stop early", scripted=False)
    assert len(mutant.transcript.turns) == 1


def mutate(
    operator: str, *, invariants: list[Invariant] | None = None, programmed: bool = False, **checks: Any
) -> MutationResult:
    """The result for a suite with these checks."""
    silent = {"reply": "optional"} if operator == "empty reply" and not checks.pop("replies", False) else {}
    side: dict[str, Any] = {"user": user} if programmed else {"turns": [Turn(user=each, **silent) for each in TURNS]}  # type: ignore[arg-type]
    checks.setdefault("limits", seatrial.Limits(turns=5))
    refunds = Scenario(name="refunds", **side, **checks)
    closes = Scenario(name="closes", input="When do you close?", expected_output="18:00")
    suite = Suite(name="shop", scenarios=[refunds, closes], invariants=invariants or ())
    report = seatrial.run(suite, agent=agent, store=None)
    assert report.passed, report.failure_reasons
    return seatrial.mutate(report, suite, operators=[operator])


SUITES: dict[str, dict[str, Any]] = {
    "drop": {"expect": Expect(tool_calls_include=["verify_user", "get_order", "refund_order"])},
    "duplicate": {"invariants": [Invariant(at_most=1, of="refund_order")]},
    "argument": {
        "expect": Expect(
            tool_calls_args=[
                ToolArgs("verify_user", {"name": "Ann"}),
                ToolArgs("get_order", {"order_id": "W1"}),
                ToolArgs("refund_order", {"order_id": "W1", "amount": 20}),
            ]
        )
    },
    "wrong tool": {"expect": Expect(tool_calls_include=["verify_user", "get_order", "refund_order"])},
    "act early": {"invariants": [Invariant(never="refund_order", before={"user": {"$regex": "(?i)yes"}})]},
    "skip the check": {"invariants": [Invariant(never="refund_order", before="verify_user")]},
    "ignore the error": {
        "invariants": [Invariant(after={"call": "*", "ok": False}, always={"says": {"$contains": "sorry"}})]
    },
    "destructive extra": {"trajectory": Trajectory(["verify_user", "get_order", "refund_order"], mode="within")},
    "empty reply": {"replies": True},
    "cut reply": {"expect": Expect(said_contains_all=["Shall I", "R-77"])},
    "foreign reply": {"expect": Expect(said_contains_all=["W1", "R-77"])},
    "invented promise": {"invariants": [Invariant(never={"says": {"$regex": "guarantee|voucher|promise"}})]},
    "leaked value": {"expect": Expect(said_excludes=["ann@shop.example"])},
    "negated reply": {"expect": Expect(said_excludes=["is not"])},
    "stop early": {"expect": Expect(tool_calls_include=["refund_order"]), "programmed": True},
}


@pytest.mark.parametrize("operator", SUITES)
def test_a_suite_made_for_an_operator_catches_all_of_it(operator: str) -> None:
    result = mutate(operator, **SUITES[operator])

    mine = next(row for row in result.scenarios if row.name == "refunds")
    assert mine.caught == mine.counted > 0


@pytest.mark.parametrize("operator", SUITES)
def test_a_suite_blind_to_an_operator_catches_none_of_it(operator: str) -> None:
    result = mutate(operator, programmed=operator == "stop early")

    mine = next(row for row in result.scenarios if row.name == "refunds")
    assert mine.counted > 0
    assert mine.caught == 0


def test_a_suite_notices_that_calls_changed_places() -> None:
    def quick(messages: Any) -> AgentResult:
        return AgentResult(LAST, tool_calls=[VERIFY, REFUND])

    scenario = Scenario(name="refunds", input="Refund W1.")
    rule = Invariant(never="refund_order", before="verify_user")
    for rules, caught in (((rule,), 1), ((), 0)):
        suite = Suite(name="shop", scenarios=[scenario], invariants=rules)
        report = seatrial.run(suite, agent=quick, store=None)
        result = seatrial.mutate(report, suite, operators=["reorder"])
        assert (result.total.caught, result.total.counted) == (caught, 1)

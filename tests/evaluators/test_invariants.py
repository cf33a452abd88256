"""Invariants: each form with trials that hold it, violate it, do not trigger it, or have no evidence."""

import asyncio
from typing import Any

import pytest

from seatrial import Invariant, UsageError
from seatrial.model.conversation import ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.protocols import TrialContext
from seatrial.model.results import EvalResult

Turn = tuple[str, list[ToolCall] | None, str]


def a_trial(*turns: Turn, complete: bool = True, reachable: tuple[str, ...] = (), **fields: Any) -> TrialContext:
    played = tuple(
        PlayedTurn(
            index=index,
            user=user,
            reply=reply,
            tool_calls=None if calls is None else tuple(calls),
            calls_complete=complete,
        )
        for index, (user, calls, reply) in enumerate(turns)
    )
    ended = StopReason.SCRIPT_ENDED
    return TrialContext(transcript=Transcript(turns=played, stop_reason=ended, reachable_tools=reachable, **fields))


def check(rule: Invariant, ctx: TrialContext) -> EvalResult:
    return asyncio.run(rule.evaluate(ctx))


def verdict(rule: Invariant, ctx: TrialContext) -> str:
    result = check(rule, ctx)
    if result.error is not None:
        assert result.error.kind is ErrorKind.CONFIG
        assert result.error.hint
        return "no evidence"
    assert result.invariant is not None
    if not result.passed:
        assert result.invariant.violations > 0
        return "violated"
    return "holds" if result.invariant.triggered != 0 else "not triggered"


def refund(order: str = "W1", amount: Any = 20, *, error: str | None = None) -> ToolCall:
    return ToolCall("refund", {"order_id": order, "amount": amount}, None if error else "done", error)


def verify(*, error: str | None = None, order: str = "W1") -> ToolCall:
    return ToolCall("verify_identity", {"order_id": order}, None if error else "ok", error)


def lookup(order: str = "W1", total: Any = 30, **more: Any) -> ToolCall:
    return ToolCall("lookup_order", {"order_id": order}, {"total": total, **more})


HELLO: Turn = ("hi", [], "Hello.")
NOT_RECORDED: Turn = ("hi", None, "Hello.")

IDENTITY = Invariant(never=["refund", "change_address"], before="verify_identity")
ONCE = Invariant(at_most=1, of="refund", per=["order_id"])
WITHIN_TOTAL = Invariant(
    every="refund", where={"amount": {"$lte": {"$from": "lookup_order.total"}}}, match=["order_id"]
)
CONFIRMED = Invariant(never="refund", before={"user": {"$regex": r"(?i)\byes\b"}})
TOLD = Invariant(after="refund", always={"says": {"$contains": "refund"}})
NO_PROMISE = Invariant(never={"says": {"$regex": "(?i)guarantee"}})
NO_DELETING = Invariant(never="delete_*")


@pytest.mark.parametrize(
    ("rule", "turns", "expected"),
    [
        # never: P
        (NO_DELETING, [HELLO], "holds"),
        (NO_DELETING, [("hi", [ToolCall("delete_account", {})], "Done.")], "violated"),
        (NO_DELETING, [NOT_RECORDED], "no evidence"),
        (NO_PROMISE, [HELLO], "holds"),
        (NO_PROMISE, [("hi", [], "I GUARANTEE it.")], "violated"),
        (NO_PROMISE, [NOT_RECORDED], "holds"),
        # never: P, before: Q
        (IDENTITY, [("hi", [verify(), refund()], "Done.")], "holds"),
        (IDENTITY, [("hi", [verify()], "Verified."), ("now", [refund()], "Done.")], "holds"),
        (IDENTITY, [("hi", [refund(), verify()], "Done.")], "violated"),
        (IDENTITY, [("hi", [refund()], "Done.")], "violated"),
        (IDENTITY, [("hi", [verify(error="wrong"), refund()], "Done.")], "violated"),
        (IDENTITY, [("hi", [refund(error="refused")], "Sorry.")], "violated"),
        (IDENTITY, [HELLO], "not triggered"),
        (IDENTITY, [NOT_RECORDED], "no evidence"),
        (CONFIRMED, [("refund it", [], "Sure?"), ("yes please", [refund()], "Done.")], "holds"),
        (CONFIRMED, [("refund it", [refund()], "Done."), ("yes", [], "Good.")], "violated"),
        (CONFIRMED, [HELLO], "not triggered"),
        (CONFIRMED, [NOT_RECORDED], "no evidence"),
        # after: P, always: Q
        (TOLD, [("hi", [refund()], "Your refund is on its way.")], "holds"),
        (TOLD, [("hi", [refund()], "Done."), ("and?", [], "Your refund is on its way.")], "holds"),
        (TOLD, [("hi", [], "A refund is possible."), ("do", [refund()], "Done.")], "violated"),
        (TOLD, [HELLO], "not triggered"),
        (TOLD, [NOT_RECORDED], "no evidence"),
        # at_most: n, of: P, per: args
        (ONCE, [("hi", [refund("W1"), refund("W2")], "Done.")], "holds"),
        (ONCE, [("hi", [refund("W1"), refund("W1", 5)], "Done.")], "violated"),
        (ONCE, [("hi", [refund(error="busy"), refund()], "Done.")], "holds"),
        (ONCE, [HELLO], "not triggered"),
        (ONCE, [NOT_RECORDED], "no evidence"),
        (ONCE, [("hi", [ToolCall("refund"), ToolCall("refund")], "Done.")], "no evidence"),
        # every: P, where: args
        (WITHIN_TOTAL, [("hi", [lookup(), refund()], "Done.")], "holds"),
        (WITHIN_TOTAL, [("hi", [lookup(), refund(amount=31)], "Done.")], "violated"),
        (WITHIN_TOTAL, [("hi", [lookup(), refund(amount="20")], "Done.")], "violated"),
        (WITHIN_TOTAL, [("hi", [lookup("W2"), refund("W1")], "Done.")], "violated"),
        (WITHIN_TOTAL, [("hi", [refund(), lookup()], "Done.")], "violated"),
        (WITHIN_TOTAL, [("hi", [lookup(total=None), refund()], "Done.")], "violated"),
        (WITHIN_TOTAL, [("hi", [lookup(), ToolCall("refund", {"order_id": "W1"})], "Done.")], "violated"),
        (WITHIN_TOTAL, [("hi", [lookup(), ToolCall("refund", "W1, 20")], "Done.")], "violated"),
        (WITHIN_TOTAL, [HELLO], "not triggered"),
        (WITHIN_TOTAL, [NOT_RECORDED], "no evidence"),
        (WITHIN_TOTAL, [("hi", [lookup(), ToolCall("refund")], "Done.")], "no evidence"),
    ],
)
def test_a_form_of_rule_decides(rule: Invariant, turns: list[Turn], expected: str) -> None:
    assert verdict(rule, a_trial(*turns)) == expected


FORMS = [IDENTITY, ONCE, WITHIN_TOTAL, CONFIRMED, TOLD, NO_DELETING]


@pytest.mark.parametrize("rule", FORMS, ids=lambda rule: rule.title)
def test_a_rule_about_calls_needs_all_calls(rule: Invariant) -> None:
    some_are_seen = ("hi", [ToolCall("verify_identity", {})], "Hello.")

    assert verdict(rule, a_trial(some_are_seen, complete=False)) == "no evidence"
    assert verdict(rule, a_trial(some_are_seen)) != "no evidence"


def test_a_violation_that_was_seen_counts_although_other_calls_may_be_missing() -> None:
    trial = a_trial(("hi", [ToolCall("delete_account", {}), refund(), refund()], "Done."), complete=False)

    assert verdict(NO_DELETING, trial) == "violated"
    assert verdict(ONCE, trial) == "violated"


def test_a_missing_first_call_is_a_violation_only_if_it_would_have_been_seen() -> None:
    turn = ("hi", [refund()], "Done.")

    assert verdict(IDENTITY, a_trial(turn, complete=False)) == "no evidence"
    assert verdict(IDENTITY, a_trial(turn, complete=False, reachable=("verify_identity",))) == "violated"


def test_a_text_that_needs_a_call_before_it() -> None:
    rule = Invariant(never={"says": {"$contains": "refunded"}}, before="refund")

    assert verdict(rule, a_trial(("hi", [refund()], "I refunded it."))) == "holds"
    assert verdict(rule, a_trial(("hi", [], "I refunded it."))) == "violated"
    assert verdict(rule, a_trial(("hi", [], "I refunded it."), complete=False)) == "no evidence"
    assert verdict(rule, a_trial(("hi", [verify()], "Not yet."), complete=False)) == "not triggered"


@pytest.mark.parametrize(
    ("rule", "turns", "expected"),
    [
        (
            Invariant(never="refund", before="verify_identity", match=["order_id"]),
            [("hi", [verify(order="W2"), refund()], "Done.")],
            "violated",
        ),
        (
            Invariant(never="refund", before="verify_identity", match=["order_id"]),
            [("hi", [verify(order="W1"), refund()], "Done.")],
            "holds",
        ),
        (
            Invariant(never="refund", before="verify_identity", match=["order_id"]),
            [("hi", [ToolCall("verify_identity"), refund()], "Done.")],
            "no evidence",
        ),
        (
            Invariant(never="refund", before="verify_identity", within_turns=0),
            [("hi", [verify()], "Verified."), ("now", [refund()], "Done.")],
            "violated",
        ),
        (
            Invariant(never="refund", before="verify_identity", within_turns=1),
            [("hi", [verify()], "Verified."), ("now", [refund()], "Done.")],
            "holds",
        ),
        (
            Invariant(after="refund", always="send_mail", within_turns=0),
            [("hi", [refund()], "Done."), ("mail", [ToolCall("send_mail", {})], "Sent.")],
            "violated",
        ),
        (
            Invariant(after="refund", always="send_mail", match=["order_id"]),
            [("hi", [refund("W1"), ToolCall("send_mail", {"order_id": "W2"})], "Done.")],
            "violated",
        ),
        (
            Invariant(every="refund", where={"amount": {"$lte": {"$from": "lookup_order.total"}}}, within_turns=0),
            [("hi", [lookup()], "30."), ("refund", [refund()], "Done.")],
            "violated",
        ),
    ],
)
def test_match_and_within_turns_limit_which_events_belong_together(
    rule: Invariant, turns: list[Turn], expected: str
) -> None:
    assert verdict(rule, a_trial(*turns)) == expected


@pytest.mark.parametrize(
    ("pattern", "call", "fits"),
    [
        ("refund", refund(), True),
        ("ref*", refund(), True),
        ("ref?", refund(), False),
        (["cancel", "refund"], refund(), True),
        ({"call": "refund"}, refund(), True),
        ({"call": ["cancel", "re*"]}, refund(), True),
        ({"call": "refund", "args": {"amount": {"$gt": 10}}}, refund(), True),
        ({"call": "refund", "args": {"amount": {"$gt": 20}}}, refund(), False),
        ({"call": "refund", "ok": True}, refund(error="busy"), False),
        ({"call": "refund", "ok": False}, refund(error="busy"), True),
        ({"call": "*", "args": {"order_id": "W1"}}, refund(), True),
        (["cancel", {"call": "refund", "args": {"order_id": "W1"}}], refund(), True),
    ],
)
def test_a_pattern_names_calls(pattern: Any, call: ToolCall, fits: bool) -> None:
    assert verdict(Invariant(never=pattern), a_trial(("hi", [call], "Done."))) == ("violated" if fits else "holds")


def test_from_takes_the_latest_earlier_successful_result() -> None:
    rule = Invariant(every="refund", where={"amount": {"$lte": {"$from": "lookup_order.total"}}})
    failed = ToolCall("lookup_order", {}, {"total": 99}, "timeout")

    assert verdict(rule, a_trial(("hi", [lookup(total=99), lookup(total=10), refund()], "Done."))) == "violated"
    assert verdict(rule, a_trial(("hi", [lookup(total=10), failed, refund()], "Done."))) == "violated"
    assert verdict(rule, a_trial(("hi", [lookup(total=10), lookup(total=99), refund()], "Done."))) == "holds"


def test_from_reads_results_that_are_json_text() -> None:
    rule = Invariant(every="refund", where={"amount": {"$from": "lookup_order.items[].price"}})
    text = ToolCall("lookup_order", {}, '{"items": [{"price": 10}, {"price": 20}]}')

    assert verdict(rule, a_trial(("hi", [text, refund(amount=20)], "Done."))) == "holds"
    assert verdict(rule, a_trial(("hi", [text, refund(amount=15)], "Done."))) == "violated"
    assert verdict(rule, a_trial(("hi", [ToolCall("lookup_order", {}, "none"), refund()], "Done."))) == "violated"


def test_a_tool_cannot_answer_with_a_matcher() -> None:
    rule = Invariant(every="refund", where={"amount": {"$from": "lookup_order.total"}})

    assert verdict(rule, a_trial(("hi", [lookup(total={"$any": True}), refund()], "Done."))) == "violated"


def test_match_compares_with_the_result_first_and_then_with_the_arguments() -> None:
    other = lookup("W1", order_id="W2")

    assert verdict(WITHIN_TOTAL, a_trial(("hi", [other, refund("W2")], "Done."))) == "holds"
    assert verdict(WITHIN_TOTAL, a_trial(("hi", [other, refund("W1")], "Done."))) == "violated"


def test_equal_arguments_are_equal_as_json() -> None:
    rule = Invariant(at_most=1, of="charge", per=["*"])

    def twice(one: Any, other: Any) -> str:
        return verdict(rule, a_trial(("hi", [ToolCall("charge", {"a": one}), ToolCall("charge", {"a": other})], "ok")))

    assert twice(1, 1.0) == "violated"
    assert twice({"x": [1, 2], "y": 3}, {"y": 3, "x": [1, 2]}) == "violated"
    assert twice(1, True) == "holds"
    assert twice([1, 2], [2, 1]) == "holds"


def test_history_comes_before_and_is_never_a_violation() -> None:
    asked = {"id": "1", "function": {"name": "verify_identity", "arguments": '{"order_id": "W1"}'}}
    history = (
        {"role": "user", "content": "yes, it is me"},
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "1", "content": "ok"},
        {"role": "assistant", "content": "I guarantee it."},
    )
    trial = a_trial(("refund", [refund()], "Done."), history=history)

    assert verdict(IDENTITY, trial) == "holds"
    assert verdict(CONFIRMED, trial) == "holds"
    assert verdict(NO_PROMISE, trial) == "holds"


def test_a_redacted_text_or_argument_is_no_evidence() -> None:
    secret = a_trial(("hi", [refund(order="[redacted]"), refund(order="[redacted]")], "It is [redacted]."))

    assert verdict(Invariant(never={"says": {"$contains": "hunter2"}}), secret) == "no evidence"
    assert verdict(Invariant(never={"call": "refund", "args": {"order_id": "W7"}}), secret) == "no evidence"
    assert verdict(ONCE, secret) == "no evidence"
    assert verdict(Invariant(never={"says": {"$contains": "[redacted]"}}), secret) == "violated"


def test_a_violation_says_what_happened_and_where() -> None:
    result = check(IDENTITY, a_trial(HELLO, ("refund", [refund(), refund()], "Done.")))

    assert result.reasoning == (
        "never refund or change_address before verify_identity: refund({'order_id': 'W1', 'amount': 20}) in turn 2 "
        "without an earlier successful verify_identity"
    )
    assert result.invariant is not None
    assert (result.invariant.triggered, result.invariant.violations) == (2, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "it says nothing: give exactly one of never, after, at_most, every"),
        ({"name": "x"}, "it says nothing"),
        ({"never": "a", "every": "b", "where": {"x": 1}}, "never and every are different rules"),
        ({"after": "a"}, "'after' needs 'always'"),
        ({"at_most": 1}, "'at_most' needs 'of'"),
        ({"every": "a"}, "'every' needs 'where'"),
        ({"never": "a", "always": "b"}, "'always' belongs to 'after', not to 'never'"),
        ({"never": []}, "never: the list is empty"),
        ({"never": 7}, "never: 7 is no event"),
        ({"never": {"says": "guarantee"}}, "Write {$contains: 'guarantee'}"),
        ({"never": {"says": {"$regx": "a"}}}, "unknown matcher '$regx'"),
        ({"never": {"says": {"$regex": "("}}}, "is not a regular expression"),
        ({"never": {"call": "a", "says": {"$any": True}}}, "exactly one of call, says and user"),
        ({"never": {"call": "a", "arg": {}}}, "unknown key 'arg'. Did you mean 'args'?"),
        ({"never": "a", "match": ["x"]}, "'match' compares two events, and this rule has one"),
        ({"never": "a", "before": {"user": {"$any": True}}, "match": ["x"]}, "a text has none"),
        ({"at_most": 1, "of": {"says": {"$any": True}}, "per": ["x"]}, "a text has none"),
        ({"at_most": 0, "of": "a"}, "at_most: expected a whole number of at least 1"),
        ({"every": "a", "where": {"x": 1}, "match": ["x"]}, "'where' has no {$from: tool.path}"),
        ({"every": "a", "where": {"x": {"$from": "lookup"}}}, "expected a tool and a path such as lookup_order.total"),
        ({"every": "a", "where": {"x": {"$lt": {"$from": "lookup..total"}}}}, "cannot be read"),
        ({"every": {"says": {"$any": True}}, "where": {"x": 1}}, "a text has none"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        Invariant(**given)

    assert message in str(refused.value)

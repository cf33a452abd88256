"""Rules for every scenario, as users write them, through every way of running."""

import json
from typing import Any

import pytest

import seatrial
from seatrial import AgentResult, Invariant, Scenario, Suite, ToolCall, UsageError

AGENT = """
    from seatrial import AgentResult, ToolCall

    VERIFIED = ToolCall("verify_identity", {"email": "a@b.c"}, "ok")
    LOOKED_UP = ToolCall("lookup_order", {"order_id": "W1"}, {"total": 30})
    REFUNDED = ToolCall("refund", {"order_id": "W1", "amount": 20}, "done")

    def right(messages):
        return AgentResult("Your refund is on its way.", tool_calls=[VERIFIED, LOOKED_UP, REFUNDED])
    def hasty(messages):
        return AgentResult("Your refund is on its way.", tool_calls=[LOOKED_UP, REFUNDED])
    def twice(messages):
        return AgentResult("Your refund is on its way.", tool_calls=[VERIFIED, LOOKED_UP, REFUNDED, REFUNDED])
    def silent(messages):
        return "Your refund is on its way."
"""
IDENTITY = {"name": "identity first", "never": ["refund", "change_address"], "before": "verify_identity"}
REFUNDS = {"name": "refunds", "turns": [{"user": "Refund W1, please."}], "expect": {"said_contains_all": ["refund"]}}
SIGNED_IN = {**REFUNDS, "name": "signed in", "exempt": {"identity first": "the user is signed in"}}


def write(folder: Any, *scenarios: dict[str, Any], agent: str = "right", **suite: Any) -> None:
    folder.write("agent.py", AGENT)
    content = {"suite": {"name": "shop", "agent": f"agent:{agent}", **suite}, "scenarios": scenarios or [REFUNDS]}
    folder.write("shop.trial.yaml", json.dumps(content))


@pytest.mark.parametrize(
    ("way", "agent", "passes"),
    [
        ("command", "right", True),
        ("command", "hasty", False),
        ("command", "silent", False),
        ("python", "hasty", False),
        ("pytest", "hasty", False),
        ("regrade", "hasty", False),
    ],
)
def test_invariants_of_the_suite_hold_in_every_scenario(folder: Any, way: str, agent: str, passes: bool) -> None:
    write(folder, agent=agent, invariants=[IDENTITY])

    assert folder.play(way, "shop.trial.yaml") is passes


def test_an_irreversible_tool_must_not_succeed_twice(folder: Any) -> None:
    write(folder, agent="twice", irreversible=["refund"])

    ended = folder.seatrial("run", "shop.trial.yaml")

    assert ended.code == 1
    assert "invariant: refund at most once: refund({'order_id': 'W1', 'amount': 20}) in turn 1: 2 times" in ended.out
    write(folder, agent="right", irreversible=["refund"])
    assert folder.seatrial("run", "shop.trial.yaml").code == 0


def test_a_scenario_is_exempt_with_a_reason(folder: Any) -> None:
    write(folder, SIGNED_IN, agent="hasty", invariants=[IDENTITY])
    assert folder.seatrial("run", "shop.trial.yaml").code == 0
    results = folder.results()

    assert results["scenarios"][0]["exempt"] == {"identity first": "the user is signed in"}
    assert results["invariants"][0]["exempt"] == ["signed in: the user is signed in"]
    assert "exempt: signed in: the user is signed in" in folder.seatrial("show", "-v").out


def test_a_scenario_may_have_invariants_of_its_own(folder: Any) -> None:
    own = {**REFUNDS, "name": "own", "invariants": [{"never": "refund"}]}
    write(folder, REFUNDS, own, invariants=[IDENTITY])

    assert folder.seatrial("run", "shop.trial.yaml").code == 1
    passed = {one["name"]: one["passed"] for one in folder.results()["scenarios"]}
    assert passed == {"refunds": True, "own": False}


def test_reports_count_how_often_a_rule_was_triggered_and_list_idle_ones(folder: Any) -> None:
    idle = {"name": "one charge", "at_most": 1, "of": "charge_card"}
    mute = {"name": "no promise", "never": {"says": {"$contains": "promise"}}}
    write(folder, REFUNDS, SIGNED_IN, agent="hasty", invariants=[IDENTITY, idle, mute])

    ended = folder.seatrial("run", "shop.trial.yaml", "--report", "markdown=out.md")

    assert "✗ invariant identity first: triggered 1 time in 1 trial, violated in 1, 1 scenario exempt" in ended.out
    note = "invariants never triggered in 2 trials: one charge"
    assert f"note: {note}" in ended.out
    results = folder.results()
    counts = {rule["name"]: (rule["trials"], rule["triggered"], rule["violated"]) for rule in results["invariants"]}
    assert counts == {"identity first": (1, 1, 1), "one charge": (2, 0, 0), "no promise": (2, None, 0)}
    assert note in results["notes"]
    markdown = (folder.path / "out.md").read_text(encoding="utf-8")
    assert "- ❌ invariant identity first: triggered 1 time in 1 trial, violated in 1" in markdown
    assert "- ✅ invariant one charge: triggered never in 2 trials" in markdown
    assert "invariant one charge: triggered never in 2 trials" in folder.seatrial("show", "latest", "-v").out


def test_an_edited_rule_makes_another_scenario(folder: Any) -> None:
    write(folder, invariants=[IDENTITY])
    folder.seatrial("run", "shop.trial.yaml")
    before = folder.results()["scenarios"][0]["fingerprint"]
    write(folder, invariants=[{**IDENTITY, "before": "lookup_order"}])
    folder.seatrial("run", "shop.trial.yaml")

    assert folder.results()["scenarios"][0]["fingerprint"] != before


@pytest.mark.parametrize(
    ("suite", "scenario", "message"),
    [
        ({"invariants": [{"never": "a", "befor": "b"}]}, {}, "unknown key 'befor'. Did you mean 'before'?"),
        ({"invariants": [{"after": "a"}]}, {}, "'after' needs 'always'"),
        ({"invariants": [{"never": {"says": "x"}}]}, {}, "a plain text would have to be the whole message"),
        ({"invariants": [IDENTITY, IDENTITY]}, {}, "two invariants have the name 'identity first'"),
        ({"invariants": [IDENTITY]}, {"exempt": {"identity": "x"}}, "Did you mean 'identity first'?"),
        ({"invariants": [IDENTITY]}, {"exempt": {"identity first": ""}}, "expected a text, got '', which is blank"),
        ({}, {"exempt": {"identity first": "x"}}, "the suite has no invariant 'identity first'"),
        ({}, {"expect": {"said_ignore": ","}}, "is without effect"),
        ({}, {"expect": {"said_excludes": [","], "said_ignore": ","}}, "has only characters of said_ignore"),
        ({}, {"expect": {"ended": False}}, "'ended: false' asserts nothing"),
        ({}, {"expect": {"ended": True}}, "can never be true: a script is played whole"),
        ({}, {"turns": [{"user": "hi", "expect": {"said_excludes": ["x"]}}]}, "or use reply_excludes"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(
    folder: Any, suite: dict[str, Any], scenario: dict[str, Any], message: str
) -> None:
    write(folder, {**REFUNDS, **scenario}, **suite)

    ended = folder.seatrial("validate", "shop.trial.yaml")

    assert ended.code == 2
    assert message in ended.err


def test_rules_in_python() -> None:
    def agent(messages: Any) -> AgentResult:
        return AgentResult("Done.", tool_calls=[ToolCall("refund", {"order_id": "W1"})])

    rule = Invariant(name="identity first", never="refund", before="verify_identity")
    scenario = Scenario(name="refunds", input="Refund W1.")
    suite = Suite(name="shop", scenarios=[scenario], invariants=[rule])

    report = seatrial.run(suite, agent=agent, store=None)

    assert not report.passed
    [totals] = report.outcome.invariants
    assert (totals.name, totals.triggered, totals.violated) == ("identity first", 1, 1)
    assert seatrial.run(Suite(name="shop", scenarios=[scenario]), agent=agent, store=None).passed


def test_a_rule_that_names_an_unknown_tool_is_refused_if_the_tools_are_known() -> None:
    class Shop:
        tool_names = frozenset({"refund", "verify_identity"})
        name, answers_own_tools, keeps_conversation = "shop", True, True

        def open(self, start: Any) -> Any:
            raise AssertionError("not reached")

        async def close(self) -> None: ...

    rules = [Invariant(never="refnd", before="verify_*"), Invariant(every="refund", where={"a": {"$from": "lookup.b"}})]
    suite = Suite(name="shop", scenarios=[Scenario(name="refunds", input="Refund W1.")], invariants=rules)

    with pytest.raises(UsageError) as refused:
        seatrial.run(suite, agent=Shop(), store=None)

    assert "invariants.never: the agent has no tool 'refnd'. Did you mean 'refund'?" in str(refused.value)
    assert "invariants.where: the agent has no tool 'lookup'" in str(refused.value)


SIMULATED = """
    def goes(conversation):
        return None if conversation else "Refund W1, please."
    def never_goes(conversation):
        return "And now?"
"""


@pytest.mark.parametrize(("user", "passes"), [("goes", True), ("never_goes", False)])
def test_ended_asks_that_the_user_ended_the_conversation(folder: Any, user: str, passes: bool) -> None:
    folder.write("users.py", SIMULATED)
    write(folder, {"name": "ends", "user": f"users:{user}", "max_turns": 2, "expect": {"ended": True}})

    assert (folder.seatrial("run", "shop.trial.yaml").code == 0) is passes


@pytest.mark.parametrize(
    ("expect", "passes"),
    [
        ({"said_contains_all": ["REFUND", "way"]}, True),
        ({"said_contains_all": ["refund", "shipped"]}, False),
        ({"said_contains_any": ["shipped", "refund"]}, True),
        ({"said_contains_any": ["shipped"]}, False),
        ({"said_excludes": ["shipped"]}, True),
        ({"said_excludes": ["refund"]}, False),
        ({"said_matches_all": ["^your .* way"]}, True),
        ({"said_matches_all": ["^refund"]}, False),
        ({"said_contains_all": ["re-fund"], "said_ignore": "-"}, True),
        ({"said_contains_all": ["re-fund"]}, False),
    ],
)
def test_what_was_said_in_any_reply_decides(folder: Any, expect: dict[str, Any], passes: bool) -> None:
    write(folder, {**REFUNDS, "expect": expect})

    assert (folder.seatrial("run", "shop.trial.yaml").code == 0) is passes


def test_recordings_are_checked_too(folder: Any) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "refund", "arguments": '{"order_id": "W1"}'}}
    messages = [
        {"role": "user", "content": "Refund W1, please."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "done"},
        {"role": "assistant", "content": "Your refund is on its way."},
    ]
    folder.write("trace.json", json.dumps({"messages": messages}))
    write(folder, invariants=[IDENTITY])

    ended = folder.seatrial("import-trace", "trace.json", "--suite", "shop.trial.yaml")

    assert ended.code == 1
    assert "identity first: refund({'order_id': 'W1'}) in turn 1 without an earlier successful" in ended.out

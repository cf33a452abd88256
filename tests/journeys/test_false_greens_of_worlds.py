"""Attempts to pass a scenario about effects or rules without having proved it. None may succeed."""

import sys
from typing import Any

import pytest

import seatrial
from seatrial import AgentResult, EndState, Expect, Invariant, Scenario, Suite, ToolCall, Turn, UsageError, World
from seatrial.errors import ToolError
from seatrial.model.results import TrialError
from seatrial.model.run import Trial
from seatrial.runs.event_loop import run_until_complete
from seatrial.scenarios.worlds import prepare_world

SEED: dict[str, Any] = {"orders": {"W1": "delivered"}, "refunds": []}
HELD: list[dict[str, Any]] = []


def verify_identity(state: dict[str, Any]) -> str:
    return "ok"


def refund(state: dict[str, Any], order_id: str = "W1", amount: int = 5) -> str:
    if order_id not in state["orders"]:
        raise ToolError("no such order")
    state["refunds"].append([order_id, amount])
    return "paid"


def breaks(state: dict[str, Any]) -> None:
    state["refunds"].append("half")
    raise KeyError("orders")


def leaves(state: dict[str, Any]) -> None:
    sys.exit(0)


def hands_out(state: dict[str, Any]) -> str:
    HELD.append(state)
    return "done"


WORLD = World(seed=SEED, tools=[verify_identity, refund, breaks, leaves, hands_out])
REFUNDED = EndState(as_after=[{"refund": {"order_id": "W1"}}])


def wrapped(*names: str) -> dict[str, Any]:
    """An agent whose only tools are the world's. It calls these."""

    def agent(input: str, ctx: Any) -> str:
        for name in names:
            ctx.call_tool(name)
        return "Your refund of 5 is on its way."

    return {"type": "python", "target": agent, "tools": "all_wrapped"}


def own_tools(input: str, ctx: Any) -> str:
    """It calls the world, and may have called anything else."""
    ctx.call_tool("verify_identity")
    return "done"


def lists_own_refund(input: str, ctx: Any) -> AgentResult:
    ctx.call_tool("verify_identity")
    return AgentResult("done", tool_calls=[ToolCall("refund", {"order_id": "W1"}, "paid")])


def writes_past_the_tools(input: str, ctx: Any) -> str:
    ctx.call_tool("hands_out")
    HELD.pop()["refunds"].append(["W1", 5])
    return "done"


def silent(input: str) -> str:
    return "Your refund of 5 is on its way."


def play(agent: Any, **keys: Any) -> Trial:
    suite = Suite(name="shop", world=WORLD, scenarios=[Scenario(name="a", **{"input": "Refund W1", **keys})])
    [trial] = seatrial.run(suite, agent=agent, store=None).trials()
    return trial


@pytest.mark.parametrize(
    ("agent", "state", "status"),
    [
        (wrapped(), REFUNDED, "failed"),
        (wrapped("refund", "refund"), REFUNDED, "failed"),
        (wrapped("refund"), EndState(as_after=[]), "failed"),
        (wrapped("refund"), EndState(unchanged=["refunds"]), "failed"),
        (wrapped("breaks"), EndState(unchanged=["orders"]), "errored"),
        (wrapped("leaves"), EndState(as_after=[]), "errored"),
        (wrapped(), EndState(unchanged=["order"]), "errored"),
        (own_tools, EndState(as_after=[]), "errored"),
        (own_tools, EndState(unchanged=["refunds"]), "errored"),
        (own_tools, REFUNDED, "failed"),
        (lists_own_refund, EndState(as_after=[]), "errored"),
        (lists_own_refund, EndState(unchanged=["refunds"]), "errored"),
        (lists_own_refund, REFUNDED, "failed"),
        (writes_past_the_tools, REFUNDED, "errored"),
        (wrapped("unknown_tool"), EndState(as_after=[]), "errored"),
    ],
)
def test_an_effect_that_was_not_proved_is_no_pass(agent: Any, state: EndState, status: str) -> None:
    trial = play(agent, end_state=state)

    assert (trial.status.value, bool(trial.failure_reasons)) == (status, True)


IDENTITY = Invariant(never="refund", before="verify_identity")


@pytest.mark.parametrize(
    ("agent", "rule", "status"),
    [
        # never
        (wrapped(), Invariant(never="refund"), "passed"),
        (wrapped("refund"), Invariant(never="refund"), "failed"),
        (own_tools, Invariant(never="refund"), "errored"),
        (silent, Invariant(never="refund"), "errored"),
        # never, before
        (wrapped("verify_identity", "refund"), IDENTITY, "passed"),
        (wrapped("refund", "verify_identity"), IDENTITY, "failed"),
        (wrapped("refund"), IDENTITY, "failed"),
        (wrapped(), IDENTITY, "passed"),
        (silent, IDENTITY, "errored"),
        # after, always
        (wrapped("verify_identity", "refund"), Invariant(after="verify_identity", always="refund"), "passed"),
        (wrapped("verify_identity"), Invariant(after="verify_identity", always="refund"), "failed"),
        (wrapped(), Invariant(after="verify_identity", always="refund"), "passed"),
        (silent, Invariant(after="verify_identity", always="refund"), "errored"),
        # at_most
        (wrapped("refund"), Invariant(at_most=1, of="refund"), "passed"),
        (wrapped("refund", "refund"), Invariant(at_most=1, of="refund"), "failed"),
        (wrapped(), Invariant(at_most=1, of="refund"), "passed"),
        (silent, Invariant(at_most=1, of="refund"), "errored"),
        # every
        (wrapped(), Invariant(every="refund", where={"amount": {"$lte": 5}}), "passed"),
        (wrapped("refund"), Invariant(every="refund", where={"amount": {"$lte": 5}}), "failed"),
        (silent, Invariant(every="refund", where={"amount": {"$lte": 5}}), "errored"),
        # texts need no calls
        (silent, Invariant(never={"says": {"$contains": "guarantee"}}), "passed"),
        (silent, Invariant(never={"says": {"$contains": "on its way"}}), "failed"),
    ],
)
def test_every_form_of_rule_holds_is_violated_or_has_no_evidence(agent: Any, rule: Invariant, status: str) -> None:
    trial = play(agent, invariants=[rule], expect=Expect(said_matches_all=["."]))

    assert trial.status.value == status, trial.failure_reasons


@pytest.mark.parametrize(
    "keys",
    [
        {"end_state": EndState(ignore=["orders"])},
        {"end_state": EndState()},
        {"end_state": EndState(as_after=[{"refund": {"order_id": "W9"}}])},
        {"turns": [Turn(user="hi")], "exempt": {"no such rule": "why"}},
    ],
    ids=["only ignore", "nothing", "a refused gold call", "an unknown exemption"],
)
def test_a_scenario_that_could_only_pass_is_refused(keys: dict[str, Any]) -> None:
    given = keys if "turns" in keys else {"input": "hi", **keys}

    with pytest.raises(UsageError):
        seatrial.run(Suite(name="s", world=WORLD, scenarios=[Scenario(name="a", **given)]), agent=silent, store=None)


def test_trials_with_a_large_seed_do_not_see_each_other() -> None:
    seed = {"rows": [{"id": n, "text": "x" * 80, "tags": ["a", "b"]} for n in range(40_000)], "refunds": []}

    def change(state: dict[str, Any]) -> int:
        state["rows"][7]["text"] = "changed"
        state["refunds"].append(1)
        return len(state["refunds"])

    world = World(seed=seed, tools=[change])
    agent = wrapped("change")
    state = EndState(as_after=[{"change": {}}])
    scenario = Scenario(name="large", input="hi", world=world, end_state=state, trials=3)

    trials = list(seatrial.run(scenario, agent=agent, store=None, concurrency=3).trials())

    assert [trial.status.value for trial in trials] == ["passed"] * 3
    assert [call.result for trial in trials for call in trial.transcript.seen_calls] == [1, 1, 1]
    assert all(len(trial.transcript.world.changes) == 2 for trial in trials)


def test_a_difference_from_a_seed_that_has_changed_is_no_evidence() -> None:
    before, today = (prepare_world(World(seed=seed, tools=[refund])) for seed in (SEED, {**SEED, "refunds": [1]}))
    played = run_until_complete(before.play([ToolCall("refund", {})]))

    with pytest.raises(TrialError, match="the seed of the world has changed since this trial was played"):
        run_until_complete(today.view(played.record))

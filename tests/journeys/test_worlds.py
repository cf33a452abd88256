"""Worlds: what the agent did is compared with what it should have done."""

import json
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.journeys import shop_world
from tests.journeys.shop_world import SEED, lookup_order, refund, transfer

import seatrial
from seatrial import EndState, Expect, Scenario, Suite, ToolError, Turn, UsageError, World
from seatrial.agents import context, python
from seatrial.model.conversation import StopReason
from seatrial.model.run import Trial

SHOP = World(seed=SEED, tools=[lookup_order, refund, transfer])
REFUND_W1 = {"refund": {"order_id": "W1"}}
Steps = list[tuple[str, dict[str, Any]]]


def calls(*steps: tuple[str, dict[str, Any]], reply: str = "done") -> dict[str, Any]:
    """An agent that makes these calls, all of them through Seatrial."""

    def answer(input: str, ctx: Any) -> str:
        for name, arguments in steps:
            try:
                ctx.call_tool(name, arguments)
            except ToolError:
                continue
        return reply

    return {"type": "python", "target": answer, "tools": "all_wrapped"}


def play(agent: Any, *, world: World = SHOP, own: World | None = None, **keys: Any) -> Trial:
    """The trial of a scenario in the shop."""
    given = keys if {"turns", "user"} & keys.keys() else {"input": "Refund W1", **keys}
    suite = Suite(name="shop", world=world, scenarios=[Scenario(name="refund", world=own, **given)])
    report = seatrial.run(suite, agent=agent, store=None)
    assert report.status
    [trial] = report.trials()
    return trial


def outcome(trial: Trial) -> tuple[str, str]:
    return trial.status.value, "; ".join(trial.failure_reasons)


@pytest.mark.parametrize(
    "steps",
    [
        [("refund", {"order_id": "W1"})],
        [("refund", {"order_id": "W1", "amount": 30})],
        [("refund", {"order_id": "W2"}), ("refund", {"order_id": "W1"}), ("refund", {"order_id": "W1"})],
        [("refund", {"order": "W1"}), ("refund", {"order_id": 1}), ("refund", {"order_id": "W1"})],
    ],
    ids=["the gold call", "another argument", "refused calls beside it", "wrong arguments first"],
)
def test_every_path_to_the_same_end_state_passes(steps: Steps) -> None:
    assert play(calls(*steps), end_state=EndState(as_after=[REFUND_W1])).status.value == "passed"


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([], "orders.W1.status: expected 'refunded', got 'delivered' (no call changed it)"),
        (
            [("refund", {"order_id": "W1", "amount": 300})],
            "refunds[0].amount: expected 30, got 300.0 (changed by refund in turn 1)",
        ),
        (
            [("lookup_order", {"order_id": "W2"}), ("refund", {"order_id": "W1"})],
            "orders.W2.seen: expected 0, got 1 (changed by lookup_order in turn 1)",
        ),
    ],
    ids=["no call", "another amount", "a side effect"],
)
def test_another_end_state_fails_and_names_the_call(steps: Steps, reason: str) -> None:
    status, reasons = outcome(play(calls(*steps), end_state=EndState(as_after=[REFUND_W1])))

    assert status == "failed"
    assert reason in reasons


def test_ignored_paths_are_not_compared() -> None:
    agent = calls(("lookup_order", {"order_id": "W1"}), ("refund", {"order_id": "W1"}))

    assert play(agent, end_state=EndState(as_after=[REFUND_W1])).status.value == "failed"
    assert play(agent, end_state=EndState(as_after=[REFUND_W1], ignore=["orders.*.seen"])).status.value == "passed"


def test_values_that_the_end_state_must_contain() -> None:
    expected = {"refunds": [{"order": "W1", "amount": {"$lte": 30}}]}

    for keys in ({"end_state": EndState(contains=expected)}, {"expected_state": expected}):
        assert play(calls(("refund", {"order_id": "W1"})), **keys).status.value == "passed"
        status, reasons = outcome(play(calls(("refund", {"order_id": "W1", "amount": 31})), **keys))
        assert (status, "refunds[0].amount: expected {'$lte': 30}, got 31.0" in reasons) == ("failed", True)


def test_parts_that_must_not_change() -> None:
    state = EndState(unchanged=["orders.*.total", "orders.W2"])

    assert play(calls(("refund", {"order_id": "W1"})), end_state=state).status.value == "passed"
    status, reasons = outcome(play(calls(("lookup_order", {"order_id": "W2"})), end_state=state))
    assert status == "failed"
    assert "orders.W2.seen: it must stay 0, got 1 (changed by lookup_order in turn 1)" in reasons


def test_a_path_that_leads_nowhere_is_no_pass() -> None:
    status, reasons = outcome(play(calls(), end_state=EndState(unchanged=["order.W2"])))

    assert status == "errored"
    assert "'order.W2' leads to nothing" in reasons


@pytest.mark.parametrize(
    "state",
    [
        EndState(as_after=[]),
        EndState(as_after=[{"transfer": {}}]),
        EndState(unchanged=["orders"]),
        EndState(contains={"orders": {"W1": {"status": "delivered"}}}),
    ],
    ids=["no change", "calls without effect", "unchanged", "contained from the beginning"],
)
def test_that_nothing_changed_needs_the_evidence_of_all_calls(state: EndState) -> None:
    def own_tools(input: str, ctx: Any) -> str:
        ctx.call_tool("transfer")
        return "done"  # it may have called any tool of its own

    def lists_another(input: str, ctx: Any) -> Any:
        ctx.call_tool("transfer")
        return seatrial.AgentResult("done", tool_calls=[seatrial.ToolCall("refund", {"order_id": "W1"})])

    assert play(calls(("transfer", {})), end_state=state).status.value == "passed"
    assert play(own_tools, end_state=state).status.value == "errored"
    status, reasons = outcome(play(lists_another, end_state=state))
    assert (status, "refund ran outside of the world" in reasons) == ("errored", True)


@pytest.mark.parametrize("state", [EndState(as_after=[REFUND_W1]), EndState(contains={"refunds": [{}]})])
def test_an_agent_that_cannot_reach_the_world_is_no_failure(state: EndState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "wrapped_tools", {})  # other tests wrap tools of these names
    monkeypatch.setattr(python, "wrapped_tools", {})
    status, reasons = outcome(play(lambda input: "done", end_state=state))

    assert status == "errored"
    assert "cannot reach the world" in reasons


@pytest.mark.parametrize(
    ("gold", "problem"),
    [
        ({"refund": {"order_id": "W2"}}, "the world refuses gold call 1, refund: only delivered orders"),
        ({"refund": {"order": "W1"}}, "invalid arguments for 'refund': 'order_id' is missing"),
        ({"refunds": {}}, "the world has no tool 'refunds'. Did you mean 'refund'?"),
        ({**REFUND_W1, "refused": True}, "is marked `refused: true`, but the world accepts it"),
    ],
)
def test_a_gold_call_that_cannot_be_right_stops_the_run_before_any_agent(gold: Any, problem: str) -> None:
    asked: list[str] = []

    def agent(input: str) -> str:
        asked.append(input)
        return "done"

    with pytest.raises(seatrial.UsageError) as refused:
        play(agent, end_state=EndState(as_after=[gold]))
    assert problem in str(refused.value)
    assert not asked


def test_a_wrong_gold_call_is_told_once_for_all_agents(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(
        "suite:\n"
        "  world: {seed: {orders: {}, refunds: []}, tools: tests.journeys.shop_world}\n"
        "  agents: {one: 'tests.journeys.shop_world:make_seed', two: 'tests.journeys.shop_world:make_seed'}\n"
        "scenarios:\n- {name: a, input: hi, end_state: {as_after: [{refund: {order: W1}}]}}\n",
        "utf-8",
    )

    with pytest.raises(seatrial.UsageError) as refused:
        seatrial.run(tmp_path / "suite.yaml", store=None)

    [line] = str(refused.value).splitlines()
    assert "suite.yaml:5: scenario 'a': end_state.as_after: the world refuses gold call 1" in line


def test_a_gold_call_may_be_refused_on_purpose() -> None:
    state = EndState(as_after=[{"refund": {"order_id": "W2"}, "refused": True}, REFUND_W1])

    assert play(calls(("refund", {"order_id": "W1"})), end_state=state).status.value == "passed"


def test_the_seed_of_a_scenario_is_merged_over_that_of_the_suite() -> None:
    own = World(seed={"orders": {"W2": {"status": "delivered"}, "W1": None}})
    state = EndState(contains={"orders": {"W2": {"status": "refunded", "total": 5}}, "refunds": [{"amount": 5}]})

    trial = play(calls(("refund", {"order_id": "W1"}), ("refund", {"order_id": "W2"})), end_state=state, own=own)

    assert trial.status.value == "passed"


def test_mocks_come_before_the_world() -> None:
    agent = calls(("refund", {"order_id": "W1"}), ("transfer", {}))

    trial = play(agent, mocks={"refund": {"returns": "mocked"}}, end_state=EndState(as_after=[]))

    assert trial.status.value == "passed"
    assert [call.result for call in trial.transcript.seen_calls] == ["mocked", "done"]


def test_a_tool_that_neither_mocks_nor_the_world_have_never_runs() -> None:
    status, reasons = outcome(play(calls(("send_mail", {})), end_state=EndState(as_after=[])))

    assert status == "errored"
    assert "Tool 'send_mail' was called but no mock is defined, and the world has no such tool" in reasons


def test_what_each_call_changed_is_recorded() -> None:
    trial = play(calls(("refund", {"order_id": "W1"})), end_state=EndState(as_after=[REFUND_W1]))

    [call] = trial.transcript.seen_calls
    assert [(change.op, change.path, change.value, change.was) for change in call.changes] == [
        ("replace", "/orders/W1/status", "refunded", "delivered"),
        ("add", "/refunds/0", {"order": "W1", "amount": 30}, None),
    ]
    assert trial.transcript.world is not None
    assert trial.transcript.world.changes == call.changes


def test_evaluators_see_the_world(tmp_path: Path) -> None:
    seen: list[Any] = []

    @seatrial.evaluator
    def look(ctx: Any) -> bool:
        seen.append((ctx.world.initial, ctx.world.final, ctx.world.gold, ctx.world.diff))
        ctx.world.final["orders"].clear()
        return True

    play(
        calls(("refund", {"order_id": "W1"})),
        expect=Expect(evaluators=[look, look]),
        end_state=EndState(as_after=[REFUND_W1]),
    )

    initial, final, gold, diff = seen[1]
    assert initial == SEED
    assert final == gold | {"orders": {}}
    assert gold["refunds"] == [{"order": "W1", "amount": 30}]
    assert [change.path for change in diff] == ["/orders/W1/status", "/refunds/0"]


def test_a_template_says_how_the_agent_sees_an_error() -> None:
    heard: list[str] = []

    def agent(input: str, ctx: Any) -> str:
        try:
            ctx.call_tool("refund", order_id="W9")
        except ToolError as error:
            heard.append(str(error))
        return "done"

    play(agent, world=World(seed=SEED, tools=[refund], errors="Error: {error}"))

    assert heard == ["Error: only delivered orders can be refunded"]


def test_a_tool_can_end_the_conversation() -> None:
    world = World(seed=SEED, tools=[refund, transfer], ends=["transfer"])
    turns = [Turn(user="Hello"), Turn(user="Are you there?")]

    trial = play(calls(("transfer", {}), reply=""), world=world, user=lambda pairs: "Hello", max_turns=3,
                 end_state=EndState(as_after=[]))  # fmt: skip
    scripted = play(calls(("transfer", {})), world=world, turns=turns)

    assert (trial.status.value, trial.transcript.stop_reason) == ("passed", StopReason.ENDED_BY_TOOL)
    assert len(trial.transcript.turns) == 1
    assert "the agent ended the conversation by a tool" in outcome(scripted)[1]


def test_time_and_random_numbers_are_fixed() -> None:
    drawn: list[Any] = []

    def draw(state: dict[str, Any], name: str, ctx: Any) -> int:
        drawn.append((name, ctx.now.isoformat(), ctx.random.randint(1, 10**9)))
        state["drawn"] = drawn[-1][2]
        return 1

    world = World(seed={}, tools=[draw], now="2024-05-15T15:00:00")
    agent = calls(("draw", {"name": "a"}), ("draw", {"name": "b"}), ("draw", {"name": "a"}))
    other = calls(("draw", {"name": "b"}), ("draw", {"name": "a"}))

    first = play(
        agent, world=world, input="hi", end_state=EndState(as_after=[{"draw": {"name": "a"}}, {"draw": {"name": "a"}}])
    )
    play(other, world=world, input="hi")

    assert {at for _, at, _ in drawn} == {"2024-05-15T15:00:00+00:00"}
    assert first.status.value == "passed"
    assert len({number for name, _, number in drawn[-5:] if name == "a"}) >= 2


class ShopTools:
    """Each trial has its own object."""

    def __init__(self) -> None:
        self.calls = 0

    def refund(self, state: dict[str, Any], order_id: str) -> int:
        self.calls += 1
        state["refunds"].append(order_id)
        return self.calls

    @staticmethod
    def transfer(state: dict[str, Any]) -> str:
        return "static"


@pytest.mark.parametrize(
    ("tools", "results"),
    [
        (shop_world, ["refunded", "done"]),
        ([refund, transfer], ["refunded", "done"]),
        ({"refund": refund, "transfer": transfer}, ["refunded", "done"]),
        ("tests.journeys.shop_world", ["refunded", "done"]),
        (["tests.journeys.shop_world:refund", "tests.journeys.shop_world:transfer"], ["refunded", "done"]),
        (ShopTools, [1, "static"]),
        (ShopTools(), [1, "static"]),
    ],
    ids=["module", "functions", "by name", "path of a module", "paths", "class", "object"],
)
def test_tools_are_a_module_a_class_an_object_or_functions(tools: Any, results: list[Any]) -> None:
    trial = play(calls(("refund", {"order_id": "W1"}), ("transfer", {})), world=World(seed=SEED, tools=tools))

    assert [call.result for call in trial.transcript.seen_calls] == results


def test_trials_share_no_object_of_a_class() -> None:
    suite = Suite(
        name="s", world=World(seed=SEED, tools=ShopTools), scenarios=[Scenario(name="a", input="hi", trials=3)]
    )

    report = seatrial.run(suite, agent=calls(("refund", {"order_id": "W1"})), store=None)

    assert {call.result for trial in report.trials() for call in trial.transcript.seen_calls} == {1}


def files(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(textwrap.dedent(text), "utf-8")


@pytest.mark.parametrize("seed", ["shop.json", "shop.yaml", "tests.journeys.shop_world:make_seed", json.dumps(SEED)])
def test_a_seed_is_a_file_a_mapping_or_a_function(seed: str, tmp_path: Path) -> None:
    (tmp_path / "shop.json").write_text(json.dumps(SEED), "utf-8")
    (tmp_path / "shop.yaml").write_text("orders: {W1: {status: delivered, total: 30}}\nrefunds: []\n", "utf-8")
    (tmp_path / "suite.yaml").write_text(
        f"suite: {{world: {{seed: {seed}, tools: tests.journeys.shop_world}}}}\n"
        "scenarios: [{name: a, input: hi, end_state: {as_after: [{refund: {order_id: W1}}]}}]\n",
        "utf-8",
    )

    report = seatrial.run(tmp_path / "suite.yaml", agent=calls(("refund", {"order_id": "W1"})), store=None)

    assert report.status == "passed", report.failure_reasons


@pytest.mark.parametrize(
    ("value", "problem"),
    [(10**30, "a number that is too large"), ("\ud800", r"'\ud800', which is half of a character")],
)
def test_a_seed_with_a_value_that_it_cannot_hold_is_refused(value: Any, problem: str) -> None:
    for world, own in ((World(seed={"x": value}, tools=[refund]), None), (SHOP, World(seed={"x": value}))):
        with pytest.raises(UsageError) as refused:
            play(calls(), world=world, own=own, end_state=EndState(as_after=[]))
        assert f"the seed contains {problem}" in str(refused.value)


def test_a_system_message_of_the_suite_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "policy.md").write_text("Refund nothing.\n", "utf-8")
    (tmp_path / "suite.yaml").write_text(
        "suite: {config: {system: {file: policy.md}}}\n"
        "scenarios: [{name: a, input: hi}, {name: b, input: hi, system: x}]\n",
        "utf-8",
    )

    def agent(messages: list[Any]) -> str:
        return str(messages[0]["content"])

    report = seatrial.run(tmp_path / "suite.yaml", agent=agent, store=None)

    assert [trial.transcript.reply for trial in report.trials()] == ["Refund nothing.", "x"]


def hostile(tool: Callable[..., Any], *steps: tuple[str, dict[str, Any]], **keys: Any) -> Trial:
    tool.__name__ = "tool"
    world = World(seed={"kept": {"n": 0}}, tools=[tool])
    return play(calls(*(steps or (("tool", {}),))), world=world, input="hi", end_state=EndState(as_after=[]), **keys)


def test_a_bug_in_a_tool_is_an_error_of_the_world() -> None:
    def broken(state: Any, again: bool = False) -> None:
        raise KeyError("orders")

    def exits(state: Any) -> None:
        sys.exit(3)

    for tool in (broken, exits):
        trial = hostile(tool)
        assert trial.status.value == "errored"
        assert trial.error is not None
        assert trial.error.kind == "tool"
        assert "the world's tool 'tool' raised" in trial.error.message


def test_a_tool_that_hangs_is_an_error_of_the_world() -> None:
    import threading

    end = threading.Event()

    def hangs(state: Any) -> None:
        end.wait(30)

    try:
        trial = hostile(hangs, timeout_seconds=0.2)
    finally:
        end.set()
    assert (trial.status.value, trial.error and trial.error.kind) == ("errored", "tool")


def test_a_tool_cannot_replace_the_state() -> None:
    def replaces(state: dict[str, Any]) -> str:
        state = {"other": 1}
        return str(state)

    assert hostile(replaces).status.value == "passed"


def test_an_agent_gets_no_reference_into_the_state() -> None:
    def returns_state(state: dict[str, Any]) -> Any:
        return state

    def agent(input: str, ctx: Any) -> str:
        ctx.call_tool("tool")["kept"]["n"] = 5
        ctx.call_tool("tool")
        return "done"

    returns_state.__name__ = "tool"
    trial = play(
        {"type": "python", "target": agent, "tools": "all_wrapped"},
        world=World(seed={"kept": {"n": 0}}, tools=[returns_state]),
        end_state=EndState(as_after=[]),
    )
    assert outcome(trial) == ("passed", "")


def test_a_tool_that_changes_the_state_of_another_trial_is_found() -> None:
    others: list[dict[str, Any]] = []

    def keeps(state: dict[str, Any]) -> str:
        for other in others:
            if other is not state:
                other["kept"]["n"] += 1
        others.append(state)
        return "done"

    keeps.__name__ = "tool"
    world = World(seed={"kept": {"n": 0}}, tools=[keeps])

    all_have_called = threading.Barrier(4)

    def agent(input: str, ctx: Any) -> str:
        ctx.call_tool("tool")
        all_have_called.wait(timeout=30)
        ctx.call_tool("tool")
        return "done"

    suite = Suite(
        name="s", world=world, scenarios=[Scenario(name="a", input="hi", trials=4, end_state=EndState(as_after=[]))]
    )
    agent_spec = {"type": "python", "target": agent, "tools": "all_wrapped"}
    report = seatrial.run(suite, agent=agent_spec, store=None, concurrency=4)
    found = [trial for trial in report.trials() if trial.status.value == "errored"]
    assert found
    assert all("was changed while none of its tools ran: kept.n" in trial.failure_reasons[0] for trial in found)


def test_values_that_json_does_not_have_become_json() -> None:
    from datetime import date
    from decimal import Decimal

    def writes(state: dict[str, Any]) -> None:
        state["kept"] = {"n": 0, "at": date(2024, 5, 1), "price": Decimal("2.5"), "object": object(), 7: {1, 2}}

    trial = hostile(writes)

    assert trial.transcript.world is not None
    changed = {change.path: change.value for change in trial.transcript.world.changes}
    assert changed == {
        "/kept/at": "2024-05-01",
        "/kept/price": 2.5,
        "/kept/object": "[object object]",
        "/kept/7": [1, 2],
    }


@pytest.mark.parametrize(("value", "noted"), [(False, False), ({7: 0}, {"7": 0}), ((0,), [0])])
def test_a_value_of_another_type_is_a_change(value: Any, noted: Any) -> None:
    def writes(state: dict[str, Any]) -> None:
        state["kept"] |= {"n": value, "more": 1}

    changed = {change.path: change.value for change in hostile(writes).transcript.seen_calls[0].changes}
    assert repr(changed) == repr({"/kept/n": noted, "/kept/more": 1})

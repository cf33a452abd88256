"""If no trial passed, the gold calls of a world show the first wrong step."""

from collections.abc import Callable
from typing import Any

import pytest

import seatrial
from seatrial import EndState, Scenario, Suite, ToolError, World
from seatrial.model.causes import DivergenceKind as Kind

SEED = {"orders": {"W1": {"open": True, "items": ["a"], "address": "x"}}, "refunds": [], "notes": []}


def look_up(state: Any, order_id: str) -> Any:
    return state["orders"][order_id]


def set_items(state: Any, order_id: str, items: list[str]) -> str:
    state["orders"][order_id].update(items=items, open=False)
    return "done"


def set_address(state: Any, order_id: str, address: str) -> str:
    if not state["orders"][order_id]["open"]:
        raise ToolError("the order is closed")
    state["orders"][order_id]["address"] = address
    return "done"


def refund(state: Any, order_id: str) -> str:
    state["refunds"].append(order_id)
    return "done"


def note(state: Any, text: str) -> str:
    state["notes"].append(text)
    return "done"


def hand_over(state: Any) -> str:
    return "done"


GOLD = [{"set_address": {"order_id": "W1", "address": "y"}}, {"set_items": {"order_id": "W1", "items": ["b"]}}]
TOOLS = [look_up, set_items, set_address, refund, note, hand_over]
ADDRESS = ("set_address", {"order_id": "W1", "address": "y"})
ITEMS = ("set_items", {"order_id": "W1", "items": ["b"]})
OTHER_ITEMS = ("set_items", {"order_id": "W1", "items": ["c"]})
LOOK = ("look_up", {"order_id": "W1"})


def explain(
    *calls: tuple[str, dict[str, Any]], gold: Any = GOLD
) -> tuple[Kind, int | None, int | None, str | None, str]:
    def agent(ctx: Any, input: str) -> str:
        for name, arguments in calls:
            try:
                ctx.call_tool(name, arguments)
            except ToolError:
                continue
        return "done"

    world = World(seed=SEED, tools=TOOLS, ends=["hand_over"])
    scenario = Scenario(name="order", input="x", world=world, end_state=EndState(as_after=gold))
    report = seatrial.run(Suite(name="gold", scenarios=[scenario]), agent=_complete(agent), store=None)
    (cause,) = report.record.causes
    assert cause.divergence.against == "the gold calls"
    found = cause.divergence
    return found.kind, found.turn, found.step, found.tool, found.text


def _complete(agent: Callable[..., Any]) -> dict[str, Any]:
    return {"type": "python", "target": agent, "tools": "all_wrapped"}


@pytest.mark.parametrize(
    ("calls", "kind", "step", "tool", "says"),
    [
        ((LOOK, ADDRESS, OTHER_ITEMS), Kind.ARGUMENTS, 2, "set_items.items[0]", "'c'"),
        ((LOOK, ITEMS, ADDRESS), Kind.ORDER, 1, "set_items", "before set_address"),
        ((LOOK, ADDRESS), Kind.STOPPED, 2, "set_items", "no further call"),
        ((LOOK,), Kind.MISSING_CALL, 1, "set_address", "no further call"),
        ((LOOK, ITEMS), Kind.STOPPED, 2, "set_address", "no further call"),
        ((ADDRESS, LOOK, ("refund", {"order_id": "W1"})), Kind.WRONG_TOOL, 2, "refund", "set_items instead"),
        ((ADDRESS, ITEMS, ("note", {"text": "x"})), Kind.EXTRA_CALL, 2, "note", "no gold call"),
        ((ADDRESS, ("hand_over", {})), Kind.STOPPED, 1, "set_items", "hand_over ended the conversation"),
        ((("note", {"text": "x"}), ADDRESS, ITEMS), Kind.EXTRA_CALL, 0, "note", "no gold call"),
    ],
    ids=["argument", "order", "stopped", "nothing", "skipped", "wrong tool", "extra", "ended", "extra first"],
)  # fmt: skip
def test_the_first_step_that_differs_from_the_gold_calls(
    calls: tuple[tuple[str, dict[str, Any]], ...], kind: Kind, step: int, tool: str, says: str
) -> None:
    found = explain(*calls)
    assert found[:4] == (kind, 0, step, tool)
    assert says in found[4]


def test_a_gold_call_that_the_world_refuses_is_named_with_the_reason() -> None:
    kind, _, step, tool, text = explain(("set_items", {"order_id": "W1", "items": ["z"]}), ADDRESS)
    assert (kind, step, tool) == (Kind.ARGUMENTS, 0, "set_items.items[0]")
    assert text == "set_items: items[0] is 'z', not 'b'"


def test_if_nothing_may_change_the_first_call_that_changes_something_is_named() -> None:
    assert explain(LOOK, ("note", {"text": "x"}), ADDRESS, gold=[])[:4] == (Kind.EXTRA_CALL, 0, 1, "note")

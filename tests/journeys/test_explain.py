"""An agent with twelve planted mistakes among passes: `seatrial explain` names each of them once, at its step."""

import json
from typing import Any

from .conftest import Folder

AGENT = '''
    import threading

    import seatrial

    MISTAKES = (
        "skipped call", "wrong argument", "ignored tool error", "wrong order", "loop", "early stop", "wrong tool",
        "misread result", "invented value", "forgotten turn", "timeout", "exception",
    )
    OPENINGS = ("Sure.", "Of course!", "Happy to help.", "One moment, please.", "Thanks for asking.")

    def reply(ctx, messages):
        """Every second trial has a mistake. The wording and the text of a search differ in each trial."""
        number = int(ctx.trial_id.rpartition("-")[2])
        mistake = MISTAKES[number // 2 % len(MISTAKES)] if number % 2 else None
        said = [message["content"] for message in messages if message["role"] == "user"]
        step = (greet, tell, refund)[len(said) - 1]
        return f"{OPENINGS[number % len(OPENINGS)]} {step(ctx, mistake, number, said)}"

    def greet(ctx, mistake, number, said):
        return f"Hello {ctx.call_tool('find_user', name='Ada')['name']}."

    def tell(ctx, mistake, number, said):
        order = said[1].strip("?").split()[-1]
        ctx.call_tool("search_help", text=f"status of an order, version {number}")
        found = ctx.call_tool("lookup_order", order_id="W777" if mistake == "wrong argument" else order)
        for _ in range(5 if mistake == "loop" else 0):
            ctx.call_tool("lookup_order", order_id=order)
        if mistake == "early stop":
            return "I am looking into it."
        if mistake == "timeout":
            threading.Event().wait(30)
        if mistake == "wrong tool":
            place = ctx.call_tool("list_stores", order_id=order)["place"]
        else:
            place = ctx.call_tool("track", order_id=order)["place"]
        if mistake == "exception":
            place = found["parcel"]
        status = found["previous" if mistake == "misread result" else "status"]
        total = "38.50" if mistake == "invented value" else found["total"]
        return f"Your order is {status}, it is in {place}. You paid {total} euros."

    def refund(ctx, mistake, number, said):
        name = "customer" if mistake == "forgotten turn" else "Ada"
        order = said[1].strip("?").split()[-1]
        if mistake == "wrong order":
            pay_back(ctx, mistake, order)
        if mistake != "skipped call":
            ctx.call_tool("verify_identity", name=name)
        if mistake != "wrong order":
            pay_back(ctx, mistake, order)
        return "The refund is done."

    def pay_back(ctx, mistake, order):
        try:
            ctx.call_tool("refund", order_id=order)
        except seatrial.ToolError:
            if mistake != "ignored tool error":
                ctx.call_tool("refund", order_id=order)
'''
SUITE = """
    suite:
      name: planted
      agent: {type: python, target: "agent:reply", tools: all_wrapped}
      invariants:
        - {name: identity first, never: [refund], before: verify_identity}
        - {name: own name, every: verify_identity, where: {name: Ada}}
        - {name: refund ends well, after: {call: refund, ok: false}, always: {call: refund, ok: true}}
      config:
        trials: 24
        timeout_seconds: 4
        limits: {tool_calls: 7}
        mocks:
          find_user: {returns: {name: Ada, id: u7}}
          search_help: {returns: []}
          lookup_order:
            when:
              - {args: {order_id: W1}, returns: {status: shipped, previous: packed, total: 49}}
              - {args: {order_id: W2}, returns: {status: shipped, previous: packed, total: 72}}
            returns: {status: unknown, previous: unknown, total: 0}
          track: {returns: {place: Hamburg}}
          list_stores: {returns: {place: Berlin}}
          verify_identity: {returns: ok}
          refund: {sequence: [{raises: the bank is offline}, {returns: done}]}
    scenarios:
"""
SCENARIO = """
      - name: refund of {order}
        turns:
          - user: I am Ada.
            expect: {{reply_contains_all: [Ada]}}
          - user: Where is my order {order}?
            expect: {{reply_contains_all: [shipped, Hamburg, "{total}"]}}
          - user: I want my money back.
            expect: {{reply_contains_all: [done], tool_calls_include: [verify_identity, refund]}}
"""
PLANTED = {
    # The first trial with the mistake: kind, turn, call of the trial, as a user reads them.
    1: ("missing_call", "turn 3, call 5"),
    3: ("arguments", "turn 2, call 3"),
    5: ("ignored_error", "turn 3, call 7"),
    7: ("order", "turn 3, call 5"),
    9: ("loop", "turn 2, call 4"),
    11: ("stopped_early", "turn 2, call 4"),
    13: ("wrong_tool", "turn 2, call 4"),
    15: ("misread_result", "turn 2, reply"),
    17: ("invented_value", "turn 2, reply"),
    19: ("forgotten_turn", "turn 3, call 5"),
    21: ("timeout", "turn 2, call 4"),
    23: ("exception", "turn 2, call 5"),
}


def write(folder: Folder) -> None:
    folder.write("agent.py", AGENT)
    scenarios = "".join(SCENARIO.format(order=order, total=total) for order, total in (("W1", 49), ("W2", 72)))
    folder.write("planted.trial.yaml", SUITE.strip("\n") + scenarios)


def explain(folder: Folder, *args: str) -> list[dict[str, Any]]:
    found = json.loads(folder.seatrial("explain", *args, "--json").out)["causes"]
    assert isinstance(found, list)
    return found


def _where(cause: dict[str, Any]) -> str:
    turn, step = cause["divergence"]["turn"], cause["divergence"]["step"]
    return f"turn {turn + 1}, " + ("reply" if step is None else f"call {step + 1}")


def test_twelve_planted_mistakes_among_passes_are_twelve_causes_each_at_its_step(folder: Folder) -> None:
    write(folder)
    assert folder.seatrial("run").code == 1
    found = {int(cause["examples"][0]["trial"].removeprefix("trial-")): cause for cause in explain(folder)}
    assert {at: (cause["divergence"]["kind"], _where(cause)) for at, cause in found.items()} == PLANTED
    assert {cause["trials"] for cause in found.values()} == {2}
    assert all(len(cause["scenarios"]) == 2 for cause in found.values())
    said = folder.seatrial("explain").out
    assert "12 causes of 24 failed trials" in said
    for kind, where in PLANTED.values():
        assert f"      {where}: " in said, kind
    assert "the agent made no further call in this turn; the passed trial went on with track" in said
    assert "fix the exception at agent.py:" in said


def test_show_beside_marks_the_first_difference(folder: Folder) -> None:
    folder.write(
        "agent.py",
        """
        def reply(ctx, messages):
            order = ctx.call_tool("lookup_order", order_id="W1" if ctx.trial_id.endswith("-1") else "W2")
            return f"It is {order}."
        """,
    )
    folder.write(
        "one.trial.yaml",
        """
        suite: {agent: "agent:reply"}
        scenarios:
          - name: asks
            trials: 2
            input: Where is W1?
            expected_output: shipped
            mocks: {lookup_order: {when: [{args: {order_id: W1}, returns: shipped}], returns: unknown}}
        """,
    )
    folder.seatrial("run")
    lines = folder.seatrial("show", "latest", "asks", "2", "--beside").out.splitlines()
    at = next(
        place for place, line in enumerate(lines) if line.startswith("▶ first difference: lookup_order: order_id")
    )
    left, right = (side.strip() for side in lines[at + 1].split("│"))
    assert left.startswith('tool: lookup_order({"order_id": "W1"})')
    assert right.startswith('tool: lookup_order({"order_id": "W2"})')
    assert "  user: Where is W1?" in lines[:at]
    assert "trial-1 passed" in folder.seatrial("show", "latest", "asks", "1", "--beside").err
    assert "needs RUN, SCENARIO and TRIAL" in folder.seatrial("show", "latest", "asks", "--beside").err

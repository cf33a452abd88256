"""Evidence is plain data: a run, a regrade and a run with `isolation: process` judge the same values."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from seatrial.model.conversation import Transcript
from seatrial.store.store import open_store

VALUES = {
    "str subclass": ("Shout('ann')", "ann"),
    "int subclass": ("Odd(3)", 3),
    "float subclass": ("Cheap(2.5)", 2.5),
    "enum": ("Color.RED", "red"),
    "int enum": ("Level.HIGH", 3),
    "decimal": ("Decimal('12.50')", 12.5),
    "whole decimal": ("Decimal('12')", 12),
    "date": ("date(2026, 5, 1)", "2026-05-01"),
    "datetime": ("datetime(2026, 5, 1, 12, 30)", "2026-05-01T12:30:00"),
    "time": ("time(12, 30)", "12:30:00"),
    "uuid": ("UUID(int=7)", "00000000-0000-0000-0000-000000000007"),
    "path": ("PurePosixPath('/tmp/a')", "/tmp/a"),
    "dataclass": ("Order(Decimal('1.5'))", {"total": 1.5}),
    "model": ("Model()", {"day": "2026-05-01"}),
    "tuple": ("(1, 'a')", [1, "a"]),
    "set": ("{'c', 'a', 'b'}", ["a", "b", "c"]),
    "keys": ("{1: 'a', '1': 'b', None: 'c', date(2026, 5, 1): 'd'}",
             {"1": "b", "1 (2)": "a", "null": "c", "2026-05-01": "d"}),
    "dict subclass": ("Bag(a=1)", {"a": 1}),
    "nul": ("'a\\0b'", "a\0b"),
    "surrogates": ("'\\ud83d' + '\\ude00' + '\\ud800'", "\U0001f600\ud800"),
    "foreign": ("Thing()", "[Thing object]"),
    "bytes": ("b'ab'", "[bytes object]"),
    "circle": ("circle()", ["a", "[contains itself]"]),
    "broken": ("Broken()", "[Broken object that cannot be read]"),
}  # fmt: skip
TYPES = """
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from uuid import UUID
from seatrial import AgentResult, ToolCall, tool

class Shout(str):
    def __eq__(self, other): return False
    def __ne__(self, other): return True
    def __str__(self): return "LOUD"
    __hash__ = str.__hash__
class Odd(int):
    def __eq__(self, other): return False
    __hash__ = int.__hash__
class Cheap(float):
    def __eq__(self, other): return False
    __hash__ = float.__hash__
class Color(Enum): RED = "red"
class Level(IntEnum): HIGH = 3
@dataclass
class Order: total: Decimal
class Model:
    def model_dump(self, **more): return {"day": date(2026, 5, 1)}
class Bag(dict): pass
class Thing: pass
class Broken(Mapping):
    def __getitem__(self, key): raise RuntimeError
    def __iter__(self): raise RuntimeError
    def __len__(self): return 1
def circle():
    held = ["a"]
    held.append(held)
    return held
"""
AGENTS = {
    "returned": "def answer(input): return AgentResult('ok', [ToolCall('book', {'it': made(input)})])",
    "through ctx": "def answer(ctx):\n    ctx.call_tool('book', it=made(ctx.input))\n    return 'ok'",
    "wrapped": "@tool\ndef book(it): return it\n\ndef answer(input):\n    book(made(input))\n    return Shout('ok')",
}

Outcome = tuple[int, dict[str, Transcript]]


def outcome(folder: Any, *command: str) -> Outcome:
    """The exit code, and the conversation of each scenario without its times."""
    ended = folder.seatrial(*command)
    assert ended.code in (0, 1), ended.err
    with open_store(str(folder.path / ".seatrial" / "runs.db")) as store:
        run = store.run("latest")
        kept = {
            entry.key.name: next(iter(store.trials(run.id, entry.key))).transcript for entry in store.entries(run.id)
        }
    return ended.code, {name: timeless(transcript) for name, transcript in kept.items()}


def timeless(transcript: Transcript) -> Transcript:
    turns = tuple(replace(turn, started_ms=0.0, latency_ms=0.0) for turn in transcript.turns)
    return replace(transcript, turns=turns, duration_ms=0.0)


def write_suites(folder: Any, scenarios: list[dict[str, Any]]) -> None:
    """The same scenarios, with the agent in this process and in one of its own."""
    for name, isolation in (("here.json", "thread"), ("apart.json", "process")):
        suite = {"name": "s", "agent": "agent:answer", "config": {"isolation": isolation}}
        folder.write(name, json.dumps({"suite": suite, "scenarios": scenarios}))


def booking(kind: str) -> dict[str, Any]:
    plain = VALUES[kind][1]
    expect = {"tool_calls_args": [{"tool": "book", "args": {"it": plain}}]}
    return {"name": kind, "input": kind, "expect": expect}


@pytest.mark.parametrize("agent", AGENTS)
def test_foreign_values_give_one_verdict_in_a_run_a_regrade_and_a_worker(folder: Any, agent: str) -> None:
    made = ",".join(f"{kind!r}: lambda: {code}" for kind, (code, _) in VALUES.items())
    folder.write("agent.py", f"{TYPES}\ndef made(kind): return {{{made}}}[kind]()\n\n{AGENTS[agent]}\n")
    scenarios = [booking(kind) for kind in VALUES]
    if agent == "through ctx":
        mocks = [{"book": {"when": [{"args": {"it": plain}, "returns": "done"}]}} for _, plain in VALUES.values()]
        scenarios = [{**each, "mocks": mock} for each, mock in zip(scenarios, mocks, strict=True)]
    write_suites(folder, scenarios)

    code, played = outcome(folder, "run", "here.json")
    again, isolated = outcome(folder, "regrade", "latest"), outcome(folder, "run", "apart.json")

    calls = {kind: [call.arguments for call in found.tool_calls or ()] for kind, found in played.items()}
    assert calls == {kind: [{"it": plain}] for kind, (_, plain) in VALUES.items()}
    assert code == 0
    assert again == (code, played)
    assert isolated == (code, played)


def test_results_and_state_of_mocks_are_stored_as_plain_data(folder: Any) -> None:
    mock = """
def answer(args, ctx):
    ctx.state["at"] = {date(2026, 5, 1): Decimal("1.5")}
    ctx.state["thing"] = Thing()
    return Order(Decimal("2.5"))
"""
    folder.write("plain_mocks.py", TYPES + mock)
    folder.write("agent.py", "def answer(ctx):\n    ctx.call_tool('book')\n    return 'ok'\n")
    scenario = {
        "name": "a",
        "input": "x",
        "mocks": {"book": {"python": "plain_mocks:answer"}},
        "expected_state": {"at": {"2026-05-01": {"$between": [1, 2]}}, "thing": "[Thing object]"},
    }
    write_suites(folder, [scenario])

    code, played = outcome(folder, "run", "here.json")
    again, isolated = outcome(folder, "regrade", "latest"), outcome(folder, "run", "apart.json")

    assert code == 0
    assert [call.result for call in played["a"].tool_calls or ()] == [{"total": 2.5}]
    assert again == (code, played)
    assert isolated == (code, played)


def test_not_a_number_and_infinity_are_the_same_in_a_run_a_regrade_and_a_worker(folder: Any) -> None:
    folder.write(
        "agent.py", "def answer(ctx):\n    ctx.call_tool('book', it=[float('nan'), float('inf')])\n    return 'ok'"
    )
    expect = {"tool_calls_args": [{"tool": "book", "args": {"it": {"$contains": {"$gt": 5}}}}]}
    write_suites(folder, [{"name": "a", "input": "x", "expect": expect, "mocks": {"book": {"returns": 1}}}])

    for command in (("run", "here.json"), ("regrade", "latest"), ("run", "apart.json")):
        code, played = outcome(folder, *command)
        (call,) = played["a"].tool_calls or ()
        assert (code, repr(call.arguments)) == (0, "{'it': [nan, inf]}")


@pytest.mark.parametrize("form", ["ToolCall", "mapping", "function"])
def test_arguments_that_are_a_text_of_json_are_the_mapping_that_it_says(folder: Any, form: str) -> None:
    given = json.dumps(json.dumps({"order_id": 1}))
    code = {
        "ToolCall": f"def answer(input): return 'ok', [ToolCall('book', {given})]",
        "mapping": f"def answer(input): return 'ok', [{{'name': 'book', 'args': {given}}}]",
        "function": f"def answer(input): return 'ok', [{{'function': {{'name': 'book', 'arguments': {given}}}}}]",
    }
    folder.write("agent.py", f"from seatrial import ToolCall\n{code[form]}\n")
    args = {"order_id": {"$between": [1, 1]}}
    scenario = {
        "name": "a",
        "input": "x",
        "expected_tool_args": {"book": args},
        "expect": {"tool_calls_args": [{"tool": "book", "args": args, "mode": "exact", "calls": "all"}]},
        "trajectory": {
            "expected": [{"name": "book", "args": args, "max": 1}],
            "forbidden": [{"name": "book", "args": {"order_id": 2}}],
        },
    }
    write_suites(folder, [scenario])

    code_here, played = outcome(folder, "run", "here.json")

    assert [call.arguments for call in played["a"].tool_calls or ()] == [{"order_id": 1}]
    assert code_here == 0
    assert outcome(folder, "run", "apart.json") == (code_here, played)

"""What each key of a scenario file does: given one way the scenario passes, given the other way it does not."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AGENT = """
    import json, threading, time
    from pathlib import Path

    from seatrial import AgentResult, ToolCall, Usage

    lock, failed = threading.Lock(), {}

    def act(messages, ctx):
        "Does what the message orders."
        order = json.loads(messages[-1]["content"])
        time.sleep(order.get("sleep", 0))
        with lock:
            failed[ctx.trial_id] = failed.get(ctx.trial_id, 0) + 1
            if failed[ctx.trial_id] <= order.get("fail_times", 0): raise OSError("unreachable")
        for name in order.get("tools", ()): ctx.call_tool(name, {})
        calls = [ToolCall(name, args) for name, args in order["calls"]] if "calls" in order else None
        reply = order.get("reply", "ok")
        if reply == "first message": reply = messages[0]["content"]
        if reply == "number of messages": reply = str(len(messages))
        if reply == "tools": reply = ", ".join(tool["name"] for tool in ctx.tools)
        if reply == "only in trial 1": reply = "yes" if ctx.trial_id.endswith("-1") else "no"
        tokens = order.get("tokens")
        usage = None if tokens is None else Usage(input_tokens=tokens, output_tokens=0)
        return AgentResult(reply, tool_calls=calls, usage=usage, cost_usd=order.get("cost"))

    def fill(ctx): ctx.state["orders"] = 1
    def note(ctx): Path("torn-down").write_text(json.dumps(ctx.state))
    def asks_twice(conversation): return None if len(conversation) == 2 else json.dumps({"reply": "hello"})
"""


def order(**what: Any) -> str:
    """A message that makes the agent do this."""
    return json.dumps(what)


CALLS = order(calls=[["search", {"q": "a", "n": 1}], ["book", {"id": 7}]])
TWO_TURNS = [{"user": order(reply="one")}, {"user": order(reply="two")}]


def expecting(**keys: Any) -> dict[str, Any]:
    return {"input": order(reply="Booked BK-7", calls=[["search", {"q": "a"}], ["book", {"id": 7}]]), "expect": keys}


def trajectory(*expected: Any, **more: Any) -> dict[str, Any]:
    return {"input": CALLS, "trajectory": {"mode": "contains", "expected": list(expected), **more}}


def one_turn(**keys: Any) -> dict[str, Any]:
    return {"turns": [{"user": CALLS, **keys}]}


EFFECTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "input": ({"input": order()}, {"input": order(reply="")}),
    "turns": ({"turns": TWO_TURNS, "expected_output": "two"}, {"turns": TWO_TURNS, "expected_output": "one"}),
    "user": (
        {"user": "agent:asks_twice", "limits": {"turns": 2}, "expect": {"reply_contains_any": ["hello"]}},
        {"user": "agent:asks_twice", "limits": {"turns": 1}, "expect": {"reply_contains_any": ["hello"]}},
    ),
    "history": (
        {
            "input": order(reply="number of messages"),
            "expected_output": "3",
            "history": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        },
        {"input": order(reply="number of messages"), "expected_output": "3"},
    ),
    "system": (
        {"input": order(reply="first message"), "system": "Be brief.", "scorers": [{"exact": "be brief."}]},
        {"input": order(reply="first message"), "system": "Be long.", "scorers": [{"exact": "be brief."}]},
    ),
    "expected_output": (
        {"input": order(reply="30 days"), "expected_output": "30 DAYS"},
        {"input": order(reply="30 days"), "expected_output": "40 days"},
    ),
    "expected_tools": (
        {"input": CALLS, "expected_tools": ["book"]},
        {"input": CALLS, "expected_tools": ["pay"]},
    ),
    "expected_tool_args": (
        {"input": CALLS, "expected_tool_args": {"book": {"id": 7}}},
        {"input": CALLS, "expected_tool_args": {"book": {"id": 8}}},
    ),
    "scorers": ({"input": order(), "scorers": [{"regex": "^ok$"}]}, {"input": order(), "scorers": [{"regex": "^no"}]}),
    "metadata": (
        {"input": order(), "scorers": ["regex"], "metadata": {"regex_pattern": "ok"}},
        {"input": order(), "scorers": ["regex"], "metadata": {"regex_pattern": "no"}},
    ),
    "expect": (expecting(reply_contains_any=["booked"]), expecting(reply_contains_any=["sorry"])),
    "expect.reply_contains_any": (expecting(reply_contains_any=["x", "bk"]), expecting(reply_contains_any=["x", "y"])),
    "expect.reply_contains_all": (
        expecting(reply_contains_all=["booked", "7"]),
        expecting(reply_contains_all=["booked", "8"]),
    ),
    "expect.reply_matches_any": (expecting(reply_matches_any=["bk-\\d"]), expecting(reply_matches_any=["^BK"])),
    "expect.reply_matches_all": (
        expecting(reply_matches_all=["^b", "7$"]),
        expecting(reply_matches_all=["^b", "8$"]),
    ),
    "expect.reply_excludes": (expecting(reply_excludes=["sorry"]), expecting(reply_excludes=["BOOKED"])),
    "expect.tool_calls_include": (expecting(tool_calls_include=["book"]), expecting(tool_calls_include=["pay"])),
    "expect.tool_calls_exclude": (expecting(tool_calls_exclude=["pay"]), expecting(tool_calls_exclude=["book"])),
    "expect.tool_calls_ordered": (
        expecting(tool_calls_include=["book", "search"], tool_calls_ordered=False),
        expecting(tool_calls_include=["book", "search"], tool_calls_ordered=True),
    ),
    "expect.tool_calls_args": (
        expecting(tool_calls_args=[{"tool": "book", "args": {"id": 7}}]),
        expecting(tool_calls_args=[{"tool": "book", "args": {"id": 8}}]),
    ),
    "turn.expect": (
        one_turn(expect={"tool_calls_include": ["book"]}),
        one_turn(expect={"tool_calls_include": ["pay"]}),
    ),
    "turn.trajectory": (
        one_turn(trajectory={"expected": ["search", "book"]}),
        one_turn(trajectory={"expected": ["book", "search"]}),
    ),
    "turn.reply": (
        {"turns": [{"user": order(reply=""), "reply": "optional"}, {"user": order()}]},
        {"turns": [{"user": order(reply=""), "reply": "required"}, {"user": order()}]},
    ),
    "trajectory": (trajectory("book"), trajectory("pay")),
    "trajectory.mode": (trajectory("book", "search", mode="unordered"), trajectory("book", "search", mode="strict")),
    "trajectory.forbidden": (trajectory(forbidden=["pay"]), trajectory(forbidden=["book"])),
    "call.args": (trajectory({"name": "book", "args": {"id": 7}}), trajectory({"name": "book", "args": {"id": 8}})),
    "call.arg_match": (
        trajectory({"name": "search", "args": {"q": "a"}}),
        trajectory({"name": "search", "args": {"q": "a"}, "arg_match": "exact"}),
    ),
    "call.count": (trajectory({"name": "book", "count": 1}), trajectory({"name": "book", "count": 2})),
    "call.min": (trajectory({"name": "book", "min": 1}), trajectory({"name": "book", "min": 2})),
    "call.max": (
        {"input": CALLS, "trajectory": {"expected": [{"name": "book", "max": 1}]}},
        {
            "input": order(calls=[["book", {}], ["book", {}]]),
            "trajectory": {"expected": [{"name": "book", "max": 1}]},
        },
    ),
    "call.optional": (trajectory({"name": "pay", "optional": True}, "book"), trajectory("pay", "book")),
    "call.any_of": (trajectory({"any_of": ["pay", "book"]}), trajectory({"any_of": ["pay", "cancel"]})),
    "expected_state": (
        {"input": order(), "setup": "agent:fill", "expected_state": {"orders": 1}},
        {"input": order(), "setup": "agent:fill", "expected_state": {"orders": 2}},
    ),
    "setup": (
        {"input": order(), "setup": "agent:fill", "expected_state": {"orders": 1}},
        {"input": order(), "expected_state": {"orders": 1}},
    ),
    "mocks": ({"input": order(tools=["pay"]), "mocks": {"pay": {"returns": 1}}}, {"input": order(tools=["pay"])}),
    "tools": (
        {"input": order(reply="tools"), "tools": [{"name": "pay", "parameters": {}}], "expected_output": "pay"},
        {"input": order(reply="tools"), "expected_output": "pay"},
    ),
    "limits.latency_ms": (
        {"input": order(sleep=0.05), "limits": {"latency_ms": 60_000}},
        {"input": order(sleep=0.05), "limits": {"latency_ms": 1}},
    ),
    "limits.cost_usd": (
        {"input": order(cost=0.1), "limits": {"cost_usd": 0.1}},
        {"input": order(cost=0.1), "limits": {"cost_usd": 0.05}},
    ),
    "limits.tokens": (
        {"input": order(tokens=10), "limits": {"tokens": 10}},
        {"input": order(tokens=10), "limits": {"tokens": 9}},
    ),
    "limits.tool_calls": ({"input": CALLS, "limits": {"tool_calls": 2}}, {"input": CALLS, "limits": {"tool_calls": 1}}),
    "limits.turns": ({"turns": TWO_TURNS, "limits": {"turns": 2}}, {"turns": TWO_TURNS, "limits": {"turns": 1}}),
    "max_turns": (
        {"user": "agent:asks_twice", "max_turns": 1, "limits": {"turns": 1}},
        {"user": "agent:asks_twice", "max_turns": 2, "limits": {"turns": 1}},
    ),
    "timeout_seconds": (
        {"input": order(sleep=0.2), "timeout_seconds": 60},
        {"input": order(sleep=0.2), "timeout_seconds": 0.05},
    ),
    "trial_timeout_seconds": (
        {"input": order(sleep=0.2), "trial_timeout_seconds": 60},
        {"input": order(sleep=0.2), "trial_timeout_seconds": 0.05},
    ),
    "retries": ({"input": order(fail_times=1), "retries": 1}, {"input": order(fail_times=1), "retries": 0}),
    "trials": (
        {"input": order(reply="only in trial 1"), "expected_output": "yes", "trials": 1},
        {"input": order(reply="only in trial 1"), "expected_output": "yes", "trials": 2},
    ),
    "threshold": (
        {"input": order(reply="only in trial 1"), "expected_output": "yes", "trials": 2, "threshold": 0.5},
        {"input": order(reply="only in trial 1"), "expected_output": "yes", "trials": 2, "threshold": 0.6},
    ),
    "gate": (
        {"input": order(), "trials": 4, "gate": {"pass_rate": 0.2, "confidence": 0.9}},
        {"input": order(), "trials": 4, "gate": {"pass_rate": 0.9, "confidence": 0.9}},
    ),
    "gate.confidence": (
        {"input": order(), "trials": 4, "gate": {"pass_rate": 0.5, "confidence": 0.9}},
        {"input": order(), "trials": 4, "gate": {"pass_rate": 0.5, "confidence": 0.99}},
    ),
    "xfail": (
        {"input": order(), "expected_output": "ok"},
        {"input": order(), "expected_output": "ok", "xfail": "it never works"},
    ),
}


@pytest.fixture(scope="module")
def statuses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The status of every scenario, after one run."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "agent.py").write_text("\n".join(line[4:] for line in AGENT.splitlines()), encoding="utf-8")
    scenarios = [
        {"name": f"{key} {way}", **keys}
        for key, ways in EFFECTS.items()
        for way, keys in zip(("passes", "does not"), ways, strict=True)
    ]
    content = {"suite": {"agent": "agent:act"}, "scenarios": scenarios}
    (folder / "keys.trial.json").write_text(json.dumps(content), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "run", ".", "--report", "json"],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1, done.stderr
    results = json.loads((folder / ".seatrial" / "results.json").read_text("utf-8"))
    return {scenario["name"]: scenario["status"] for scenario in results["scenarios"]}


ERRORED = {"mocks", "setup", "timeout_seconds", "trial_timeout_seconds", "retries"}
UNDECIDED = {"gate", "gate.confidence"}


@pytest.mark.parametrize("key", EFFECTS)
def test_a_key_of_a_scenario_decides(key: str, statuses: dict[str, str]) -> None:
    otherwise = "errored" if key in ERRORED else "inconclusive" if key in UNDECIDED else "failed"

    assert (statuses[f"{key} passes"], statuses[f"{key} does not"]) == ("passed", otherwise)


def write_suite(folder: Any, suite: dict[str, Any], *scenarios: dict[str, Any]) -> None:
    folder.write("agent.py", AGENT)
    named = [{"name": f"s{number}", **scenario} for number, scenario in enumerate(scenarios, start=1)]
    folder.write("suite.yaml", json.dumps({"suite": {"agent": "agent:act", **suite}, "scenarios": named}))


def outcome(folder: Any, *flags: str) -> tuple[int, dict[str, str]]:
    ended = folder.seatrial("run", "suite.yaml", *flags)
    return ended.code, {one["name"]: one["status"] for one in folder.results()["scenarios"]}


def test_examples_make_a_scenario_of_each_row(folder: Any) -> None:
    rows = {"examples": [{"said": "ok"}, {"said": "no"}], "expected_output": "{said}"}
    write_suite(folder, {}, {"input": order(), **rows})

    assert sorted(outcome(folder)[1].values()) == ["failed", "passed"]


def test_teardown_sees_how_the_trial_ended(folder: Any) -> None:
    write_suite(folder, {"setup": "agent:fill", "teardown": "agent:note"}, {"input": order()})

    assert outcome(folder)[0] == 0
    assert json.loads((folder.path / "torn-down").read_text()) == {"orders": 1}


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"default_timeout": 60}, 0),
        ({"default_timeout": 0.05}, 1),
        ({"default_scorers": [{"regex": "ok"}]}, 0),
        ({"default_scorers": [{"regex": "never"}]}, 1),
        ({"cases_pass_threshold": 100}, 0),
    ],
)
def test_the_config_holds_for_every_scenario(folder: Any, config: dict[str, Any], code: int) -> None:
    write_suite(folder, {"config": config}, {"input": order(sleep=0.2)}, {"input": order()})

    assert outcome(folder)[0] == code


def test_a_scenario_overrides_the_config(folder: Any) -> None:
    suite = {"config": {"limits": {"turns": 5, "tokens": 1}}}
    write_suite(folder, suite, {"input": order(tokens=5), "limits": {"tokens": 10}}, {"input": order(tokens=5)})

    assert outcome(folder)[1] == {"s1": "passed", "s2": "failed"}


def test_several_agents_run_side_by_side(folder: Any) -> None:
    folder.write("agent.py", "def one(input): return 'one'\ndef two(input): return 'two'")
    suite = {"agents": {"first": "agent:one", "second": "agent:two"}}
    scenario = {"name": "says one", "input": "x", "expected_output": "one"}
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": [scenario]}))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "✓ says one [first]" in ended.out
    assert "✗ says one [second]" in ended.out


def test_must_pass_is_asked_for_even_where_enough_passed(folder: Any) -> None:
    bad = {"input": order(reply="")}
    write_suite(folder, {"config": {"cases_pass_threshold": 50}}, {"input": order()}, bad)
    assert outcome(folder)[0] == 0

    write_suite(folder, {"config": {"cases_pass_threshold": 50}}, {"input": order()}, {**bad, "must_pass": True})
    assert outcome(folder)[0] == 1


@pytest.mark.parametrize(
    "group", [{"tags": ["money"]}, {"tags": ["money"], "threshold": 0.9}, {"tags": ["small"], "must_pass": ["s2"]}]
)
def test_a_group_can_fail_a_run(folder: Any, group: dict[str, Any]) -> None:
    good = {"input": order(), "tags": ["small"]}
    bad = {"input": order(reply=""), "tags": ["money"]}
    config = {"cases_pass_threshold": 50}
    write_suite(folder, {"config": config, "groups": [{"name": "all", "tags": ["small"]}]}, good, bad)
    assert outcome(folder)[0] == 0

    write_suite(folder, {"config": config, "groups": [{"name": "strict", **group}]}, good, bad)
    assert outcome(folder)[0] == 1


def test_tags_of_the_suite_are_carried_by_its_scenarios(folder: Any) -> None:
    write_suite(folder, {"tags": ["nightly"]}, {"input": order()})

    assert outcome(folder, "--tag", "nightly") == (0, {"s1": "passed"})


def test_a_spent_budget_leaves_trials_out_and_does_not_pass(folder: Any) -> None:
    paid = {"input": order(cost=1.0)}
    write_suite(folder, {"config": {"budget": 1.5, "concurrency": 1}}, paid, paid, paid)

    assert outcome(folder) == (1, {"s1": "passed", "s2": "passed", "s3": "not_run"})
    assert outcome(folder, "--budget", "0.5") == (1, {"s1": "passed", "s2": "not_run", "s3": "not_run"})


@pytest.mark.parametrize(("concurrency", "code"), [(1, 1), (2, 0)])
def test_so_many_trials_run_at_a_time(folder: Any, concurrency: int, code: int) -> None:
    meet = "import threading\nmeeting = threading.Barrier(2, timeout=%s)\ndef act(input): meeting.wait(); return 'ok'"
    folder.write("agent.py", meet % (30 if code == 0 else 0.1))
    content = {
        "suite": {"agent": "agent:act", "config": {"concurrency": concurrency}},
        "scenarios": [{"name": "meets", "input": "x", "trials": 2}],
    }
    folder.write("suite.yaml", json.dumps(content))

    assert folder.process("run", "suite.yaml").code == code


def test_calls_are_spaced_by_rpm(folder: Any) -> None:
    folder.write("agent.py", "import time\ndef act(input): return str(time.monotonic())")
    suite = {"agent": "agent:act", "config": {"rpm": 1200}}
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": [{"name": "a", "input": "x", "trials": 11}]}))

    folder.seatrial("run", "suite.yaml")

    calls = [float(trial["turns"][0]["reply"]) for trial in folder.results()["scenarios"][0]["trials"]]
    assert max(calls) - min(calls) > 0.25, "ten gaps of 50 ms, less what the threads take to start"


def test_a_seed_makes_the_trials_draw_the_same(folder: Any) -> None:
    write_suite(folder, {"config": {"seed": 5}}, {"input": order()})

    seeds = []
    for _ in range(2):
        outcome(folder)
        seeds.append(folder.results()["scenarios"][0]["trials"][0]["seed"])

    assert seeds[0] == seeds[1]


def test_what_is_only_for_people_changes_nothing(folder: Any) -> None:
    words = {"description": "text", "metadata": {"owner": "me"}}
    write_suite(folder, words, {"input": order(), **words})

    assert outcome(folder) == (0, {"s1": "passed"})


def test_a_file_without_a_suite_is_named_after_itself(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    folder.write("alone.yaml", json.dumps({"scenarios": [{"name": "a", "input": order()}]}))

    assert folder.seatrial("run", "alone.yaml", "--agent", "agent:act").code == 0
    assert folder.results()["scenarios"][0]["suite"] == Path("alone.yaml").stem

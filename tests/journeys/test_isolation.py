"""`isolation: process`: Python agents in processes of their own, whatever they do there."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import Scenario, UsageError

AGENT = """
    import asyncio, os, sys, threading
    from seatrial import tool

    def answer(messages, ctx):
        print("noise on stdout")
        text = messages[-1]["content"]
        if text == "exit": os._exit(0)
        if text == "exit after a call":
            ctx.call_tool("lookup", id=1)
            os._exit(0)
        if text == "leave": sys.exit(0)
        if text == "raise": raise ValueError("no stock")
        if text == "hang": threading.Event().wait()
        if text == "swallow":
            try: ctx.call_tool("unknown")
            except Exception: return "all is well"
        found = ctx.call_tool("lookup", id=7)
        return f"{found['status']}, {search(text)}, {ctx.input}, turn {ctx.turn}"

    @tool
    def search(text): return f"really {text}"

    @tool
    async def find(text): return "the real one"

    async def concurrent(messages, ctx):
        one, two = await asyncio.gather(ctx.call_tool("lookup", id=1), find("x"))
        return f"{one['status']} {two['status']}"

    def message(messages):
        if messages[-1]["role"] == "tool":
            return "It is " + messages[-1]["content"]
        return {"role": "assistant", "tool_calls": [{"function": {"name": "lookup", "arguments": "{}"}}]}

    class Object:
        def __init__(self): self.said = []
        def run(self, input):
            self.said.append(input)
            return " and ".join(self.said)
        def close(self): print("closed")
"""
MOCKS = {"lookup": {"returns": {"status": "shipped"}}, "find": {"returns": {"status": "mocked"}}}


def run(folder: Any, scenarios: list[dict[str, Any]], agent: Any = "agent:answer", **config: Any) -> Any:
    """The trials by scenario, and how the run ended."""
    folder.write("agent.py", AGENT)
    config = {"isolation": "process", "mocks": MOCKS, "unmocked_tools": "passthrough", **config}
    content = {"suite": {"name": "shop", "agent": agent, "config": config}, "scenarios": scenarios}
    folder.write("suite.yaml", json.dumps(content))
    ended = folder.seatrial("run", "suite.yaml", "--report", "json")
    if ended.code == 2:
        return {}, ended
    return {one["name"]: one["trials"][0] for one in folder.results()["scenarios"]}, ended


def test_an_agent_in_a_process_answers_as_it_would_in_a_thread(folder: Any) -> None:
    scenario = {
        "name": "two turns",
        "turns": [
            {"user": "one", "expect": {"reply_contains_all": ["shipped, really one, one, turn 0"]}},
            {"user": "two", "expect": {"reply_contains_all": ["shipped, really two, two, turn 1"]}},
        ],
        "trajectory": {"mode": "strict", "expected": ["lookup", "search", "lookup", "search"]},
    }

    found, ended = run(folder, [scenario], {"type": "python", "target": "agent:answer", "tools": "all_wrapped"})

    assert ended.code == 0, ended.out
    assert "noise" not in ended.out
    calls = found["two turns"]["turns"][0]["tool_calls"]
    assert [(call["name"], call["arguments"], call["result"]) for call in calls] == [
        ("lookup", {"id": 7}, {"status": "shipped"}),
        ("search", {"text": "one"}, "really one"),
    ]


@pytest.mark.parametrize(
    ("agent", "reply"),
    [("concurrent", "shipped mocked"), ("message", 'It is {"status": "shipped"}'), ("Object", "hello")],
)
def test_every_kind_of_python_agent_can_be_isolated(folder: Any, agent: str, reply: str) -> None:
    found, ended = run(folder, [{"name": "a", "input": "hello", "expected_output": reply}], agent=f"agent:{agent}")

    assert ended.code == 0, ended.out
    assert found["a"]["turns"][0]["reply"] == reply


def test_what_an_agent_does_to_its_process_is_its_own_error_and_never_a_pass(folder: Any) -> None:
    names = ["exit", "leave", "raise", "hang", "exit after a call", "swallow", "fine"]
    scenarios = [{"name": name, "input": name, "timeout_seconds": 0.5 if name == "hang" else 30} for name in names]

    found, ended = run(folder, scenarios)

    assert ended.code == 1
    told = {name: (one["status"], (one["error"] or {}).get("kind")) for name, one in found.items()}
    assert told == {
        "exit": ("errored", "agent"),
        "leave": ("errored", "agent"),
        "raise": ("errored", "agent"),
        "hang": ("errored", "limit"),
        "exit after a call": ("errored", "agent"),
        "swallow": ("errored", "tool"),
        "fine": ("passed", None),
    }
    assert "✗ exit  ERROR agent: the process exited with code 0 before it replied" in ended.out
    assert "✗ raise  ERROR agent: ValueError: no stock" in ended.out
    assert "Tool 'unknown' was called but no mock is defined" in ended.out
    assert [call["name"] for call in found["exit after a call"]["turns"][0]["tool_calls"]] == ["lookup"]


def test_trials_do_not_share_an_object_though_they_share_a_process(folder: Any) -> None:
    turns = [{"user": "a"}, {"user": "b"}]
    scenario = {"name": "s", "trials": 4, "turns": turns, "expected_output": "a and b", "scorers": ["exact"]}

    _, ended = run(folder, [scenario], agent="agent:Object", concurrency=1)

    assert ended.code == 0, ended.out


def test_the_start_of_a_process_is_not_on_the_agents_clock(folder: Any) -> None:
    """Starting Python takes longer than this limit by itself."""
    folder.write("slow.py", "import time; time.sleep(0.5)\ndef answer(input): return 'ok'\n")

    _, ended = run(folder, [{"name": "s", "input": "x", "limits": {"latency_ms": 400}}], agent="slow:answer")

    assert ended.code == 0, ended.out


@pytest.mark.parametrize(
    ("agent", "code", "problem"),
    [
        ("agent:anwser", 2, "'agent' has no attribute 'anwser'. Did you mean 'answer'?"),
        ("ends:answer", 2, "agent 'ends:answer': importing it ended the process with code 0"),
        (
            {"type": "python", "target": "agent:Object", "scope": "week"},
            2,
            "scope must be 'trial' or 'run', got 'week'",
        ),
    ],
)
def test_mistakes_show_before_the_first_trial(folder: Any, agent: Any, code: int, problem: str) -> None:
    folder.write("ends.py", "import os; os._exit(0)")

    _, ended = run(folder, [{"name": "s", "input": "x"}], agent=agent)

    assert ended.code == code
    assert problem in ended.err


def test_a_python_object_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match=r"give the agent by its import path, 'package\.module:attribute'"):
        seatrial.run(Scenario(name="s", input="x"), agent=lambda input: "ok", store=None, isolation="process")


HANGS = """
    import os, pathlib, time

    def answer(input):
        pathlib.Path("asked.new").write_text(str(os.getpid()))
        os.rename("asked.new", "asked")
        time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_process_does_not_outlive_a_run_that_is_killed(folder: Any) -> None:
    folder.write("hangs.py", HANGS)
    suite = {"agent": "hangs:answer", "config": {"isolation": "process"}}
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": [{"name": "s", "input": "x"}]}))
    command = [sys.executable, "-m", "seatrial", "run", "suite.yaml"]
    with subprocess.Popen(command, cwd=folder.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        assert until((folder.path / "asked").exists)
        run.kill()
    worker = int((folder.path / "asked").read_text())

    assert until(lambda: not is_there(worker))


def until(holds: Callable[[], bool]) -> bool:
    return any(holds() or time.sleep(0.05) for _ in range(600))


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True

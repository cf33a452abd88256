"""Agents behind any JSON API, and agents that are programs: what `seatrial run` says of each."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

PROGRAM = """
    import json, os, sys, time

    def say(**message):
        print(json.dumps(message), flush=True)

    for line in sys.stdin:
        message = json.loads(line)
        text = message.get("input", "")
        if message["type"] == "tool_results":
            say(type="reply", content="It is " + json.loads(message["results"][0]["content"])["status"])
        elif text == "a tool":
            say(type="tool_calls", tool_calls=[{"name": "lookup", "arguments": {"id": 7}}])
        elif text == "an exit":
            print("out of memory", file=sys.stderr)
            os._exit(0)
        elif text == "a log line": print("starting up", flush=True)
        elif text == "an error": say(type="error", message="no such shop")
        elif text == "a hang": time.sleep(3600)
        elif text == "nothing": say(type="reply", content="")
        elif text == "hidden calls": say(type="reply", content="done", tool_calls=None)
        elif text == "own calls": say(type="reply", content="done", tool_calls=[{"name": "refund", "arguments": {}}])
        else: say(type="reply", content="It is shipped", usage={"input_tokens": 3, "output_tokens": 4}, cost_usd=0.5)
"""
A_PROGRAM = {"type": "command", "argv": [sys.executable, "program.py"]}
MOCKS = {"lookup": {"returns": {"status": "shipped"}}}


class Server(ThreadingHTTPServer):
    request_queue_size = 128


class Api(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))["question"]
        status, media, body = ANSWERS[asked]
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None: ...


JSON = "application/json"
FULL = {
    "answer": {"text": "It is shipped"},
    "steps": [{"name": "lookup", "arguments": {"id": 7}, "result": {"status": "shipped"}}],
    "meta": {"usage": {"input_tokens": 3, "output_tokens": 4}, "cost": 0.5},
}
ANSWERS: dict[str, tuple[int, str, Any]] = {
    "all is well": (200, JSON, FULL),
    "no calls": (200, JSON, {**FULL, "steps": []}),
    "calls not told": (200, JSON, {**FULL, "steps": None}),
    "cost not told": (200, JSON, {**FULL, "meta": {}}),
    "500": (500, JSON, {"error": "database down"}),
    "a page": (200, "text/html", "<html>Welcome</html>"),
    "another form": (200, JSON, {"reply": "It is shipped"}),
    "an empty reply": (200, JSON, {**FULL, "answer": {"text": ""}}),
}


@pytest.fixture
def api() -> Iterator[str]:
    server = Server(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/ask"
    server.shutdown()
    thread.join()
    server.server_close()


def run(folder: Any, agent: dict[str, Any], scenarios: dict[str, dict[str, Any]]) -> tuple[Any, str]:
    """The trials by scenario, and the console."""
    written = [{"name": name, "input": name, **keys} for name, keys in scenarios.items()]
    suite = {"name": "shop", "agent": agent, "config": {"mocks": MOCKS}}
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": written}))
    ended = folder.seatrial("run", "suite.yaml", "--report", "json")
    assert ended.code == 1, ended.err
    return {one["name"]: one["trials"][0] for one in folder.results()["scenarios"]}, ended.out


def told(trials: Any) -> dict[str, tuple[str, str | None]]:
    return {name: (one["status"], (one["error"] or {}).get("kind")) for name, one in trials.items()}


def test_any_json_api_can_be_tried(folder: Any, api: str) -> None:
    agent = {
        "type": "http",
        "url": api,
        "body": {"question": "{{input}}", "thread": "{{trial_id}}"},
        "output": "answer.text",
        "tool_calls": "steps",
        "usage": "meta.usage",
        "cost_usd": "meta.cost",
    }
    limits = {"limits": {"tokens": 7, "cost_usd": 0.5, "tool_calls": 1}}
    scenarios: dict[str, dict[str, Any]] = {
        "all is well": {"expected_tool_args": {"lookup": {"id": 7}}, **limits},
        "no calls": {"expected_tools": ["lookup"]},
        "calls not told": {"expect": {"tool_calls_exclude": ["refund"]}},
        "cost not told": limits,
        "500": {},
        "a page": {},
        "another form": {},
        "an empty reply": {},
    }

    trials, out = run(folder, agent, scenarios)

    assert told(trials) == {
        "all is well": ("passed", None),
        "no calls": ("failed", None),
        "calls not told": ("errored", "config"),
        "cost not told": ("errored", "config"),
        "500": ("errored", "agent"),
        "a page": ("errored", "agent"),
        "another form": ("errored", "agent"),
        "an empty reply": ("failed", None),
    }
    assert trials["all is well"]["usage"]["total_tokens"] == 7
    for line in (
        "✓ all is well",
        "missing call: lookup",
        "✗ calls not told  ERROR config: must_exclude: the agent's tool calls were not recorded",
        "✗ cost not told  ERROR config: limits: cost_usd, tokens of the trial is not known",
        '✗ 500  ERROR agent: endpoint returned 500: {"error": "database down"}',
        "✗ a page  ERROR agent: endpoint returned text/html where JSON was due: <html>Welcome</html>",
        "✗ another form  ERROR agent: endpoint returned nothing at output 'answer.text': {",
        "empty reply",
    ):
        assert line in out


def test_a_program_in_any_language_can_be_tried(folder: Any) -> None:
    folder.write("program.py", PROGRAM)
    scenarios: dict[str, dict[str, Any]] = {
        "all is well": {"expected_output": "shipped", "limits": {"tokens": 7, "cost_usd": 0.5}},
        "a tool": {"expected_tool_args": {"lookup": {"id": 7}}, "expected_output": "It is shipped"},
        "an exit": {},
        "a log line": {},
        "an error": {},
        "a hang": {"timeout_seconds": 0.5},
        "nothing": {},
        "own calls": {"expect": {"tool_calls_exclude": ["refund"]}},
        "hidden calls": {"expect": {"tool_calls_exclude": ["refund"]}},
    }

    trials, out = run(folder, A_PROGRAM, scenarios)

    assert told(trials) == {
        "all is well": ("passed", None),
        "a tool": ("passed", None),
        "an exit": ("errored", "agent"),
        "a log line": ("errored", "agent"),
        "an error": ("errored", "agent"),
        "a hang": ("errored", "limit"),
        "nothing": ("failed", None),
        "own calls": ("failed", None),
        "hidden calls": ("errored", "config"),
    }
    for line in (
        "✗ an exit  ERROR agent: the process exited with code 0 before it replied; stderr ends: out of memory",
        "✗ a log line  ERROR agent: the process wrote a line that is no JSON object: starting up",
        "stdout is for the protocol alone; write logs to stderr",
        "✗ an error  ERROR agent: the process reported an error: no such shop",
        "✗ a hang  ERROR limit: the agent did not answer within 0.5 s",
        "✗ hidden calls  ERROR config: must_exclude: the agent's tool calls were not recorded",
    ):
        assert line in out


def test_calls_that_a_program_hides_in_one_turn_are_no_evidence_though_others_were_seen(folder: Any) -> None:
    folder.write("program.py", PROGRAM)
    turns = [{"user": "a tool"}, {"user": "hidden calls", "expect": {"tool_calls_exclude": ["refund"]}}]
    suite = {
        "name": "shop",
        "agent": A_PROGRAM,
        "config": {"mocks": MOCKS},
    }
    content = {"suite": suite, "scenarios": [{"name": "two turns", "turns": turns}]}
    folder.write("suite.yaml", json.dumps(content))

    ended = folder.seatrial("run", "suite.yaml", "--report", "json")

    assert ended.code == 1
    (trial,) = folder.results()["scenarios"][0]["trials"]
    assert [turn["tool_calls"] and turn["tool_calls"][0]["name"] for turn in trial["turns"]] == ["lookup", None]
    assert (trial["status"], trial["error"]["kind"]) == ("errored", "config")


def test_a_program_that_cannot_be_started_is_a_mistake_in_the_set_up(folder: Any) -> None:
    trials, out = run(folder, {"type": "command", "argv": ["no-such-program"]}, {"a": {}})

    assert told(trials) == {"a": ("errored", "config")}
    assert "the agent's command 'no-such-program' cannot be started: No such file or directory" in out

"""Chat-completions endpoints, well-behaved and not: what `seatrial run` says of each, in its console and its JSON.

All of them are one run against a real server on loopback. The user's message names what the server does.
"""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

TOKEN = "tok-3141592653589793"
MB_50 = 50_000_000


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []
        self.closing = threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        case = next(message["content"] for message in body["messages"] if message["role"] == "user")
        self.server.asked.append(case)
        first = body["messages"][-1]["role"] == "user"
        try:
            BEHAVIOURS[case](self, first)
        except ConnectionError:  # the client does not want more
            self.close_connection = True

    def send(self, body: Any, status: int = 200, media: str = "application/json", **headers: str) -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.start(status, media, **headers, content_length=str(len(content)))
        self.wfile.write(content)

    def start(self, status: int, media: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": media, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def say(self, content: Any = "It is shipped.", **message: Any) -> None:
        self.send({"choices": [{"message": {"role": "assistant", "content": content, **message}}]})

    def call(self, first: bool, *calls: dict[str, Any], **message: Any) -> None:
        """Ask for tools when the user has spoken, reply when they have answered."""
        if not first:
            return self.say()
        return self.send({"choices": [{"message": {"role": "assistant", "tool_calls": list(calls), **message}}]})

    def stream(self, *events: str) -> None:
        self.send("".join(f"data: {event}\n\n" for event in events), media="text/event-stream")

    def stall(self) -> None:
        """Begin a stream and never go on with it."""
        self.start(200, "text/event-stream", transfer_encoding="chunked")
        piece = f"data: {delta(content='It is')}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.flush()
        self.server.closing.wait()
        self.close_connection = True

    def flood(self) -> None:
        self.start(200, "application/json", content_length=str(MB_50))
        for _ in range(MB_50 // 1_000_000):
            self.wfile.write(b" " * 1_000_000)

    def break_off(self) -> None:
        self.start(200, "application/json", content_length="1000")
        self.wfile.write(b'{"choices": [')
        self.close_connection = True

    def busy_once(self) -> None:
        if self.server.asked.count("429, then an answer") > 1:
            return self.say()
        return self.send({"error": "slow down"}, 429, retry_after="0.05")

    def log_message(self, format: str, *args: Any) -> None: ...


def tool(name: str = "lookup", arguments: Any = '{"id": 7}', **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, "id": "c1", **more}


def delta(finish: str | None = None, **fields: Any) -> str:
    return json.dumps({"choices": [{"delta": fields, "finish_reason": finish}]})


BEHAVIOURS: dict[str, Callable[[Handler, bool], None]] = {
    "a plain reply": lambda h, first: h.say(),
    "a stream": lambda h, first: h.stream(delta(content="It is "), delta("stop", content="shipped."), "[DONE]"),
    "object arguments": lambda h, first: h.call(first, tool(arguments={"id": 7}), content=None),
    "missing ids": lambda h, first: h.call(first, tool(id=None), tool(id="", arguments='{"id": 8}'), content=None),
    "content absent": lambda h, first: h.call(first, tool()),
    "broken arguments": lambda h, first: h.call(first, tool(arguments='{"id": '), content=None),
    "5,000 calls": lambda h, first: h.call(first, *(tool(id=f"c{n}") for n in range(5000)), content=None),
    "parts": lambda h, first: h.say([{"type": "text", "text": "It is "}, {"type": "text", "text": "shipped."}]),
    "429, then an answer": lambda h, first: h.busy_once(),
    "an endless loop": lambda h, first: h.call(True, tool(), content=None),
    "a call without a mock": lambda h, first: h.call(True, tool("send_email"), content=None),
    "429": lambda h, first: h.send({"error": "slow down"}, 429, retry_after="7"),
    "500": lambda h, first: h.send({"error": "database down", "you": h.headers["authorization"]}, 500),
    "a redirect": lambda h, first: h.send("", 302, location="http://elsewhere.example/"),
    "a page": lambda h, first: h.send("<html>Welcome</html>", media="text/html"),
    "broken JSON": lambda h, first: h.send('{"choices": ['),
    "no message": lambda h, first: h.send({"choices": []}),
    "nothing": lambda h, first: h.send(""),
    "an empty stream": lambda h, first: h.stream(),
    "an error event": lambda h, first: h.stream(delta(content="It is"), '{"error": {"message": "overloaded"}}'),
    "half a stream": lambda h, first: h.stream(delta(content="It is")),
    "a stalled stream": lambda h, first: h.stall(),
    "a body of 50 MB": lambda h, first: h.flood(),
    "half a body": lambda h, first: h.break_off(),
    "an empty reply": lambda h, first: h.say(""),
    "a reply of null": lambda h, first: h.say(None),
}
GOOD = [
    "a plain reply",
    "a stream",
    "object arguments",
    "missing ids",
    "content absent",
    "broken arguments",
    "5,000 calls",
    "parts",
    "429, then an answer",
]
OWN_KEYS: dict[str, dict[str, Any]] = {
    "429, then an answer": {"retries": 1},
    "a stalled stream": {"timeout_seconds": 0.5},
    "an endless loop": {"timeout_seconds": 60},
}


class Outcome:
    """What the run said of each scenario."""

    def __init__(self, code: int, out: str, results: Any, raw: str) -> None:
        self.code = code
        self.out = out
        self.raw = raw
        self.trials = {one["name"]: one["trials"][0] for one in results["scenarios"]}

    def console(self, case: str) -> str:
        """The scenario's own lines."""
        lines = self.out.splitlines()
        start = next(n for n, line in enumerate(lines) if line[2:].startswith((f"{case}  ", f"{case} (")))
        end = next(n for n, line in enumerate(lines[start + 1 :], start + 1) if not line.startswith(" "))
        return "\n".join(lines[start:end])


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("endpoints")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    with socket.socket() as taken:  # bound and never listening: connections to it are refused
        taken.bind(("127.0.0.1", 0))
        suites = {
            "served": (server.server_port, [{"name": case, "input": case} for case in BEHAVIOURS]),
            "refused": (taken.getsockname()[1], [{"name": "connection refused", "input": "hello"}]),
        }
        for name, (port, scenarios) in suites.items():
            agent = {
                "type": "openai",
                "base_url": f"http://127.0.0.1:{port}/v1",
                "headers": {"Authorization": "Bearer ${AGENT_TOKEN}"},
            }
            config = {"mocks": {"lookup": {"returns": {"status": "shipped"}}}}
            written = [{**scenario, **OWN_KEYS.get(scenario["name"], {})} for scenario in scenarios]
            content = {"suite": {"name": name, "agent": agent, "config": config}, "scenarios": written}
            (folder / f"{name}.yaml").write_text(json.dumps(content))
        ended = subprocess.run(
            [sys.executable, "-m", "seatrial", "run", "served.yaml", "refused.yaml", "--report", "json"],
            cwd=folder,
            env={**os.environ, "AGENT_TOKEN": TOKEN, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            encoding="utf-8",
            timeout=90,
            check=False,
        )
    server.closing.set()
    server.shutdown()
    thread.join()
    server.server_close()
    raw = (folder / ".seatrial" / "results.json").read_text("utf-8")
    return Outcome(ended.returncode, ended.stdout + ended.stderr, json.loads(raw), raw)


@pytest.mark.parametrize("case", GOOD)
def test_what_can_be_understood_passes(outcome: Outcome, case: str) -> None:
    trial = outcome.trials[case]

    assert trial["status"] == "passed", trial["error"]
    assert trial["turns"][0]["reply"] == "It is shipped."
    assert outcome.console(case).startswith(f"✓ {case}")


def test_calls_are_kept_as_they_came(outcome: Outcome) -> None:
    calls = {case: outcome.trials[case]["turns"][0]["tool_calls"] for case in GOOD}

    assert calls["a plain reply"] == []
    assert [call["arguments"] for call in calls["object arguments"]] == [{"id": 7}]
    assert [call["arguments"] for call in calls["missing ids"]] == [{"id": 7}, {"id": 8}]
    assert len({call["id"] for call in calls["missing ids"]}) == 2
    (broken,) = calls["broken arguments"]
    assert (broken["arguments"], broken["result"]) == ('{"id": ', None)
    assert broken["error"].startswith("arguments are not a JSON object")
    assert len(calls["5,000 calls"]) == 5000


def test_a_retry_is_recorded(outcome: Outcome) -> None:
    assert outcome.trials["429, then an answer"]["turns"][0]["retries"] == 1


@pytest.mark.parametrize(
    ("case", "kind", "message"),
    [
        ("an endless loop", "limit", "the agent asked for tools 50 times in one turn without replying"),
        ("a call without a mock", "tool", "Tool 'send_email' was called but no mock is defined"),
        ("429", "agent", 'endpoint returned 429: {"error": "slow down"}'),
        ("500", "agent", 'endpoint returned 500: {"error": "database down", "you": "[redacted]"}'),
        ("a redirect", "agent", "endpoint returned 302, a redirect to http://elsewhere.example/"),
        ("a page", "agent", "endpoint returned text/html where JSON was due: <html>Welcome</html>"),
        ("broken JSON", "agent", 'endpoint returned a body that is not JSON: {"choices": ['),
        ("no message", "agent", 'endpoint returned a completion without choices[0].message: {"choices": []}'),
        ("nothing", "agent", "endpoint returned 200: (empty body)"),
        ("an empty stream", "agent", "endpoint returned an empty stream"),
        ("an error event", "agent", 'endpoint streamed an error: {"error": {"message": "overloaded"}}'),
        ("half a stream", "agent", "the stream broke off before its end, after: It is"),
        ("a stalled stream", "limit", "the agent did not answer within 0.5 s"),
        ("a body of 50 MB", "agent", "endpoint returned 200 with a body of more than 10 MB"),
        ("half a body", "agent", "the connection to http://127.0.0.1:"),
        ("connection refused", "infra", "cannot connect to http://127.0.0.1:"),
    ],
)
def test_what_is_no_answer_is_errored_and_says_why(outcome: Outcome, case: str, kind: str, message: str) -> None:
    trial = outcome.trials[case]

    assert (trial["status"], trial["error"]["kind"]) == ("errored", kind)
    assert trial["error"]["message"].startswith(message)
    assert trial["turns"][0]["reply"] is None
    assert outcome.console(case).startswith(f"✗ {case}  ERROR {kind}: {message}")


@pytest.mark.parametrize("case", ["an empty reply", "a reply of null"])
def test_an_empty_reply_is_failed(outcome: Outcome, case: str) -> None:
    assert outcome.trials[case]["status"] == "failed"
    assert outcome.console(case).splitlines()[1].strip() == "empty reply"
    assert "Output produced: FAIL (empty output)." in str(outcome.trials[case]["results"])


def test_what_was_called_before_an_error_is_kept(outcome: Outcome) -> None:
    assert len(outcome.trials["an endless loop"]["turns"][0]["tool_calls"]) >= 50
    (call,) = outcome.trials["a call without a mock"]["turns"][0]["tool_calls"]
    assert call["name"] == "send_email"
    assert "mocks:\n" in outcome.out
    assert "send_email: {returns: {}}" in outcome.out


def test_no_secret_is_shown_or_kept(outcome: Outcome) -> None:
    assert outcome.code == 1
    assert TOKEN not in outcome.out + outcome.raw

"""`run --notify`: a webhook on this machine hears how the run ended, and can verify who says so."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from seatrial.reports import notify


class Webhook(ThreadingHTTPServer):
    """Keeps what it received, and answers with the given statuses, the last one again and again."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = [204]
        self.received: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/SECRET-PATH"


class _Handler(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((dict(self.headers), body))
        statuses = self.server.statuses
        self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setattr(notify, "_WAITS", (0.0, 0.0))
    with Webhook() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def suite(folder: Any) -> Any:
    folder.write("agent.py", "def answer(input): return '<!channel> within 40 days'")
    folder.write(
        "s.yaml",
        """
        suite: {agent: 'agent:answer'}
        scenarios:
          - {name: passes, input: x}
          - {name: "<!here> fails", input: x, expected_output: 30 days, trials: 2}
        """,
    )
    return folder


def test_a_webhook_hears_the_verdict_and_the_failing_check(suite: Any, webhook: Webhook) -> None:
    ended = suite.seatrial("run", "s.yaml", "--notify", webhook.url)
    [(_, body)] = webhook.received
    told = json.loads(body)

    assert ended.code == 1
    assert (told["verdict"], told["passed"], told["trials"]) == ("failed", False, {"passed": 1, "total": 3})
    assert told["scenarios"] == {"passed": 1, "total": 2}
    assert [one["reason"] for one in told["failures"]] == ['reply lacks "30 days"']


def test_the_signature_proves_the_sender(suite: Any, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_NOTIFY_SECRET", "a-shared-secret-1")
    monkeypatch.setenv("SEATRIAL_NOTIFY", webhook.url)
    suite.seatrial("run", "s.yaml")
    [(headers, body)] = webhook.received

    signed = headers["X-Seatrial-Timestamp"].encode() + b"." + body
    expected = hmac.new(b"a-shared-secret-1", signed, hashlib.sha256).hexdigest()
    assert headers["X-Seatrial-Signature"] == f"sha256={expected}"


def test_slack_gets_its_own_format_without_mentions(suite: Any, webhook: Webhook) -> None:
    suite.seatrial("run", "s.yaml", "--notify", f"slack={webhook.url}")
    [(headers, body)] = webhook.received
    text = json.loads(body)["blocks"][0]["text"]["text"]

    assert text.startswith(":x: *s*: FAIL: 1 scenario failed\n• &lt;!here&gt; fails: reply lacks")
    assert "<!" not in text
    assert json.loads(body)["blocks"][0]["text"]["verbatim"] is True, "Slack would make links and mentions of texts"
    assert "X-Seatrial-Signature" not in headers


def test_a_webhook_that_recovers_is_asked_again(suite: Any, webhook: Webhook) -> None:
    webhook.statuses = [503, 429, 204]
    ended = suite.seatrial("run", "s.yaml", "--scenario", "passes", "--notify", webhook.url)

    assert (ended.code, len(webhook.received)) == (0, 3)
    assert "warning" not in ended.err


@pytest.mark.parametrize(("status", "attempts"), [(500, 3), (404, 1), (302, 1)])
def test_a_webhook_that_fails_is_a_warning_and_no_verdict(
    suite: Any, webhook: Webhook, status: int, attempts: int
) -> None:
    webhook.statuses = [status]
    ended = suite.seatrial("run", "s.yaml", "--scenario", "passes", "--notify", webhook.url)

    assert (ended.code, len(webhook.received)) == (0, attempts)
    place = webhook.url.removesuffix("/services/SECRET-PATH")
    assert f"warning: --notify {place}: HTTP {status}. The verdict of the run is not affected" in ended.err


def test_a_webhook_that_is_not_there_is_a_warning(suite: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "_WAITS", (0.0, 0.0))
    ended = suite.seatrial("run", "s.yaml", "--scenario", "passes", "--notify", "http://127.0.0.1:9/x")

    assert ended.code == 0
    assert "warning: --notify http://127.0.0.1:9: " in ended.err


def test_the_address_is_stored_and_printed_nowhere(
    suite: Any, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (["--notify", webhook.url], [f"--notify={webhook.url}"]):
        args = ["run", "s.yaml", *arguments]
        monkeypatch.setattr("sys.argv", ["seatrial", *args])
        ended = suite.seatrial(*args)
        shown = suite.seatrial("show", "latest", "--json").out

        assert len(webhook.received) > 0
        assert "SECRET-PATH" not in ended.out + ended.err + shown
        assert "--notify" in json.loads(shown)["run"]["config"]["command"]


@pytest.mark.parametrize("text", ["hooks.slack.com/x", "ftp://x", "slack=", "http://", "http://[x"])
def test_an_address_that_is_none_is_refused_before_the_run(suite: Any, text: str) -> None:
    ended = suite.seatrial("run", "s.yaml", "--notify", text)

    assert (ended.code, suite.exists(".seatrial")) == (2, False)
    assert ended.err == (
        "error: --notify or SEATRIAL_NOTIFY: expected an address that begins with http:// or https://, or slack=https://…\n"
    )

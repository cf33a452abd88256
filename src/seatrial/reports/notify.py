"""`--notify`: tells a webhook, or a Slack channel, how a run ended. A notification never changes a verdict."""

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioOutcome, Status
from seatrial.model.struct import Struct
from seatrial.version import __version__

from .failing_checks import failing_check
from .terminal import one_line, shorten
from .texts import counts_of, failing, verdict_line

SECRET_VARIABLE: Final = "SEATRIAL_NOTIFY_SECRET"
_ATTEMPTS: Final = 3
_WAITS: Final = (1.0, 3.0)
"""Seconds before the second and the third attempt."""
_TIMEOUT_SECONDS: Final = 10.0
_FAILURES_NAMED: Final = 10
_MARKS = {Status.PASSED: ":white_check_mark:", Status.FAILED: ":x:", Status.ERRORED: ":boom:"}


class Receiver(Struct, frozen=True, kw_only=True):
    """Where to send a notification, and in which form."""

    url: str
    slack: bool = False

    @property
    def place(self) -> str:
        """The address without its path, which may be a secret."""
        from urllib.parse import urlsplit

        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def parse_receiver(text: str) -> Receiver:
    """`https://…`, or `slack=https://…`. Addresses of hooks.slack.com are Slack's in any case. Raises UsageError."""
    from urllib.parse import urlsplit

    url = text.removeprefix("slack=").strip()
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        # Not shown: the text may hold a secret.
        raise UsageError(
            "--notify or SEATRIAL_NOTIFY: expected an address that begins with http:// or https://, or slack=https://…"
        )
    return Receiver(url=url, slack=text.startswith("slack=") or parts.hostname == "hooks.slack.com")


def notify(receiver: Receiver, record: RunRecord, environ: Mapping[str, str]) -> str | None:
    """Send the notification. Returns what went wrong, or None."""
    facts = run_facts(record, environ)
    body = json.dumps(_slack_message(facts) if receiver.slack else facts, ensure_ascii=False).encode()
    headers = {"Content-Type": "application/json", "User-Agent": f"seatrial/{__version__}"}
    secret = environ.get(SECRET_VARIABLE)
    if secret and not receiver.slack:
        headers |= sign(body, secret, timestamp=str(int(now().timestamp())))
    problem = None
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_WAITS[attempt - 1])
        problem, again = _post(receiver.url, body, headers)
        if problem is None or not again:
            break
    return None if problem is None else f"--notify {receiver.place}: {problem}. The verdict of the run is not affected"


def sign(body: bytes, secret: str, *, timestamp: str) -> dict[str, str]:
    """The headers that prove who sent the body, and when: HMAC-SHA256 of `timestamp.body`."""
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {"X-Seatrial-Timestamp": timestamp, "X-Seatrial-Signature": f"sha256={digest}"}


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[str | None, bool]:
    """What went wrong, and whether another attempt may help."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Refusing(HTTPRedirectHandler):
        """A redirected POST would lose its body."""

        def redirect_request(self, *args: Any) -> None:
            return None

    request = Request(url, data=body, headers=dict(headers), method="POST")
    try:
        with build_opener(Refusing).open(request, timeout=_TIMEOUT_SECONDS):
            return None, False
    except HTTPError as error:
        with error:
            return f"HTTP {error.code}", error.code >= 500 or error.code in (408, 429)
    except URLError as error:
        return str(error.reason), True
    except (OSError, HTTPException, ValueError) as error:
        return f"{type(error).__name__}: {error}", True


def run_facts(record: RunRecord, environ: Mapping[str, str]) -> dict[str, Any]:
    """The body for a webhook."""
    outcome, run = record.outcome, record.run
    counts = counts_of(outcome)
    failures = failing(outcome)
    return {
        "event": "run.finished",
        "run": run.id,
        "name": run.name,
        "verdict": outcome.verdict.status.value,
        "passed": outcome.verdict.passed,
        "summary": verdict_line(outcome),
        "scenarios": {"passed": counts.passed, "total": counts.passed + counts.failing},
        "trials": {"passed": outcome.totals.passed_count, "total": outcome.totals.total_executions},
        "failures": [_failure(record, one) for one in failures[:_FAILURES_NAMED]],
        "failures_left_out": max(0, len(failures) - _FAILURES_NAMED),
        "commit": run.git_commit,
        "job": _job(environ),
    }


def _failure(record: RunRecord, outcome: ScenarioOutcome) -> dict[str, Any]:
    first = next((trial for trial in record.trials(outcome.entry.key) if trial.status is not Status.PASSED), None)
    reasons = (first.failure_reasons if first is not None else ()) or outcome.verdict.failure_reasons
    return {
        "suite": outcome.entry.key.suite,
        "scenario": outcome.entry.key.label,
        "status": outcome.verdict.status.value,
        "reason": shorten(failing_check(reasons[0]), 300) if reasons else "",
    }


def _job(environ: Mapping[str, str]) -> str | None:
    """The page of the CI job."""
    if environ.get("GITHUB_RUN_ID"):
        server, repository = environ.get("GITHUB_SERVER_URL", ""), environ.get("GITHUB_REPOSITORY", "")
        return f"{server}/{repository}/actions/runs/{environ['GITHUB_RUN_ID']}"
    return environ.get("CI_JOB_URL") or environ.get("BUILD_URL") or None


def _slack_message(facts: Mapping[str, Any]) -> dict[str, Any]:
    mark = _MARKS.get(Status(facts["verdict"]), ":grey_question:")
    lines = [f"{mark} *{_escaped(facts['name'])}*: {_escaped(facts['summary'])}"]
    lines += [f"• {_escaped(one['scenario'])}: {_escaped(one['reason'])}" for one in facts["failures"]]
    if facts["failures_left_out"]:
        lines.append(f"… {facts['failures_left_out']} more")
    lines.append(
        f"<{facts['job']}|job>, `seatrial show {facts['run']}`" if facts["job"] else f"`seatrial show {facts['run']}`"
    )
    text = shorten("\n".join(lines), 2_900)  # a section holds 3,000 characters
    # `verbatim`: Slack would make links and mentions of texts that agents wrote.
    return {
        "text": lines[0],
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}],
    }


def _escaped(text: str) -> str:
    """Without mentions, links and further lines, which agents could write."""
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

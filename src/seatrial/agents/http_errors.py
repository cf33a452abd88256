"""What a status and a body mean when they are no answer: the texts that people see, and what may be retried."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from seatrial.clock import now
from seatrial.model.trial_errors import AgentFailure

SHOWN_CHARACTERS = 500
_WORTH_ASKING_AGAIN = (408, 409, 425, 429)

_HINTS: Mapping[int, str] = {
    401: "check the agent's headers: the endpoint does not accept the credentials",
    403: "check the agent's headers: the endpoint does not accept the credentials",
    404: "check the agent's address and model",
    405: "check the agent's address and method",
    429: "lower --concurrency, set rpm, or allow retries",
}


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> AgentFailure:
    """The failure behind any status that is not 2xx."""
    if 300 <= status < 400:
        target = headers.get("location", "nowhere")
        return AgentFailure(
            f"endpoint returned {status}, a redirect to {target[:SHOWN_CHARACTERS]}",
            hint="redirects are not followed; give the agent's final address",
            final=True,
        )
    return AgentFailure(
        f"endpoint returned {status}: {show_body(body)}",
        hint=_HINTS.get(status),
        retry_after=read_retry_after(headers.get("retry-after")),
        final=400 <= status < 500 and status not in _WORTH_ASKING_AGAIN,
    )


def not_an_answer(what: str, body: bytes | str) -> AgentFailure:
    """The failure behind a good status whose body says nothing usable."""
    return AgentFailure(f"endpoint {what}: {show_body(body)}")


def not_json(media_type: str, body: bytes) -> AgentFailure:
    """The failure behind a body that is no JSON, by what it says it is."""
    if "json" in media_type:
        return not_an_answer("returned a body that is not JSON", body)
    return not_an_answer(f"returned {media_type or 'a body without content-type'} where JSON was due", body)


def show_body(body: bytes | str) -> str:
    """The start of a body, for an error text."""
    text = (body if isinstance(body, str) else body[: SHOWN_CHARACTERS * 4 + 4].decode("utf-8", "replace")).strip()
    if not text:
        return "(empty body)"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def read_retry_after(value: str | None) -> float | None:
    """Seconds to wait, from a number or a date; None when the header is absent or makes no sense."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (_in_utc(date) - now()).total_seconds())


def _in_utc(date: datetime) -> datetime:
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date

"""What is new in a list of messages that an agent returns: many return the whole conversation as they keep it."""

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.model.conversation import Message
from seatrial.model.trial_errors import AgentFailure


def only_new(value: Any, said: Sequence[Message]) -> Any:
    """The messages since the user spoke last, where the agent returns the conversation with its own appended.

    It may hold an agent's own system prompt and examples, or be a list that the agent keeps. Calls of earlier turns
    must not count again, so a list in which nobody can tell where this turn begins is refused.
    """
    if not isinstance(value, list):
        return value
    spoken = [place for place, message in enumerate(said) if _is_users(message)]
    if not spoken or not any(map(_is_users, value)):
        return value
    latest = _words(said[spoken[-1]])
    places = [place for place, message in enumerate(value) if _is_users(message) and _words(message) == latest]
    if places:
        new = value[places[-1] + 1 :]
        known = list(said[spoken[-1] + 1 :])
        return new[len(known) :] if new[: len(known)] == known else new
    if len(spoken) == 1:
        return value
    raise AgentFailure(
        f"the agent returned a list with messages of the user, but without the latest one, {latest!r:.200}, "
        "so nobody can tell which of its tool calls are new; return the new messages alone",
        final=True,
    )


def _is_users(message: Any) -> bool:
    """Whether the user says something in it. Anthropic's API has tool results under the user's role as well."""
    return isinstance(message, Mapping) and message.get("role") == "user" and _words(message) is not None


def _words(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, str):
        return content.strip()
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    words = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "".join(words).strip() if words else None

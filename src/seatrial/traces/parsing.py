"""The pieces that formats share: JSON inside of texts, words in parts of content, tokens, times."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from seatrial.model.conversation import Usage
from seatrial.model.json_values import plain_arguments, plain_value, refuse_constant

SILENT = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")
"""Kinds of parts that a model says to itself. A tuple, here and elsewhere: a kind may be anything, even a list."""


def read_arguments(arguments: Any) -> Any:
    """The arguments of a call: nothing at all means that there are none."""
    return {} if arguments is None or arguments == "" else plain_arguments(arguments)


def read_result(content: Any) -> Any:
    """What a tool gave back: JSON objects and lists that were written as text become what they say."""
    parsed = read_json(content)
    return parsed if isinstance(parsed, dict | list) else plain_value(content)


def read_json(value: Any) -> Any:
    """What a text says as JSON; any other value, and a text that says nothing, as it is."""
    if not isinstance(value, str):
        return plain_value(value)
    try:
        return plain_value(json.loads(value, parse_constant=refuse_constant))
    except (ValueError, RecursionError):
        return value


def as_text(value: Any) -> str:
    """A value in words; a text is itself."""
    if isinstance(value, str):
        return value
    return json.dumps(plain_value(value), ensure_ascii=False)


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is a mapping; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """The items of a list; nothing where it is none."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """The value where it is a text that says something."""
    return value if isinstance(value, str) and value.strip() else None


def name_in(value: Mapping[str, Any], *keys: str) -> str | None:
    """The first of these keys that holds a name or a number to call something by."""
    for key in keys:
        found = value.get(key)
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
        if text(found):
            return " ".join(str(found).split())[:200]
    return None


def parts_of(content: Any) -> Iterator[Mapping[str, Any]]:
    """The parts of a message's content; a text is one part."""
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str) and isinstance(content, list):
            yield {"type": "text", "text": part}
        elif isinstance(part, Mapping):
            yield part


def words_in(part: Mapping[str, Any]) -> str | None:
    """The words of a part that is text, under whichever of its names; None where it is something else."""
    if part.get("type") in SILENT:
        return None
    for key in ("text", "refusal", "content"):
        words = part.get(key)
        if isinstance(words, str):
            return words
    return None


def kind_of(part: Mapping[str, Any]) -> str:
    """What a part calls itself, for people."""
    for key in ("type", "part_kind", "kind", "role"):
        if text(part.get(key)):
            return str(part[key])[:60]
    return "unknown"


def read_usage(usage: Any) -> Usage | None:
    """Tokens under any of their names; None where nobody counted. Anthropic counts cached ones beside the others."""
    counts = mapping(usage)
    taken = _first_count(counts, "input_tokens", "prompt_tokens")
    given = _first_count(counts, "output_tokens", "completion_tokens")
    if taken is not None:
        for beside in ("cache_creation_input_tokens", "cache_read_input_tokens"):
            taken += _first_count(counts, beside) or 0
    return None if taken is None and given is None else Usage(input_tokens=taken, output_tokens=given)


def _first_count(counts: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        count = read_count(counts.get(name))
        if count is not None:
            return count
    return None


def read_count(value: Any) -> int | None:
    """A whole number that is not negative; spans write theirs as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15
    return int(value) if fits else None


def read_time(value: Any) -> float | None:
    """Milliseconds since 1970 of an ISO time, or of seconds since then; None for what is neither."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e11
    return value * 1000.0 if fits else None


def moment_of(ms: float) -> datetime | None:
    """The time of so many milliseconds since 1970; None where no calendar has it."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None

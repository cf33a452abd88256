"""Readers that the formats share: JSON inside texts, texts of content parts, tokens, times."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from seatrial.model.conversation import Usage
from seatrial.model.json_values import plain_arguments, plain_value, refuse_constant

SILENT = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")
"""Types of parts that the user does not see. A tuple, since the type in a file may be unhashable."""


class Omissions:
    """Counts what a transcript cannot show, so that the user is told."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, noun: str, which: str) -> None:
        """Count one more `noun`, such as `part`, and `which`, such as `of unknown type 'x'`."""
        self._counts[noun, which] += 1

    def sentences(self) -> tuple[str, ...]:
        return tuple(
            f"{count:,} {noun}{'' if count == 1 else 's'} {which} {'was' if count == 1 else 'were'} left out"
            for (noun, which), count in self._counts.items()
        )


def read_arguments(arguments: Any) -> Any:
    """The arguments of a call; without any, an empty mapping."""
    return {} if arguments is None or arguments == "" else plain_arguments(arguments)


def read_result(content: Any) -> Any:
    """The result of a tool. A text with a JSON object or list is parsed."""
    parsed = read_json(content)
    return parsed if isinstance(parsed, dict | list) else plain_value(content)


def read_json(value: Any) -> Any:
    """The value of a JSON text; any other value or text as it is."""
    if not isinstance(value, str):
        return plain_value(value)
    try:
        return plain_value(json.loads(value, parse_constant=refuse_constant))
    except (ValueError, RecursionError):
        return value


def as_text(value: Any) -> str:
    """A text as it is, any other value as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(plain_value(value), ensure_ascii=False)


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """The value if it is a text that is not blank, else None."""
    return value if isinstance(value, str) and value.strip() else None


def name_in(value: Mapping[str, Any], *keys: str) -> str | None:
    """The value of the first of these keys that holds a name or a number."""
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
    """The text of a part; None if it has none that the user sees."""
    if part.get("type") in SILENT:
        return None
    for key in ("text", "refusal", "content"):
        words = part.get(key)
        if isinstance(words, str):
            return words
    return None


def join_texts(content: Any) -> Any:
    """The joined text of a list of parts that are all texts; any other content as it is."""
    words = [words_in(part) for part in parts_of(content)] if isinstance(content, list) else []
    return "".join(map(str, words)) if words and None not in words else content


def read_words(message: Mapping[str, Any], omissions: Omissions) -> str | None:
    """The text of a message. Parts without a text are omitted."""
    found: list[str] = []
    for part in parts_of(message.get("content")):
        words = words_in(part)
        if words is not None:
            found.append(words)
        elif part.get("type") not in SILENT:
            omissions.add("part", f"of unknown type {kind_of(part)!r}")
    return "".join(found) if found else text(message.get("refusal"))


def kind_of(part: Mapping[str, Any]) -> str:
    """The type of a part, as shown to people."""
    for key in ("type", "part_kind", "kind", "role"):
        if text(part.get(key)):
            return str(part[key])[:60]
    return "unknown"


def read_usage(usage: Any) -> Usage | None:
    """Tokens, under any of their names; None if there are none. Anthropic lists cached ones separately."""
    counts = mapping(usage)
    taken = _first_count(counts, "input_tokens", "prompt_tokens")
    given = _first_count(counts, "output_tokens", "completion_tokens")
    if taken is not None:
        for cached in ("cache_creation_input_tokens", "cache_read_input_tokens"):
            taken += _first_count(counts, cached) or 0
    return None if taken is None and given is None else Usage(input_tokens=taken, output_tokens=given)


def _first_count(counts: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        count = read_count(counts.get(name))
        if count is not None:
            return count
    return None


def read_count(value: Any) -> int | None:
    """A number that is not negative, also as text, as spans have it; else None."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15
    return int(value) if fits else None


def read_time(value: Any) -> float | None:
    """Milliseconds since 1970 of an ISO time or of seconds since 1970; else None."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e11
    return value * 1000.0 if fits else None


def moment_of(ms: float) -> datetime | None:
    """The time of milliseconds since 1970; None if it is out of range."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None

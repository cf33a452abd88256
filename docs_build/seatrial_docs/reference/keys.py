"""Every key of a scenario file, from the schema that editors use."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.agents.resolve import AGENT_TYPES
from seatrial.model.scenario import SHARED_KEYS
from seatrial.scenarios.keys import json_schema

from .tables import Schema, constraint_of, sentence, table, type_of

_HEADINGS = {
    "on_failure": "expect",
    "scenarios": "scenario",
    "turns": "turn",
    "groups": "group",
    "invariants": "invariant",
    "metrics": "metric",
    "any_of": "alternative",
    "expected": "call",
    "tool_calls_args": "tool_calls_args, each",
}
"""The heading of what a key holds, where it is not the key itself."""
_BY_KEY = {"base_url": "model", "votes": "judge", "says": "event"}
"""Mappings that several keys hold are recognised by one of their own keys."""
_MERGE_RULES = {
    "replace": "",
    "by key": "Changes only the given keys of the suite's value.",
    "metrics": "Replaces the suite's list, unless it only gives weights of metrics in that list.",
}
_METRIC_NAMES = "name of a [metric](evaluators.md#metrics) or mapping"


def keys() -> str:
    """A section for each mapping that a file may hold, the file first."""
    found: dict[str, Schema] = {}
    _collect("the file", json_schema()["else"], found, set())
    return "\n".join(f"## {heading}\n\n{_rows(heading, schema)}" for heading, schema in found.items())


def agent_types() -> str:
    return table(
        ("type", "required keys", "optional keys"),
        (
            (f"`{name}`", *(", ".join(f"`{key}`" for key in group) for group in (kind.required, kind.optional)))
            for name, kind in AGENT_TYPES.items()
        ),
    )


def _rows(heading: str, schema: Schema) -> str:
    required = schema.get("required", ())
    return table(
        ("key", "type", "default", "constraint", "meaning"),
        (_row(heading, name, value, name in required) for name, value in schema["properties"].items()),
    )


def _row(heading: str, name: str, schema: Schema, required: bool) -> tuple[str, str, str, str, str]:
    merge = _MERGE_RULES[SHARED_KEYS[name].key.merge] if heading == "scenario" and name in SHARED_KEYS else ""
    return (
        f"`{name}`",
        f"list, each a {_METRIC_NAMES}" if name == "metrics" else type_of(schema),
        "required" if required else f"`{default}`" if (default := _default(schema)) is not None else "",
        constraint_of(schema),
        f"{sentence(schema.get('description', ''))} {merge}".strip(),
    )


def _default(schema: Schema) -> str | None:
    if schema.get("type") == "boolean":
        return str(schema.get("default", False)).lower()
    default = schema.get("default")
    return f"{default:g}" if isinstance(default, float) else None if default is None else str(default)


def _collect(heading: str, schema: Schema, found: dict[str, Schema], seen: set[tuple[frozenset[str], ...]]) -> None:
    own = frozenset(schema["properties"]), frozenset(schema.get("required", ()))
    if own in seen:
        return
    seen.add(own)
    found[heading] = schema
    for name, value in schema["properties"].items():
        for inner in _objects(value):
            known = [heading for key, heading in _BY_KEY.items() if key in inner["properties"]]
            _collect(known[0] if known else _HEADINGS.get(name, name), inner, found, seen)


def _objects(schema: Schema) -> Iterator[Schema]:
    """The mappings with fixed keys that a value may be or contain."""
    if "properties" in schema:
        yield schema
    for one in schema.get("anyOf", ()):
        yield from _objects(one)
    for key in ("items", "additionalProperties"):
        inner: Any = schema.get(key)
        if isinstance(inner, Mapping):
            yield from _objects(inner)

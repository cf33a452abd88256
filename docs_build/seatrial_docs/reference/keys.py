"""Every key of a scenario file, from the schema that editors use."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.scenarios.suite_keys import json_schema

from .tables import Schema, in_words, table

_NAMES = {
    "scenarios": "scenario",
    "turns": "turn",
    "groups": "group",
    "metrics": "metric",
    "any_of": "alternative",
    "expected": "call",
    "tool_calls_args": "tool_calls_args, each",
}
"""A key that holds several is headed by what one of them is."""
_BY_KEY = {"base_url": "model", "votes": "judge"}
"""Mappings that stand under several keys are known by one of their own."""


def keys() -> str:
    """A section for each mapping that a file may hold, the file first."""
    native = json_schema()["else"]
    found: dict[str, Mapping[str, Any]] = {}
    _collect("the file", native, found, set())
    return "\n".join(f"## {heading}\n\n{_rows(schema)}" for heading, schema in found.items())


def _rows(schema: Schema) -> str:
    required = schema.get("required", ())
    return table(
        ("key", "holds", "means"),
        (
            (f"`{name}`{' (required)' if name in required else ''}", in_words(value), value.get("description", ""))
            for name, value in schema["properties"].items()
        ),
    )


def _collect(heading: str, schema: Schema, found: dict[str, Schema], seen: set[frozenset[str]]) -> None:
    own = frozenset(schema["properties"])
    if own in seen:
        return
    seen.add(own)
    found[heading] = schema
    for name, value in schema["properties"].items():
        for inner in _objects(value):
            known = [heading for key, heading in _BY_KEY.items() if key in inner["properties"]]
            _collect(known[0] if known else _NAMES.get(name, name), inner, found, seen)


def _objects(schema: Schema) -> Iterator[Schema]:
    """The mappings with keys of their own that a value may be or hold."""
    if "properties" in schema:
        yield schema
    for one in schema.get("anyOf", ()):
        yield from _objects(one)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from _objects(schema[key])

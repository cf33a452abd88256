"""Every key of a scenario file, from the schema that editors use."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import NODEFAULT

from seatrial.agents.resolve import KINDS
from seatrial.evaluators.tool_calls import ToolArgs
from seatrial.evaluators.trajectory import Trajectory
from seatrial.judges.rubric import Judge
from seatrial.model import scenario as model
from seatrial.model.struct import Struct, field_defaults
from seatrial.scenarios.suite_keys import json_schema

from .tables import Schema, constraint_of, sentence, table, type_of

_HEADINGS = {
    "scenarios": "scenario",
    "turns": "turn",
    "groups": "group",
    "metrics": "metric",
    "any_of": "alternative",
    "expected": "call",
    "tool_calls_args": "tool_calls_args, each",
}
"""The heading of what a key holds, where it is not the key itself."""
_BY_KEY = {"base_url": "model", "votes": "judge"}
"""Mappings that several keys hold are recognised by one of their own keys."""
_OBJECTS: Mapping[str, type[Struct]] = {
    "turn": model.Turn,
    "expect": model.Expect,
    "tool_calls_args, each": ToolArgs,
    "judge": Judge,
    "trajectory": Trajectory,
    "call": model.ExpectedCall,
    "user": model.User,
    "group": model.Group,
    "scenario": model.Scenario,
}
"""The objects that mappings become; their fields have the defaults."""
_METRIC_NAMES = "name of a [metric](evaluators.md#metrics) or mapping"
_IN_PARENTHESES = re.compile(r" \(([\w.]+)\)")


def keys() -> str:
    """A section for each mapping that a file may hold, the file first."""
    found: dict[str, Schema] = {}
    _collect("the file", json_schema()["else"], found, set())
    return "\n".join(f"## {heading}\n\n{_rows(heading, schema)}" for heading, schema in found.items())


def agent_types() -> str:
    return table(
        ("type", "required keys", "optional keys"),
        (
            (f"`{name}`", *(", ".join(f"`{key}`" for key in group) for group in (required, optional)))
            for name, (_, required, optional) in KINDS.items()
        ),
    )


def default_of(heading: str, name: str, schema: Schema) -> str | None:
    """The default: the value in parentheses in the description, or the default of the field. None: there is none."""
    found = _stated_default(schema) or _field_default(heading, name)
    return found or ("false" if schema.get("type") == "boolean" else None)


def _stated_default(schema: Schema) -> str | None:
    """What stands in parentheses counts if the key may have that value."""
    for word in _IN_PARENTHESES.findall(schema.get("description", "")):
        numeric = re.fullmatch(r"\d+(\.\d+)?", word) and {"integer", "number"} & {schema.get("type")}
        if numeric or word in schema.get("enum", ()):
            return str(word)
    return None


def _field_default(heading: str, name: str) -> str | None:
    kind = _OBJECTS.get(heading)
    found = field_defaults(kind) if kind else {}
    default = found.get(name)
    if default in (None, (), "") or default is NODEFAULT:
        return None
    return str(default).lower() if isinstance(default, bool) else f"{default}"


def _rows(heading: str, schema: Schema) -> str:
    required = schema.get("required", ())
    return table(
        ("key", "type", "default", "constraint", "meaning"),
        (_row(heading, name, value, name in required) for name, value in schema["properties"].items()),
    )


def _row(heading: str, name: str, schema: Schema, required: bool) -> tuple[str, str, str, str, str]:
    default = default_of(heading, name, schema)
    meaning = schema.get("description", "")
    if (stated := _stated_default(schema)) is not None:
        meaning = meaning.replace(f" ({stated})", "")
    return (
        f"`{name}`",
        f"list, each a {_METRIC_NAMES}" if name == "metrics" else type_of(schema),
        "required" if required else f"`{default}`" if default else "",
        constraint_of(schema),
        sentence(meaning),
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

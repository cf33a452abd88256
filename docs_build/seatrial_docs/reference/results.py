"""Every field of results.json and of `seatrial compare --json`, from their schemas."""

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from seatrial.web.api_models import shared_schemas

from .tables import Schema, constraint_of, heading_of, sentence, table, type_of


def results() -> str:
    """The run, then its parts."""
    schema = json.loads(files("seatrial.reports").joinpath("results.schema.json").read_text("utf-8"))
    parts = {heading_of(name): part for name, part in schema["$defs"].items()}
    return "\n".join(_section(heading, one) for heading, one in {"The run": schema, **parts}.items())


def comparison() -> str:
    """The comparison, then its parts; parts of results.json are not repeated."""
    known = shared_schemas()
    names = ["ComparisonResult"]
    for name in names:
        for found in _references(known[name]):
            if found not in names and not found.startswith("Results"):
                names.append(found)
    return "\n".join(_section(heading_of(name), known[name]) for name in names)


def _section(heading: str, schema: Schema) -> str:
    said = schema.get("description", "")
    parts = [f"## {heading}\n"] + ([f"{sentence(said)}\n"] if said else [])
    if "properties" in schema:
        parts.append(table(("field", "type", "meaning"), _rows(schema)))
    else:
        parts.append(f"{type_of(schema)}.\n")
    return "\n".join(parts)


def _rows(schema: Schema, before: str = "") -> Iterator[tuple[str, str, str]]:
    for name, value in schema["properties"].items():
        rules = constraint_of(value)
        yield f"`{before}{name}`", type_of(value) + (f", {rules}" if rules else ""), sentence(_description(value))
        inner: Any = value.get("items") if value.get("type") == "array" else value
        if isinstance(inner, Mapping) and "properties" in inner:
            yield from _rows(inner, f"{before}{name}{'[]' if inner is not value else ''}.")


def _description(schema: Schema) -> str:
    return str(schema.get("description", ""))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if "$ref" in node:
            yield str(node["$ref"]).rpartition("/")[2]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)

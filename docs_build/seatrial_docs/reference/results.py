"""Every field of results.json, from its schema."""

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

from .tables import Schema, in_words, table


def results() -> str:
    """The run, then what its parts are made of."""
    schema = json.loads(files("seatrial.reports").joinpath("results.schema.json").read_text("utf-8"))
    sections = {"The run": schema, **{_heading(name): one for name, one in schema.get("$defs", {}).items()}}
    return "\n".join(
        f"## {heading}\n\n" + table(("field", "holds", "means"), _rows(one))
        for heading, one in sections.items()
        if "properties" in one
    )


def _heading(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _rows(schema: Schema, before: str = "") -> Iterator[tuple[str, str, str]]:
    for name, value in schema["properties"].items():
        yield f"`{before}{name}`", in_words(value), value.get("description", "")
        inner: Any = value.get("items") if value.get("type") == "array" else value
        if isinstance(inner, Mapping) and "properties" in inner:
            yield from _rows(inner, f"{before}{name}{'[]' if inner is not value else ''}.")

"""Markdown tables, and JSON Schemas in a few words."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("{{", "&#123;&#123;")


def in_words(schema: Schema) -> str:
    """What a value may be, short enough for a table."""
    if "properties" in schema:
        return "mapping"
    if "anyOf" in schema or "oneOf" in schema:
        return " or ".join(dict.fromkeys(in_words(one) for one in schema.get("anyOf") or schema["oneOf"]))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2].replace("_", " ")
    if "const" in schema:
        return f"`{_shown(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{_shown(one)}`" for one in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(in_words({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list of {_plural(in_words(schema.get('items') or {}))}"
    if kind in ("integer", "number"):
        return ("whole number" if kind == "integer" else "number") + _bounds(schema)
    return {"string": "text", "boolean": "true or false", "object": "mapping", "null": "null"}.get(
        str(kind), "anything"
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _plural(words: str) -> str:
    return {"text": "texts", "mapping": "mappings", "number": "numbers", "text or mapping": "texts or mappings"}.get(
        words, words
    )


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    if low is not None:
        return f" from {low:g}"
    return f" above {schema['exclusiveMinimum']:g}" if "exclusiveMinimum" in schema else ""

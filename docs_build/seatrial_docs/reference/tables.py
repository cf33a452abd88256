"""Markdown tables, and JSON Schemas in a few words."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]
_CODE = re.compile(r"(`[^`]*`)")
_PLURALS = {"text": "texts", "mapping": "mappings", "number": "numbers", "whole number": "whole numbers"}
_TEXT_RULES = {r"\S": "not blank", r"^[^\s:]+:[^\s:]+$": "`package.module:name`"}
"""Patterns of texts, in words."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """The text with `<` and `{{` escaped, except in inline code."""
    parts = _CODE.split(text)
    return "".join(
        part if number % 2 else part.replace("<", "&lt;").replace("{{", "&#123;&#123;")
        for number, part in enumerate(parts)
    )


def sentence(text: str) -> str:
    """The text with a capital letter, if it starts with a word, and a period."""
    if re.match(r"[a-z]+(?=[ ,;]|$)", text):
        text = text[0].upper() + text[1:]
    return text if not text or text.endswith((".", "…", "!", "?")) else f"{text}."


def type_of(schema: Schema) -> str:
    """The type of a value, short enough for a table."""
    if "properties" in schema:
        return "mapping"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(type_of(one) for one in schema[key]))
    if "$ref" in schema:
        return _link(str(schema["$ref"]).rpartition("/")[2])
    if "const" in schema:
        return f"`{_value(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{_value(one)}`" for one in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(type_of({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list of {_plural(type_of(schema.get('items') or {}))}"
    if kind == "object" and schema.get("additionalProperties"):
        return f"mapping of names to {_plural(type_of(schema['additionalProperties']))}"
    words = {"string": "text", "boolean": "`true` or `false`", "object": "mapping", "integer": "whole number"}
    return words.get(str(kind), str(kind) if kind else "any value")


def constraint_of(schema: Schema) -> str:
    """The rules for a value beyond its type: bounds, and whether it may be empty."""
    return ", ".join(dict.fromkeys(_rules(schema)))


def _rules(schema: Schema) -> Iterator[str]:
    for one in schema.get("anyOf", ()):
        if one.get("type") != "object":
            yield from _rules(one)
    bounds = (
        ("minimum", "at least"),
        ("exclusiveMinimum", "above"),
        ("maximum", "at most"),
        ("exclusiveMaximum", "below"),
    )
    yield from (f"{words} {schema[key]:g}" for key, words in bounds if key in schema)
    if schema.get("format") == "regex":
        yield "a regular expression"
    if "pattern" in schema:
        yield _TEXT_RULES.get(schema["pattern"], f"matches `{schema['pattern']}`")
    if any(schema.get(key) for key in ("minLength", "minItems", "minProperties")):
        yield "not empty"
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, Mapping) and (rules := " and ".join(_rules(inner))):
            yield f"each {rules}"


def _cell(text: str) -> str:
    return escape(" ".join(text.split())).replace("|", "\\|")


def heading_of(name: str) -> str:
    """The heading of a part of a schema: `model_use` is "Model use", `ScenarioKey` is "Scenario key"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").capitalize()


def _link(name: str) -> str:
    """A link to a part of a schema. In other schemas, the parts of results.json are called Results..."""
    heading = heading_of(name.removeprefix("Results"))
    page = "results.md" if name.startswith("Results") else ""
    return f"[{heading}]({page}#{heading.lower().replace(' ', '-')})"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _plural(words: str) -> str:
    return " or ".join(_PLURALS.get(word, word) for word in words.split(" or "))

"""Every name of the front door: its signature, its docstring, its fields with the lines below them."""

import ast
import inspect
import re
import textwrap
from typing import Any, get_type_hints

import seatrial
from seatrial.model.struct import field_names

from .tables import table


def python_names() -> str:
    return "\n".join(_section(name, getattr(seatrial, name)) for name in sorted(seatrial.__all__, key=str.lower))


def _section(name: str, thing: Any) -> str:
    parts = [f"## `{name}`\n", f"`{name}{_signature(thing)}`\n", f"{inspect.getdoc(thing) or ''}\n"]
    if inspect.isclass(thing):
        notes = _notes(thing)
        if (names := field_names(thing)) is not None:
            kinds = get_type_hints(thing)
            rows = [(f"`{field}`", _short(_kind(kinds[field])), notes.get(field, "")) for field in names]
            parts.append(table(("field", "type", "means"), rows))
        methods = [(f"`{inner}`", (inspect.getdoc(one) or "").partition("\n")[0]) for inner, one in _public(thing)]
        if methods:
            parts.append(table(("also", "means"), methods))
    return "\n".join(part for part in parts if part.strip())


def _public(kind: type) -> list[tuple[str, Any]]:
    """Properties by name, methods with what they take; that an evaluator evaluates is not news."""
    members = [(name, one) for name, one in vars(kind).items() if not name.startswith("_") and name != "evaluate"]
    properties = [(name, one.fget) for name, one in members if isinstance(one, property)]
    methods = [(f"{name}{_signature(one)}", one) for name, one in members if inspect.isfunction(one)]
    return [*properties, *methods]


def _signature(thing: Any) -> str:
    try:
        return _short(str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return ""


def _kind(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _short(text: str) -> str:
    """Types without the modules they live in, and functions without their addresses, which no two builds share."""
    text = re.sub(r"<function (\w+) at 0x[0-9a-f]+>", r"\1", text)
    return re.sub(r"\b(?:\w+\.)+(?=[A-Za-z_])", "", text).removesuffix(" -> None").replace("'settings'", "…")


def _notes(kind: type) -> dict[str, str]:
    """The text that stands below a field."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[field.target.id] = after.value.value
    return found

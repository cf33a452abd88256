"""Every public name of `seatrial`: signature, docstring, fields and methods."""

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, ForwardRef, Literal, Protocol, TypeVar, Union, get_args, get_origin

import seatrial
from seatrial.model.keys import declared_keys
from seatrial.model.struct import field_names

from .tables import escape, sentence, table

_WIDTH = 100


def python_names() -> str:
    return "\n".join(_section(name, getattr(seatrial, name)) for name in sorted(seatrial.__all__, key=str.lower))


def default_text(value: Any) -> str:
    """A default as code: never an address in memory."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if callable(value):
        return str(getattr(value, "__name__", "..."))
    if isinstance(value, str | int | float | bool | tuple | list | dict | None):
        return repr(value)
    return f"{type(value).__name__}()"


def annotation_text(kind: Any) -> str:
    """An annotation as code, without modules; the same in every version of Python."""
    if kind is None or kind is types.NoneType:
        return "None"
    if isinstance(kind, str | ForwardRef | TypeVar):
        return _without_modules(
            kind if isinstance(kind, str) else getattr(kind, "__forward_arg__", str(kind).strip("~"))
        )
    if isinstance(kind, list):
        return f"[{', '.join(map(annotation_text, kind))}]"
    if kind is Ellipsis:
        return "..."
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return annotation_text(arguments[0])
    if origin in (Union, types.UnionType):
        return " | ".join(map(annotation_text, arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is not None:
        return f"{_name(origin)}[{', '.join(map(annotation_text, arguments))}]"
    return _name(kind)


def _name(kind: Any) -> str:
    return str(getattr(kind, "__name__", None) or str(kind).rpartition(".")[2])


def _without_modules(text: str) -> str:
    return re.sub(r"\b(?:\w+\.)+(?=[A-Za-z_])", "", text)


def _section(name: str, thing: Any) -> str:
    word = "class " if inspect.isclass(thing) else "await " if inspect.iscoroutinefunction(thing) else ""
    parts = [f"## `{name}`\n", f"```python\n{word}{name}{signature_text(thing)}\n```\n", f"{_doc(thing)}\n"]
    if inspect.isclass(thing):
        rows = _fields(thing)
        if rows:
            parts.append(table(("field", "meaning"), rows))
        members = [f"- `{inner}`: {_first_line(one)}".removesuffix(": ") for inner, one in _members(thing)]
        if members:
            parts.append("\n".join(members) + "\n")
    return "\n".join(part for part in parts if part.strip())


def signature_text(thing: Any) -> str:
    """The signature, one parameter a line if it is long. Empty for protocols and exceptions."""
    if inspect.isclass(thing) and (issubclass(thing, BaseException) or Protocol in thing.__mro__):
        return ""
    signature = inspect.signature(thing)
    words = _parameters(signature)
    result = signature.return_annotation
    after = "" if result is signature.empty or result is None else f" -> {annotation_text(result)}"
    line = f"({', '.join(words)}){after}"
    return line if len(line) <= _WIDTH else "(\n" + "".join(f"    {word},\n" for word in words) + f"){after}"


def _parameters(signature: inspect.Signature) -> list[str]:
    words: list[str] = []
    before: Any = None
    for one in signature.parameters.values():
        if before is one.POSITIONAL_ONLY and one.kind is not one.POSITIONAL_ONLY:
            words.append("/")
        if one.kind is one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            words.append("*")
        before = one.kind
        stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        kind = "" if one.annotation is one.empty else f": {annotation_text(one.annotation)}"
        default = "" if one.default is one.empty else f"{' = ' if kind else '='}{default_text(one.default)}"
        words.append(f"{stars}{one.name}{kind}{default}")
    return words


def _doc(thing: Any) -> str:
    return escape(inspect.getdoc(thing) or "")


def _first_line(thing: Any) -> str:
    return _doc(thing).partition("\n\n")[0].replace("\n", " ")


def _fields(kind: type) -> list[tuple[str, str]]:
    """The fields that have a sentence: the meaning of its key, or the text below the field."""
    keys, notes = declared_keys(kind), _notes(kind)
    means = {
        field: keys[field].key.means if field in keys else notes.get(field, "") for field in field_names(kind) or ()
    }
    return [(f"`{field}`", sentence(text)) for field, text in means.items() if text]


def _members(kind: type) -> list[tuple[str, Callable[..., Any]]]:
    """Properties by name, methods with their parameters. All evaluators have `evaluate`: only the protocol shows it."""
    own = [
        (name, one)
        for name, one in vars(kind).items()
        if not name.startswith("_") and (name != "evaluate" or Protocol in kind.__mro__)
    ]
    properties = [
        (f"{name}{_result(one.fget)}", one.fget) for name, one in own if isinstance(one, property) and one.fget
    ]
    methods = [(f"{name}{_method_text(one)}", one) for name, one in own if inspect.isfunction(one)]
    return [*properties, *methods]


def _result(function: Callable[..., Any]) -> str:
    result = inspect.signature(function).return_annotation
    return "" if result is inspect.Signature.empty else f": {annotation_text(result)}"


def _method_text(method: Callable[..., Any]) -> str:
    signature = inspect.signature(method)
    own = [one for name, one in signature.parameters.items() if name != "self"]
    return f"({', '.join(_parameters(signature.replace(parameters=own)))}){_result(method).replace(':', ' ->', 1)}"


def _notes(kind: type) -> dict[str, str]:
    """The text below each field, also of the classes that it inherits from."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("seatrial"):
            found |= _own_notes(one)
    return found


def _own_notes(kind: type) -> dict[str, str]:
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

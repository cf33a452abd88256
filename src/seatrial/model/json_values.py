"""Conversion of values from agents and tools to JSON values, once, before evaluation.

Evaluators see what is stored, so a regrade sees the same values as the run.
"""

import json
import re
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, NoReturn

from .struct import field_names

DEEPEST = 100
"""Deeper values are cut, because later steps are recursive."""
_MOST_BITS = 14_000
"""Python and most parsers refuse JSON integers of more than 4,300 digits."""
_SPLIT_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
"""Two halves of one character, which JSON joins."""
_TOO_DEEP = "[nested too deeply]"
_CIRCLE = "[contains itself]"


def plain_value(value: Any) -> Any:
    """A copy of dict, list, str, int, float, bool and None only. Unknown objects become `[TypeName object]`."""
    return _plain(value, ())


def plain_arguments(arguments: Any) -> Any:
    """The arguments of a tool call. The text of a JSON object (as in OpenAI's API) becomes a mapping.

    Any other text stays a text: the call is malformed.
    """
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments, parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else arguments
    return plain_value(arguments)


def refuse_constant(constant: str) -> NoReturn:
    """Raise ValueError: `json.loads` must not accept NaN and infinities."""
    raise ValueError(constant)


def _plain(value: Any, path: tuple[int, ...]) -> Any:
    """The JSON value. `path`: the ids of the enclosing containers."""
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind is float or kind is bool or value is None:
        return value
    if kind is int:
        return value if value.bit_length() <= _MOST_BITS else inf if value > 0 else -inf
    if len(path) >= DEEPEST:
        return _TOO_DEEP
    if id(value) in path:
        return _CIRCLE
    path = (*path, id(value))
    if kind is dict:
        return _mapping(value, path)
    if kind is list or kind is tuple:
        return [_plain(item, path) for item in value]
    try:
        return _foreign(value, path)
    except Exception:  # the object's own code
        return f"[{kind.__name__} object that cannot be read]"


def _text(value: str) -> str:
    found = _SPLIT_PAIR.search(value)
    return value if found is None else value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _mapping(value: Mapping[Any, Any], path: tuple[int, ...]) -> dict[str, Any]:
    """The mapping with string keys. A key that would collide with a string gets a number."""
    items = list(value.items())
    taken = {_text(key) for key, _ in items if type(key) is str}
    copy: dict[str, Any] = {}
    for key, item in items:
        name = _text(key) if type(key) is str else _unused(_key(key, path), taken)
        copy[name if name not in copy else _unused(name, taken)] = _plain(item, path)
    return copy


def _key(key: Any, path: tuple[int, ...]) -> str:
    plain = _plain(key, path)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _unused(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name} ({number})"
    taken.add(found)
    return found


def _foreign(value: Any, path: tuple[int, ...]) -> Any:
    """The JSON value of any other object."""
    scalar = _scalar(value)
    if scalar is not value:
        return _plain(scalar, path)
    if isinstance(value, Mapping):
        return _mapping(value, path)
    if isinstance(value, list | tuple):
        return [_plain(item, path) for item in value]
    if isinstance(value, set | frozenset):
        return _sorted(_plain(item, path) for item in value)
    opened = _opened(value)
    return f"[{type(value).__name__} object]" if opened is value else _plain(opened, path)


def _sorted(items: Iterable[Any]) -> list[Any]:
    """Sorted, because the order of a set differs between processes."""
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _scalar(value: Any) -> Any:
    """The text or number that the object represents; else the object itself."""
    from datetime import date, time
    from decimal import Decimal
    from enum import Enum
    from numbers import Integral, Real
    from uuid import UUID

    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    as_path = getattr(type(value), "__fspath__", None)
    return value if as_path is None else as_path(value)


def _number(value: Any) -> int | float:
    """A decimal as a JSON number; an int if it is whole and below 1e30."""
    if not value.is_finite():
        return float("nan") if value.is_nan() else float(value)
    is_whole = value.adjusted() < 30 and value == value.to_integral_value()
    return int(value) if is_whole else float(value)


def _opened(value: Any) -> Any:
    """The fields of a model or dataclass; else the object itself."""
    if isinstance(value, type):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump()
        return dumped if isinstance(dumped, Mapping | list | tuple | str | int | float) else value
    names = field_names(value)
    return value if names is None else {name: getattr(value, name) for name in names}

"""Any value in terms of JSON, so that every parser accepts what an agent produced.

A number that is not finite becomes the string "NaN", "Infinity" or "-Infinity", an integer too long to print its
hexadecimal digits, an object that JSON does not know its repr; what is nested deeper than 100 levels is replaced by a
note.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite, isnan
from typing import Any

DEEPEST = 100
_LARGEST_BITS = 4_096
"""Python refuses to print integers of more than 4,300 digits, and parsers to read them."""


def plain(value: Any, depth: int = 0) -> Any:
    """The value in terms of JSON, whatever it was."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _LARGEST_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else _not_finite(value)
    if depth >= DEEPEST:
        return f"(nested deeper than {DEEPEST} levels)"
    if isinstance(value, Mapping):
        return {str(key): plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [plain(one, depth + 1) for one in value]
    return repr(value)


def _not_finite(value: float) -> str:
    if isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def moment(when: datetime | None) -> str | None:
    """ISO 8601, with its time zone."""
    return None if when is None else when.isoformat()

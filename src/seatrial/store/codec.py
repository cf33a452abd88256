"""Structs as ASCII JSON, and back.

msgspec converts structs to documents of plain values; fields with their default are left out. A document is stored as
JSON. NaN and infinities, which JSON does not have, and large parts, which are stored elsewhere, are replaced by null.
The document is then stored as `{"$parts": {...}, "value": document}`: `$parts` lists the paths of these numbers, and
the paths and hashes of the parts.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from seatrial.errors import StoreError

T = TypeVar("T")
Fetch = Callable[[str], bytes]
"""Returns the part with a hash."""
Path = Sequence[str | int]
"""Keys and indexes that lead to a value in a document."""

_PARTS = "$parts"
ENVELOPE = b'{"$parts"'
"""The beginning of a document that lists its parts."""
_write_strictly = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":")).encode


def encode(value: Any) -> bytes:
    """The value as stored."""
    return write(to_document(value)).encode("ascii")


def decode(kind: type[T], body: bytes, *, fetch: Fetch | None = None) -> T:
    """The stored value. Raises StoreError when it cannot be read."""
    try:
        document = read(body, fetch=fetch)
    except (ValueError, LookupError, TypeError) as broken:
        raise _unreadable(kind, broken) from broken
    return from_document(kind, document)


def to_document(value: Any) -> Any:
    """The value as nested dicts, lists, strings and numbers."""
    return msgspec.to_builtins(value, str_keys=True)


def from_document(kind: type[T], document: Any) -> T:
    """The value of a document. Raises StoreError when a field has another type."""
    try:
        return msgspec.convert(restore(document), kind, str_keys=True)
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError) as broken:
        raise _unreadable(kind, broken) from broken


def some_fields(name: str, kind: type[Any], fields: Iterable[str]) -> type[Any]:
    """A struct with some fields of another one, all of them optional."""
    hints = get_type_hints(kind)
    return msgspec.defstruct(
        name, [(field, hints[field] | UnsetType, UNSET) for field in fields], frozen=True, kw_only=True
    )


def write(document: Any, contents: Mapping[tuple[str | int, ...], str] | None = None) -> str:
    """The document as ASCII JSON. `contents` has the hashes of the parts that are stored elsewhere, by path."""
    if not contents and not (isinstance(document, dict) and _PARTS in document):
        try:
            return _write_strictly(document)
        except ValueError:
            pass  # NaN or an infinity
    numbers: list[list[Any]] = []
    document = _without_non_finite(document, (), numbers)
    parts = {"numbers": numbers, "contents": [[list(path), name] for path, name in (contents or {}).items()]}
    return _write_strictly({_PARTS: parts, "value": document})


def read(data: bytes | str, *, fetch: Fetch | None = None) -> Any:
    """The document. `fetch` reads the parts that are stored elsewhere."""
    return restore(json.loads(data), fetch=fetch)


def restore(document: Any, *, fetch: Fetch | None = None) -> Any:
    """A parsed document, with its numbers and parts put back."""
    if not (isinstance(document, dict) and document.keys() == {_PARTS, "value"}):
        return document
    parts, value = document[_PARTS], document["value"]
    for path, text in parts["numbers"]:
        value = _with(value, path, float(text))
    if fetch is not None:
        for path, name in parts["contents"]:
            value = _with(value, path, read(fetch(name), fetch=fetch))
    return value


def _without_non_finite(document: Any, path: tuple[str | int, ...], found: list[list[Any]]) -> Any:
    """A copy with null instead of NaN and infinities; `found` gets their paths and values."""
    if isinstance(document, float) and not isfinite(document):
        found.append([list(path), repr(document)])
        return None
    if isinstance(document, dict):
        return {name: _without_non_finite(item, (*path, name), found) for name, item in document.items()}
    if isinstance(document, list | tuple):
        return [_without_non_finite(item, (*path, index), found) for index, item in enumerate(document)]
    return document


def _with(document: Any, path: Path, part: Any) -> Any:
    """The document with another value at that path."""
    if not path:
        return part
    holder = document
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = part
    return document


def _unreadable(kind: type[Any], cause: Exception) -> StoreError:
    return StoreError(
        f"a {kind.__name__} cannot be read: {type(cause).__name__}: {cause}. "
        "It is damaged, or comes from a newer Seatrial: pip install --upgrade seatrial"
    )

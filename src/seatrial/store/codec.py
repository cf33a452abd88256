"""From our values to ASCII JSON and back, derived from their fields: a new field is never lost.

msgspec turns values into plain documents and back; a field that has its default is left out. A document is written as
JSON. JSON has no NaN and no infinities, and large parts of a document are stored by themselves. Where a document has
either, it is written as `{"$parts": {...}, "value": document}`: `$parts` lists the places of these numbers, and the
places and hashes of the parts that are stored elsewhere.
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
"""From the hash of a part that is stored by itself to that part."""
Path = Sequence[str | int]
"""The way to a place in a document: keys and indexes."""

_PARTS = "$parts"
ENVELOPE = b'{"$parts"'
"""How a document begins that lists its parts."""
_write_strictly = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":")).encode


def encode(value: Any) -> bytes:
    """The body of a value."""
    return write(to_document(value)).encode("ascii")


def decode(kind: type[T], body: bytes, *, fetch: Fetch | None = None) -> T:
    """The value of a body. Raises StoreError when it is not one."""
    try:
        document = read(body, fetch=fetch)
    except (ValueError, LookupError, TypeError) as broken:
        raise _unreadable(kind, broken) from broken
    return from_document(kind, document)


def to_document(value: Any) -> Any:
    """The value as nested dicts, lists, texts and numbers."""
    return msgspec.to_builtins(value, str_keys=True)


def from_document(kind: type[T], document: Any) -> T:
    """The value of a document. Raises StoreError when a field is not of its type."""
    try:
        return msgspec.convert(restore(document), kind, str_keys=True)
    except (msgspec.MsgspecError, ValueError, LookupError, TypeError) as broken:
        raise _unreadable(kind, broken) from broken


def some_fields(name: str, kind: type[Any], fields: Iterable[str]) -> type[Any]:
    """A struct with some fields of another, each of which may be left out."""
    hints = get_type_hints(kind)
    return msgspec.defstruct(
        name, [(field, hints[field] | UnsetType, UNSET) for field in fields], frozen=True, kw_only=True
    )


def write(document: Any, contents: Mapping[tuple[str | int, ...], str] | None = None) -> str:
    """The document as ASCII JSON. `contents`: places whose parts are stored by themselves, and their hashes."""
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
    """The document that was written. `fetch` finds the parts that are stored by themselves."""
    return restore(json.loads(data), fetch=fetch)


def restore(document: Any, *, fetch: Fetch | None = None) -> Any:
    """A parsed document with all its parts in their places."""
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
    """A copy in which null stands for NaN and the infinities; `found` gets their places."""
    if isinstance(document, float) and not isfinite(document):
        found.append([list(path), repr(document)])
        return None
    if isinstance(document, dict):
        return {name: _without_non_finite(item, (*path, name), found) for name, item in document.items()}
    if isinstance(document, list | tuple):
        return [_without_non_finite(item, (*path, index), found) for index, item in enumerate(document)]
    return document


def _with(document: Any, path: Path, part: Any) -> Any:
    """The document with another part at that place."""
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

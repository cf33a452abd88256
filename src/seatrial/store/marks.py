"""JSON for values that JSON does not know, such that they come back exactly: NaN, tuples, bytes, odd keys, any depth.

A value that is plain (what JSON can say, not too deep) is written as it is. Any other document is wrapped as
`{"$marked": …, "parts": […]}`: inside, a mapping with one key that begins with `$` is a mark. Subtrees that lie too
deep for a recursive parser are cut off into `parts`. Objects that nothing here knows are kept as `{"$repr": …}`, for
people.
"""

import json
import math
import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

from seatrial.vocabulary.value import Value

_DEPTH = 50
_BITS = 2048
"""Longer integers are written in hexadecimal: Python refuses to parse decimals of more than 4,300 digits."""
_PLAIN = frozenset({str, bool, float, type(None)})
_SPLIT_PAIR = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")
"""Two surrogates that stand alone, side by side: JSON would join them to one character."""

_write = json.JSONEncoder(check_circular=False, allow_nan=False, separators=(",", ":")).encode
_write_unicode = json.JSONEncoder(check_circular=False, ensure_ascii=False).encode
_read = json.JSONDecoder().decode

MARKED = b'{"$marked"'
"""How the body of a document with marks begins."""

Fetch = Callable[[str], bytes]
"""From the hash of a body that is stored by itself to that body."""


class Content(Value):
    """Stands for a body that is stored by itself, under its hash."""

    hash: str


class NotPlain(Exception):
    """The value needs marks."""


def require_plain(value: Any, depth: int = 0) -> Any:
    """The value itself, when JSON gives it back exactly. Raises NotPlain."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is int:
        if value.bit_length() > _BITS:
            raise NotPlain
    elif depth >= _DEPTH:
        raise NotPlain
    elif kind is dict:
        for name, item in value.items():
            if type(name) is not str:
                raise NotPlain
            if type(item) not in _PLAIN:
                require_plain(item, depth + 1)
    elif kind is list:
        for item in value:
            if type(item) not in _PLAIN:
                require_plain(item, depth + 1)
    else:
        raise NotPlain
    return value


def write_plain(value: Any) -> str:
    """ASCII JSON of a value made of plain parts. Raises NotPlain where a float or a string turns out not to be."""
    try:
        text = _write(value)
    except (
        ValueError,
        TypeError,
        RecursionError,
        RuntimeError,
    ) as refused:  # NaN; an object; too deep; changed by its owner
        raise NotPlain from refused
    if "\\ud" in text:  # characters beyond the first plane, or surrogates that stand alone: only UTF-8 tells them apart
        try:
            _write_unicode(value).encode()
        except UnicodeEncodeError as surrogate:
            raise NotPlain from surrogate
    return text


def write_marked(value: Any) -> str:
    """ASCII JSON of any value whatever."""
    parts: list[Any] = []
    waiting: list[tuple[Any, frozenset[int]]] = [(value, frozenset())]
    for subtree, path in waiting:  # grows while it is walked
        parts.append(_Marking(waiting).mark(subtree, 0, set(path)))
    return _write({"$marked": parts[0], "parts": parts[1:]})


def write(value: Any) -> str:
    """ASCII JSON of any value, without marks where it needs none."""
    if type(value) is str and value.isascii():
        return encode_basestring_ascii(value)
    if type(value) is dict and "$marked" in value:  # it would be taken for ours
        return write_marked(value)
    try:
        return write_plain(require_plain(value))
    except NotPlain:
        return write_marked(value)


def read(data: bytes | str, *, fetch: Fetch | None = None) -> Any:
    """The value that was written. `fetch` finds the bodies it refers to."""
    return restore(_read(data if isinstance(data, str) else data.decode("ascii")), fetch=fetch)


def read_many(texts: Iterable[str]) -> list[Any]:
    """The values of texts, in one go: parsing them one by one takes twice as long."""
    return [restore(document) for document in _read(f"[{','.join(texts)}]")]


def restore(document: Any, *, fetch: Fetch | None = None) -> Any:
    """The value of a parsed document."""
    if not (isinstance(document, dict) and "$marked" in document and "parts" in document):
        return document
    marked = document["parts"]
    parts: list[Any] = [None] * len(marked)
    for place in reversed(range(len(marked))):  # a part refers only to later ones
        parts[place] = _unmark(marked[place], parts, fetch)
    return _unmark(document["$marked"], parts, fetch)


class _Marking:
    """One part on its way to JSON. What lies too deep is put off to `waiting`."""

    def __init__(self, waiting: list[tuple[Any, frozenset[int]]]) -> None:
        self._waiting = waiting

    def mark(self, value: Any, depth: int, path: set[int]) -> Any:
        scalar = _mark_scalar(value)
        if scalar is not _CONTAINER:
            return scalar
        if id(value) in path:
            return {"$repr": _repr(value)}
        if depth >= _DEPTH:
            self._waiting.append((value, frozenset(path)))
            return {"$part": len(self._waiting) - 2}
        path.add(id(value))
        try:
            return self._mark_container(value, depth + 1, path)
        finally:
            path.discard(id(value))

    def _mark_container(self, value: Any, depth: int, path: set[int]) -> Any:
        if isinstance(value, Mapping):
            return self._mark_mapping(list(value.items()), depth, path)
        items = list(value)
        if isinstance(value, set | frozenset):
            if not all(_is_key(item) for item in items):
                return {"$repr": _repr(value)}
            return {
                "$set" if isinstance(value, set) else "$frozenset": [self.mark(item, depth, path) for item in items]
            }
        marked = [self.mark(item, depth, path) for item in items]
        return {"$tuple": marked} if isinstance(value, tuple) else marked

    def _mark_mapping(self, items: list[tuple[Any, Any]], depth: int, path: set[int]) -> Any:
        if all(type(name) is str and not _SPLIT_PAIR.search(name) for name, _ in items) and not (
            len(items) == 1 and items[0][0].startswith("$")
        ):
            return {name: self.mark(item, depth, path) for name, item in items}
        taken: set[Any] = set()
        pairs = []
        for name, item in items:
            known = _key(name, taken)
            taken.add(known)
            pairs.append([self.mark(known, depth, path), self.mark(item, depth, path)])
        return {"$dict": pairs}


_CONTAINER = object()


def _mark_scalar(value: Any) -> Any:
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        text = str.__str__(value)
        return {"$str": _SPLIT_PAIR.split(text)} if _SPLIT_PAIR.search(text) else text
    if isinstance(value, int):
        number = int.__int__(value)
        return number if number.bit_length() <= _BITS else {"$int": hex(number)}
    if isinstance(value, float):
        return float.__float__(value) if math.isfinite(value) else {"$float": float.__repr__(value)}
    if isinstance(value, bytes | bytearray):
        return {"$bytes": b2a_base64(value, newline=False).decode("ascii")}
    if isinstance(value, Content):
        return {"$content": value.hash}
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return _CONTAINER
    return {"$repr": _repr(value)}


def _is_key(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bytes) or _is_key_tuple(value)


def _is_key_tuple(value: Any) -> bool:
    return type(value) is tuple and all(item is None or isinstance(item, str | int | float | bytes) for item in value)


def _key(name: Any, taken: set[Any]) -> Any:
    """The name itself, or for a foreign object its repr, made unique."""
    if _is_key(name):
        return name
    text = wanted = _repr(name)
    number = 2
    while text in taken:
        text = f"{wanted} ({number})"
        number += 1
    return text


def _repr(value: Any) -> str:
    try:
        return "".join(_SPLIT_PAIR.split(repr(value)))
    except Exception as broken:  # foreign code: an object whose repr fails must not cost a trial
        return f"<{type(value).__module__}.{type(value).__qualname__}, whose repr raised {type(broken).__name__}>"


def _unmark(value: Any, parts: list[Any], fetch: Fetch | None) -> Any:
    if type(value) is list:
        return [_unmark(item, parts, fetch) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        ((name, inner),) = value.items()
        if name.startswith("$"):
            return _unmark_one(name, inner, parts, fetch)
    return {name: _unmark(item, parts, fetch) for name, item in value.items()}


def _unmark_one(name: str, inner: Any, parts: list[Any], fetch: Fetch | None) -> Any:
    if name in _SCALARS:
        return _SCALARS[name](inner)
    if name in _COLLECTIONS:
        return _COLLECTIONS[name](_unmark(item, parts, fetch) for item in inner)
    if name == "$dict":
        return {_unmark(key, parts, fetch): _unmark(item, parts, fetch) for key, item in inner}
    if name == "$part":
        return parts[inner]
    if name == "$content" and fetch is not None:
        return read(fetch(inner), fetch=fetch)
    if name == "$repr":
        return {name: inner}
    raise ValueError(f"unknown mark {name!r}")


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "$str": "".join,
    "$int": lambda digits: int(digits, 16),
    "$float": float,
    "$bytes": a2b_base64,
}
_COLLECTIONS: dict[str, Callable[[Iterable[Any]], Any]] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}

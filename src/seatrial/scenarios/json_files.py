"""JSON, read as strictly as YAML: no duplicate keys, no NaN, a place for every problem."""

import json
import re
from bisect import bisect_right
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.scanner import NUMBER_RE
from typing import Any

from .problems import KeyPath, Place, Positions, UnreadableFile
from .yaml_files import MAX_DEPTH, Document

_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class _Twice(Exception):
    """A key is given twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Twice
    return made


def _refuse_constant(name: str) -> Any:
    raise UnreadableFile(f"not JSON: {name} is not a JSON number")


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant).decode


def parse(text: str) -> Document:
    """The content of a JSON text. Raises UnreadableFile."""
    data, twice = decode(text)
    places = find_positions(text).values.items()
    lines = [place[0] for where, place in places if len(where) == 2 and isinstance(where[1], int)]
    return Document(data=data, lines=lines, doubtful_keys=twice)


def decode(text: str) -> tuple[Any, bool]:
    """The value of a JSON text, and whether a key is given twice. Raises UnreadableFile."""
    try:
        if text.count("[") + text.count("{") > MAX_DEPTH:
            _check_depth(text)
        try:
            return _decode(text), False
        except _Twice:
            return json.loads(text, parse_constant=_refuse_constant), True
    except json.JSONDecodeError as error:
        around = text[: error.pos].rstrip()[-1:] + text[error.pos : error.pos + 1]
        hint = "Remove the comma after the last entry" if around[:1] == "," or around[1:] == "," else None
        raise UnreadableFile(f"not JSON: {error.msg}", (error.lineno, error.colno), hint) from None
    except RecursionError:
        raise UnreadableFile(f"nested more than {MAX_DEPTH} levels deep") from None
    except ValueError:
        raise UnreadableFile("a number with too many digits", None, "Put it in quotes") from None


def _check_depth(text: str) -> None:
    """Refuse a text that is nested too deeply for the recursion limit of Python."""
    depth = 0
    for index, char in _outside_strings(text):
        if char in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise UnreadableFile(f"nested more than {MAX_DEPTH} levels deep", _place(text, index))
        elif char in "]}":
            depth -= 1


def _outside_strings(text: str) -> list[tuple[int, str]]:
    return [(match.start(), match.group()) for match in _MARKS.finditer(text) if match.group()[0] != '"']


def _place(text: str, index: int) -> Place:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def find_positions(text: str, *, first_line: int = 1) -> Positions:
    """The place of every key and value, in a text that `parse` could read."""
    positions = Positions()
    _Walk(text, positions, first_line).value((), 0)
    return positions


class _Walk:
    """Reads a valid JSON text and notes where keys and values begin."""

    def __init__(self, text: str, positions: Positions, first_line: int) -> None:
        self._text = text
        self._positions = positions
        self._first_line = first_line
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def _place(self, index: int) -> Place:
        line = bisect_right(self._line_starts, index)
        return line + self._first_line - 1, index - self._line_starts[line - 1] + 1

    def value(self, where: KeyPath, index: int) -> int:
        """Note the value that begins at or after the index; return where it ends."""
        index = self._skip(index)
        self._positions.values[where] = self._place(index)
        char = self._text[index]
        if char == "{":
            return self._object(where, index + 1)
        if char == "[":
            return self._array(where, index + 1)
        if char == '"':
            return self._string(index)[1]
        number = NUMBER_RE.match(self._text, index)
        if number is not None:
            return number.end()
        return index + (5 if char == "f" else 4)

    def _object(self, where: KeyPath, index: int) -> int:
        index = self._skip(index)
        while self._text[index] != "}":
            index = self._skip(index + 1) if self._text[index] == "," else index
            key, end = self._string(index)
            self._positions.keys.setdefault((*where, key), []).append(self._place(index))
            index = self._skip(self.value((*where, key), self._skip(end) + 1))
        return index + 1

    def _array(self, where: KeyPath, index: int) -> int:
        index, item = self._skip(index), 0
        while self._text[index] != "]":
            index = self._skip(index + 1) if self._text[index] == "," else index
            index, item = self._skip(self.value((*where, item), index)), item + 1
        return index + 1

    def _string(self, index: int) -> tuple[str, int]:
        key, end = scanstring(self._text, index + 1)
        return key, end

    def _skip(self, index: int) -> int:
        while self._text[index] in " \t\n\r":
            index += 1
        return index

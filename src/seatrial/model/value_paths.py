"""Paths into JSON values, as suites write them: `orders.*.items[].price`.

name          the value of a key; a number is also the index of a list element
*             every value of a mapping, every element of a list
[]            every element of a list
[0]           one element of a list
"a.b" ["a.b"] a key with special characters
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from seatrial.errors import UsageError

from .struct import Struct

Location = tuple[str | int, ...]
"""The keys and indexes that lead to one value."""

_STEP = re.compile(
    r"""
    \[(?P<index>\d+)\]
    | (?P<each>\[\])
    | \["(?P<in_brackets>(?:[^"\\]|\\.)*)"\]
    | "(?P<quoted>(?:[^"\\]|\\.)*)"
    | (?P<any>\*)
    | (?P<name>[^.\[\]"*]+)
    """,
    re.VERBOSE,
)


class EachValue(Struct, frozen=True):
    """The step `*`."""


class EachElement(Struct, frozen=True):
    """The step `[]`."""


Step = str | int | EachValue | EachElement


class ValuePath(Struct, frozen=True, kw_only=True):
    """A parsed path."""

    text: str
    steps: tuple[Step, ...]

    def find(self, value: Any) -> Iterator[tuple[Location, Any]]:
        """Each value that the path leads to, with its location."""
        return _find(value, self.steps, ())

    def covers(self, location: Location) -> bool:
        """Whether the path leads to this location, or to a value that contains it."""
        return len(location) >= len(self.steps) and all(map(_fits, self.steps, location))


@lru_cache(maxsize=1024)
def parse_path(text: str) -> ValuePath:
    """The path. Raises UsageError if the text is none."""
    steps: list[Step] = []
    position = 0
    while position < len(text):
        if steps and text[position] == ".":
            position += 1
        elif steps and text[position] != "[":
            raise _unreadable(text, position)
        found = _STEP.match(text, position)
        if found is None:
            raise _unreadable(text, position)
        steps.append(_read_step(found))
        position = found.end()
    if not steps:
        raise UsageError("the path is empty. Write one such as orders.*.status.")
    return ValuePath(text=text, steps=tuple(steps))


def show_location(location: Location) -> str:
    """The location as a path: `orders.W1.items[0]`."""
    shown = ""
    for part in location:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            name = part if re.fullmatch(r"[\w#@$-]+", part) else _quoted(part)
            shown += f".{name}" if shown else name
    return shown or "(the whole value)"


def _quoted(key: str) -> str:
    escaped = re.sub(r'(["\\])', r"\\\1", key)
    return f'"{escaped}"'


def _unreadable(text: str, position: int) -> UsageError:
    rest = text[position:] or "the end"
    return UsageError(f"the path {text!r} cannot be read at {rest!r}. Write one such as orders.*.items[].price.")


def _read_step(found: "re.Match[str]") -> Step:
    if found["index"] is not None:
        return int(found["index"])
    if found["each"] is not None:
        return EachElement()
    if found["any"] is not None:
        return EachValue()
    quoted = found["quoted"] if found["in_brackets"] is None else found["in_brackets"]
    return found["name"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)


def _find(value: Any, steps: Sequence[Step], location: Location) -> Iterator[tuple[Location, Any]]:
    if not steps:
        yield location, value
        return
    for part, below in _children(value):
        if _fits(steps[0], part):
            yield from _find(below, steps[1:], (*location, part))


def _children(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)


def _fits(step: Step, part: str | int) -> bool:
    match step:
        case EachValue():
            return True
        case EachElement():
            return isinstance(part, int)
        case int():
            return step == part
        case _:
            return step == part if isinstance(part, str) else step == str(part)

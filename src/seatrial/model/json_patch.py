"""Differences between two JSON values, and JSON Patch (RFC 6902), which turns the first into the second.

Values are never changed: a patched value shares all unchanged parts with the original. Comparing the two again is
therefore quick, however large they are.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from seatrial.errors import UsageError

from .conversation import Change
from .struct import Struct
from .value_paths import Location


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = _Absent()
"""Instead of a value: there is none at this place."""


class Difference(Struct, frozen=True):
    """One place where two values differ."""

    location: Location
    before: Any
    after: Any


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. A bool never equals a number, and NaN equals NaN."""
    if one is other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return len(one) == len(other) and all(key in other and same(item, other[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    return bool(one == other) or (one != one and other != other)


def differences(before: Any, after: Any, location: Location = ()) -> Iterator[Difference]:
    """Every smallest place where the values differ. Lists of different length differ as a whole where they do."""
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            one, other = before.get(key, ABSENT), after.get(key, ABSENT)
            if one is not other:  # most parts of a large state are shared
                yield from differences(one, other, (*location, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, (*location, index))
    elif not same(before, after):
        yield Difference(location, before, after)


def make_changes(before: Any, after: Any) -> tuple[Change, ...]:
    """The patch from one value to the other."""
    return tuple(_changes(before, after, ()))


def _changes(before: Any, after: Any, location: Location) -> Iterator[Change]:
    for found in differences(before, after, location):
        if isinstance(found.before, list) and isinstance(found.after, list):
            yield from _list_changes(found.before, found.after, found.location)
        elif found.before is ABSENT:
            yield Change("add", write_pointer(found.location), found.after)
        elif found.after is ABSENT:
            yield Change("remove", write_pointer(found.location), was=found.before)
        else:
            yield Change("replace", write_pointer(found.location), found.after, found.before)


def _list_changes(before: list[Any], after: list[Any], location: Location) -> Iterator[Change]:
    """Equal elements at both ends stay; those between are changed, then removed or added."""
    shorter = min(len(before), len(after))
    first = 0
    while first < shorter and same(before[first], after[first]):
        first += 1
    last = 0
    while last < shorter - first and same(before[-1 - last], after[-1 - last]):
        last += 1
    middle = shorter - last
    for index in range(first, middle):
        yield from _changes(before[index], after[index], (*location, index))
    for index in reversed(range(middle, len(before) - last)):
        yield Change("remove", write_pointer((*location, index)), was=before[index])
    for index in range(middle, len(after) - last):
        yield Change("add", write_pointer((*location, index)), after[index])


def apply_changes(value: Any, changes: Iterable[Change]) -> Any:
    """The value after the changes. Raises UsageError if they do not fit: they were made for another value."""
    for change in changes:
        try:
            value = _apply(value, read_pointer(change.path), change)
        except (LookupError, ValueError, TypeError):
            raise UsageError(
                f"the change {change.op} {change.path!r} does not fit this value: it was made for another one"
            ) from None
    return value


def _apply(value: Any, parts: list[str], change: Change) -> Any:
    if not parts:
        return change.value
    part, *rest = parts
    if isinstance(value, list):
        return _apply_to_list(value, int(part), rest, change)
    if not isinstance(value, dict) or ((rest or change.op != "add") and part not in value):
        raise LookupError(part)
    copy = dict(value)
    if rest:
        copy[part] = _apply(value[part], rest, change)
    elif change.op == "remove":
        del copy[part]
    else:
        copy[part] = change.value
    return copy


def _apply_to_list(value: list[Any], index: int, rest: list[str], change: Change) -> list[Any]:
    copy = list(value)
    if rest:
        copy[index] = _apply(value[index], rest, change)
    elif change.op == "remove":
        del copy[index]
    elif change.op == "replace":
        copy[index] = change.value
    elif index <= len(copy):
        copy.insert(index, change.value)
    else:
        raise LookupError(index)
    return copy


def merge_patch(value: Any, patch: Any) -> Any:
    """The value with a JSON Merge Patch (RFC 7386): mappings are merged, null removes, all else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(value) if isinstance(value, Mapping) else {}
    for key, item in patch.items():
        if item is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), item)
    return merged


def write_pointer(location: Location) -> str:
    """The location as a JSON Pointer (RFC 6901): `/orders/W1/items/0`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in location)


def read_pointer(pointer: str) -> list[str]:
    """The parts of a JSON Pointer."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def locate(value: Any, pointer: str) -> Location:
    """The pointer as a location in the value: the parts inside of lists are indexes."""
    location: list[str | int] = []
    for part in read_pointer(pointer):
        if isinstance(value, list):
            location.append(int(part))
            value = value[int(part)] if int(part) < len(value) else None
        else:
            location.append(part)
            value = value.get(part) if isinstance(value, dict) else None
    return tuple(location)

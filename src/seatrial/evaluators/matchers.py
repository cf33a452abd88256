"""When an expected value and a recorded one are the same: JSON equality, and `{$op: value}` matchers inside it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from seatrial.errors import UsageError

_LONGEST = 500
"""An agent may pass a whole document as an argument; a reason that repeats it helps nobody."""


def shown(value: object) -> str:
    """The value as Python writes it, shortened where it is very long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def matches(expected: Any, actual: Any) -> bool:
    """Whether they are equal as JSON values, with matchers taken as what they ask for.

    Numbers compare numerically, a bool never equals a number, null is not absent, list order counts.
    """
    if isinstance(expected, str):
        return isinstance(actual, str) and expected == actual
    if isinstance(expected, Mapping):
        operator = operator_of(expected)
        if operator is not None:
            return _apply(operator, expected[operator], actual)
        return isinstance(actual, Mapping) and len(actual) == len(expected) and subset(expected, actual)
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(actual, (list, tuple))
            and len(actual) == len(expected)
            and all(matches(ours, theirs) for ours, theirs in zip(expected, actual, strict=True))
        )
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    return bool(expected == actual)


def subset(expected: Mapping[str, Any], actual: Mapping[str, Any], *, exact: bool = False) -> bool:
    """Whether every expected key is there with a matching value; with `exact`, also no other key."""
    if exact and len(actual) != len(expected):
        return False
    return all(key in actual and matches(value, actual[key]) for key, value in expected.items())


def includes(expected: Any, actual: Any) -> bool:
    """Like `matches`, but mappings at any depth may have more keys than were expected."""
    if isinstance(expected, Mapping) and operator_of(expected) is None:
        return isinstance(actual, Mapping) and all(
            key in actual and includes(value, actual[key]) for key, value in expected.items()
        )
    if isinstance(expected, (list, tuple)):
        return (
            isinstance(actual, (list, tuple))
            and len(actual) == len(expected)
            and all(includes(ours, theirs) for ours, theirs in zip(expected, actual, strict=True))
        )
    return matches(expected, actual)


def mismatch(expected: Any, actual: Any) -> str | None:
    """What differs, in words; None when nothing does."""
    return None if matches(expected, actual) else f"expected {shown(expected)}, got {shown(actual)}"


def argument_differences(expected: Mapping[str, Any], actual: Mapping[str, Any], *, exact: bool = False) -> list[str]:
    """One text for each argument that is missing, differs or, with `exact`, was not asked for."""
    found = []
    for key, value in expected.items():
        if key not in actual:
            found.append(f"{key}: missing")
        elif (text := mismatch(value, actual[key])) is not None:
            found.append(f"{key}: {text}")
    if exact:
        found.extend(f"{key}: not expected, got {shown(actual[key])}" for key in actual if key not in expected)
    return found


def differences(expected: Any, actual: Any, *, path: str = "") -> Iterator[str]:
    """One text, with its path, for each place where `actual` does not include what was expected."""
    where = f"{path}: " if path else ""
    if isinstance(expected, Mapping) and operator_of(expected) is None and isinstance(actual, Mapping):
        for key, value in expected.items():
            below = f"{path}.{key}" if path else str(key)
            if key in actual:
                yield from differences(value, actual[key], path=below)
            else:
                yield f"{below}: missing"
    elif isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)) and len(expected) == len(actual):
        for index, (ours, theirs) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(ours, theirs, path=f"{path}[{index}]")
    elif not includes(expected, actual):
        yield f"{where}expected {shown(expected)}, got {shown(actual)}"


def operator_of(expected: Mapping[Any, Any]) -> str | None:
    """The `$op` of a matcher; None for a mapping that is meant as itself."""
    if len(expected) != 1:
        return None
    key = next(iter(expected))
    return key if isinstance(key, str) and key.startswith("$") else None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, (list, tuple)),
    "null": lambda value: value is None,
}
"""The names that `$type` knows: those of JSON Schema."""


def _comparable(bound: object, actual: object) -> bool:
    both_numbers = _is_number(bound) and _is_number(actual)
    return both_numbers or (isinstance(bound, str) and isinstance(actual, str))


def _contains(part: Any, actual: Any) -> bool:
    if isinstance(actual, str):
        return isinstance(part, str) and part in actual
    return isinstance(actual, (list, tuple)) and any(matches(part, item) for item in actual)


def _is_of_type(name: str, actual: Any) -> bool:
    if name not in TYPES:
        raise UsageError(f"$type: unknown type {name!r}. Known: {', '.join(TYPES)}.")
    return TYPES[name](actual)


def _one_of(options: Sequence[Any], actual: Any) -> bool:
    return any(matches(option, actual) for option in options)


OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$regex": lambda pattern, actual: isinstance(actual, str) and re.search(pattern, actual) is not None,
    "$contains": _contains,
    "$one_of": _one_of,
    "$gt": lambda bound, actual: _comparable(bound, actual) and actual > bound,
    "$gte": lambda bound, actual: _comparable(bound, actual) and actual >= bound,
    "$lt": lambda bound, actual: _comparable(bound, actual) and actual < bound,
    "$lte": lambda bound, actual: _comparable(bound, actual) and actual <= bound,
    "$type": _is_of_type,
    "$any": lambda _, actual: True,
    "$subset": lambda part, actual: isinstance(actual, Mapping) and includes(part, actual),
    "$not": lambda other, actual: not matches(other, actual),
}
"""Each takes its operand and the recorded value."""


def _apply(operator: str, operand: Any, actual: Any) -> bool:
    test = OPERATORS.get(operator)
    if test is None:
        raise UsageError(f"unknown matcher {operator!r} in an expected value. Known: {', '.join(OPERATORS)}.")
    return test(operand, actual)

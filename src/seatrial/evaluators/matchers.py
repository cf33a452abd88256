"""Comparison of expected and recorded values: JSON equality, and matchers such as `{$gt: 5}`."""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from seatrial import patterns
from seatrial.errors import UsageError

_LONGEST = 500
"""Characters of a value in a message; an agent may pass a whole document as an argument."""


def shown(value: object) -> str:
    """The repr of the value, shortened if it is very long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


Answer = bool | None
"""None if the question does not apply: neither the matcher nor its negation holds."""


def matches(expected: Any, actual: Any) -> bool:
    """Whether they are equal as JSON values, or fit the matchers.

    Numbers compare numerically, a bool never equals a number, null is not absent, list order counts.
    """
    return answer(expected, actual) is True


def answer(expected: Any, actual: Any) -> Answer:
    """Like `matches`; None if the values cannot be ordered, such as `{$gt: 1}` for a text."""
    if isinstance(expected, str):
        return isinstance(actual, str) and expected == actual
    if isinstance(expected, Mapping):
        name = operator_of(expected)
        if name is not None:
            return _apply(name, expected[name], actual)
        if not isinstance(actual, Mapping) or len(actual) != len(expected):
            return False
        return every(answer(value, actual[key]) if key in actual else False for key, value in expected.items())
    if isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            return False
        return every(answer(ours, theirs) for ours, theirs in zip(expected, actual, strict=True))
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    return bool(expected == actual)


def every(answers: Iterable[Answer]) -> Answer:
    """True if all are; False if one is; else None."""
    known = list(answers)
    return False if False in known else None if None in known else True


def some(answers: Iterable[Answer]) -> Answer:
    """True if one is; None if one does not apply; else False."""
    known = list(answers)
    return True if True in known else None if None in known else False


def negated(given: Answer) -> Answer:
    """The opposite; None stays None."""
    return None if given is None else not given


def subset(expected: Mapping[str, Any], actual: Mapping[str, Any], *, exact: bool = False) -> bool:
    """Whether every expected key is there with a matching value; with `exact`, also no other key."""
    if exact and len(actual) != len(expected):
        return False
    return all(key in actual and matches(value, actual[key]) for key, value in expected.items())


def includes(expected: Any, actual: Any) -> bool:
    """Like `matches`, but mappings at any depth may have more keys than were expected."""
    return _included(expected, actual) is True


def _included(expected: Any, actual: Any) -> Answer:
    if isinstance(expected, Mapping) and operator_of(expected) is None:
        return isinstance(actual, Mapping) and every(
            _included(value, actual[key]) if key in actual else False for key, value in expected.items()
        )
    if isinstance(expected, (list, tuple)):
        if not isinstance(actual, (list, tuple)) or len(actual) != len(expected):
            return False
        return every(_included(ours, theirs) for ours, theirs in zip(expected, actual, strict=True))
    return answer(expected, actual)


def mismatch(expected: Any, actual: Any) -> str | None:
    """The difference in words; None if there is none."""
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
    """The `$op` of a matcher; None for a plain mapping."""
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


def _ordered(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Answer]:
    """The comparison of two numbers or two texts; None for other values and for NaN."""

    def compare(bound: Any, actual: Any) -> Answer:
        numbers = _is_number(bound) and _is_number(actual) and actual == actual
        texts = isinstance(bound, str) and isinstance(actual, str)
        return holds(actual, bound) if numbers or texts else None

    return compare


_at_least, _at_most = _ordered(operator.ge), _ordered(operator.le)


def _contains(part: Any, actual: Any) -> Answer:
    if isinstance(actual, str):
        return isinstance(part, str) and part in actual
    return isinstance(actual, (list, tuple)) and some(answer(part, item) for item in actual)


def _is_of_type(name: str, actual: Any) -> bool:
    if name not in TYPES:
        raise UsageError(f"$type: unknown type {name!r}. Known: {', '.join(TYPES)}.")
    return TYPES[name](actual)


OPERATORS: Mapping[str, Callable[[Any, Any], Answer]] = {
    "$regex": lambda pattern, actual: isinstance(actual, str) and patterns.search(pattern, actual) is not None,
    "$contains": _contains,
    "$one_of": lambda options, actual: some(answer(option, actual) for option in options),
    "$gt": _ordered(operator.gt),
    "$gte": _at_least,
    "$lt": _ordered(operator.lt),
    "$lte": _at_most,
    "$between": lambda bounds, actual: every((_at_least(bounds[0], actual), _at_most(bounds[1], actual))),
    "$type": _is_of_type,
    "$any": lambda _, actual: True,
    "$subset": lambda part, actual: isinstance(actual, Mapping) and _included(part, actual),
    "$not": lambda other, actual: negated(answer(other, actual)),
}
"""Each takes its operand and the recorded value."""


def _apply(name: str, operand: Any, actual: Any) -> Answer:
    test = OPERATORS.get(name)
    if test is None:
        raise UsageError(f"unknown matcher {name!r} in an expected value. Known: {', '.join(OPERATORS)}.")
    return test(operand, actual)

"""Checks of values from which secrets were redacted: a rule that passes now might fail with the secret.

An answer is None if it depends on the secret. A rule that contains the redaction mark compares the redacted value.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from seatrial.model.conversation import REDACTED, ErrorInfo, ErrorKind
from seatrial.model.protocols import Context
from seatrial.model.results import EvalResult
from seatrial.patterns import find_all, search

from .built_in import no_answer
from .matchers import Answer, answer, every, negated, operator_of, some

_NAME = REDACTED.strip("[]")
_NEGATIVE = ("(?!", "(?<!")
"""Parts of patterns that require the absence of a text."""


def secret_in_reply(what: str, ctx: Context, *, searched_for: str, part: str = "reply") -> EvalResult:
    """An errored result: the reply would pass because of a redaction."""
    message = f"{what}: {_secret(ctx)} was redacted from the {part}, so it cannot be searched for {searched_for}"
    return no_answer(message, hint=f"{_FORBID} {_exempt(ctx.redacted)}")


def secret_in_arguments(what: str, ctx: Context, *, tool: str) -> EvalResult:
    """An errored result: the arguments would pass because of a redaction."""
    message = f"{what}: {_secret(ctx)} was redacted from the arguments of {tool!r}, so they cannot be checked"
    return no_answer(message, hint=f"{_FORBID} {_exempt(ctx.redacted)}")


def secret_in_state(ctx: Context) -> EvalResult:
    """An errored result: the state would pass because of a redaction."""
    message = f"expected_state: {_secret(ctx)} was redacted from the state, so it cannot be checked"
    return no_answer(message, hint=f"Let the mocks keep another value in ctx.state. {_exempt(ctx.redacted)}")


def secret_in_expectation(what: str, names: Sequence[str]) -> ErrorInfo:
    """Why an expectation that contains a redacted value has no answer."""
    message = f"{what}: the expectation contains the value of {' and '.join(names)}, which is redacted in transcripts"
    return ErrorInfo(kind=ErrorKind.CONFIG, message=message, hint=f"Expect another value. {_exempt(names)}")


_FORBID = f"To test that no secret is told, forbid {REDACTED!r} itself."


def _secret(ctx: Context) -> str:
    return f"the value of {' or '.join(ctx.redacted)}" if ctx.redacted else "a secret"


def _exempt(names: Sequence[str]) -> str:
    shown = ", ".join(names) or "NAME"
    return f"If it is no secret, exempt it in the settings: redact: {{except: [{shown}]}}."


def holds_redaction(value: Any) -> bool:
    """Whether a text in the value was redacted."""
    if isinstance(value, str):
        return REDACTED in value
    if isinstance(value, Mapping):
        return any(holds_redaction(key) or holds_redaction(item) for key, item in value.items())
    return isinstance(value, (list, tuple)) and any(map(holds_redaction, value))


def is_found_surely(pattern: str, text: str, flags: int = 0) -> bool:
    """Whether the pattern is found outside of redacted parts, and requires the absence of nothing."""
    if REDACTED not in text or _NAME in pattern:
        return search(pattern, text, flags) is not None
    marks = list(_places_of(REDACTED, text))
    return not any(sign in pattern for sign in _NEGATIVE) and any(
        all(found.end <= start or end <= found.start for start, end in marks)
        for found in find_all(pattern, text, flags)
    )


def _places_of(part: str, text: str) -> Iterator[tuple[int, int]]:
    end = 0
    while (start := text.find(part, end)) >= 0:
        end = start + len(part)
        yield start, end


def _fits_around(pieces: Sequence[str], text: str) -> bool:
    """Whether the text is these pieces in their order, with at least one character in each gap."""
    first, *middle, last = pieces
    if not text.startswith(first) or not text.endswith(last):
        return False
    end = len(first)
    for piece in middle:
        start = text.find(piece, end + 1)
        if start < 0:
            return False
        end = start + len(piece)
    return end < len(text) - len(last)


def includes_surely(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> bool | None:
    """Whether the expected keys are there with matching values."""
    return _certain(_included(expected, actual))


def matches_surely(expected: Any, actual: Any) -> bool | None:
    """Whether a value matches what was expected."""
    return _certain(_possible(expected, actual))


Possible = frozenset[Answer]
"""All answers that are possible, depending on the secrets."""
_EITHER: Possible = frozenset((True, False))


def _certain(possible: Possible) -> bool | None:
    if True not in possible:
        return False
    return True if len(possible) == 1 else None


def _possible(expected: Any, actual: Any) -> Possible:
    if isinstance(expected, Mapping):
        operator = operator_of(expected)
        if operator is not None:
            return _apply(operator, expected[operator], actual)
        fits = isinstance(actual, Mapping) and len(actual) == len(expected)
        return _included(expected, actual) if fits else frozenset((False,))
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)) and len(expected) == len(actual):
        return _combined(every, [_possible(ours, theirs) for ours, theirs in zip(expected, actual, strict=True)])
    if isinstance(expected, str) and isinstance(actual, str) and REDACTED in actual and _NAME not in expected:
        return _EITHER if _fits_around(actual.split(REDACTED), expected) else frozenset((False,))
    return frozenset((answer(expected, actual),))


def _included(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Possible:
    absent = _EITHER if any(REDACTED in key for key in actual if isinstance(key, str)) else frozenset((False,))
    return _combined(
        every, [_possible(value, actual[key]) if key in actual else absent for key, value in expected.items()]
    )


def _apply(operator: str, operand: Any, actual: Any) -> Possible:
    if operator == "$not":
        return frozenset(map(negated, _possible(operand, actual)))
    if operator == "$one_of":
        return _combined(some, [_possible(option, actual) for option in operand])
    if operator == "$subset":
        return _part(operand, actual) if isinstance(actual, Mapping) else frozenset((False,))
    if operator == "$contains" and isinstance(actual, (list, tuple)):
        return _combined(some, [_possible(operand, item) for item in actual])
    asked = operand if operator == "$between" else [operand]
    texts = isinstance(actual, str) and all(isinstance(each, str) for each in asked)
    if operator == "$type" or not texts or REDACTED not in actual or any(_NAME in each for each in asked):
        return frozenset((answer({operator: operand}, actual),))
    if operator == "$contains":
        return frozenset((True,)) if any(operand in beside for beside in actual.split(REDACTED)) else _EITHER
    return frozenset((True,)) if operator == "$regex" and is_found_surely(operand, actual) else _EITHER


def _part(expected: Any, actual: Any) -> Possible:
    """Like `_possible`, but mappings at any depth may have more keys than were expected."""
    if isinstance(expected, Mapping) and operator_of(expected) is None:
        nested = {key: _subset(value) for key, value in expected.items()}
        return _included(nested, actual) if isinstance(actual, Mapping) else frozenset((False,))
    return _possible(_subset(expected), actual)


def _subset(expected: Any) -> Any:
    if isinstance(expected, Mapping) and operator_of(expected) is None:
        return {"$subset": expected}
    return [_subset(item) for item in expected] if isinstance(expected, (list, tuple)) else expected


def _combined(fold: Callable[[Iterable[Answer]], Answer], parts: Iterable[Possible]) -> Possible:
    """All answers that the parts can have together."""
    possible: Possible = frozenset((fold(()),))
    for part in parts:
        possible = frozenset(fold((one, other)) for one in possible for other in part)
    return possible

"""What can be said of a value from which a secret was taken out: a rule that passes without it may not pass with it.

Answers here are True, False, or None where they depend on the secret. A rule that names the redaction itself means the
value as it stands.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from seatrial.vocabulary.conversation import REDACTED
from seatrial.vocabulary.findings import EvalResult

from .evidence import no_answer
from .matchers import matches, operator_of

_NAME = REDACTED.strip("[]")
_HINT = f"To test that no secret is told, forbid {REDACTED!r} itself."
_NEGATIVE = ("(?!", "(?<!")
"""Parts of patterns that ask that something is not there."""


def secret_in_reply(what: str, *, searched_for: str) -> EvalResult:
    """The result where a check of the reply would pass because of a secret that was taken out."""
    message = f"{what}: a secret was taken out of the reply, so it cannot be searched for {searched_for}"
    return no_answer(message, hint=_HINT)


def secret_in_arguments(what: str, *, tool: str) -> EvalResult:
    """The result where a check of arguments would pass because of a secret that was taken out."""
    message = f"{what}: a secret was taken out of the arguments of {tool!r}, so nobody can say whether they fit"
    return no_answer(message, hint=_HINT)


def holds_redaction(value: Any) -> bool:
    """Whether a secret was taken out of any text in the value."""
    if isinstance(value, str):
        return REDACTED in value
    if isinstance(value, Mapping):
        return any(holds_redaction(key) or holds_redaction(item) for key, item in value.items())
    return isinstance(value, (list, tuple)) and any(map(holds_redaction, value))


def is_found_surely(pattern: str, text: str, flags: int = 0) -> bool:
    """Whether the pattern would be found with the secrets in the text: only if it is found beside them, and asks for
    nothing that must not be there."""
    if REDACTED not in text or _NAME in pattern:
        return re.search(pattern, text, flags) is not None
    marks = [mark.span() for mark in re.finditer(re.escape(REDACTED), text)]
    return not any(sign in pattern for sign in _NEGATIVE) and any(
        all(found.end() <= start or end <= found.start() for start, end in marks)
        for found in re.finditer(pattern, text, flags)
    )


def includes_surely(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> bool | None:
    """Whether the expected keys are there with matching values."""
    absent = None if any(isinstance(key, str) and REDACTED in key for key in actual) else False
    return _all(matches_surely(value, actual[key]) if key in actual else absent for key, value in expected.items())


def matches_surely(expected: Any, actual: Any) -> bool | None:
    """Whether a value matches what was expected."""
    if isinstance(expected, Mapping):
        operator = operator_of(expected)
        if operator is not None:
            return _apply(operator, expected[operator], actual)
        fits = isinstance(actual, Mapping) and len(actual) == len(expected)
        return includes_surely(expected, actual) if fits else False
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)) and len(expected) == len(actual):
        return _all(matches_surely(ours, theirs) for ours, theirs in zip(expected, actual, strict=True))
    if isinstance(expected, str) and isinstance(actual, str) and REDACTED in actual and _NAME not in expected:
        around = ".+".join(map(re.escape, actual.split(REDACTED)))
        return None if re.fullmatch(around, expected, re.DOTALL) else False
    return matches(expected, actual)


def _apply(operator: str, operand: Any, actual: Any) -> bool | None:
    if operator == "$not":
        answer = matches_surely(operand, actual)
        return None if answer is None else not answer
    if operator == "$one_of":
        return _any(matches_surely(option, actual) for option in operand)
    if operator == "$subset":
        return isinstance(actual, Mapping) and _is_part_surely(operand, actual)
    if operator == "$contains" and isinstance(actual, (list, tuple)):
        return _any(matches_surely(operand, item) for item in actual)
    texts = isinstance(actual, str) and isinstance(operand, str)
    if operator == "$type" or not texts or REDACTED not in actual or _NAME in operand:
        return matches({operator: operand}, actual)
    if operator == "$contains":
        return True if any(operand in beside for beside in actual.split(REDACTED)) else None
    return True if operator == "$regex" and is_found_surely(operand, actual) else None


def _is_part_surely(expected: Any, actual: Any) -> bool | None:
    """Like `matches_surely`, but mappings at any depth may have more keys than were expected."""
    if isinstance(expected, Mapping) and operator_of(expected) is None:
        nested = {key: _subset(value) for key, value in expected.items()}
        return isinstance(actual, Mapping) and includes_surely(nested, actual)
    return matches_surely(_subset(expected), actual)


def _subset(expected: Any) -> Any:
    if isinstance(expected, Mapping) and operator_of(expected) is None:
        return {"$subset": expected}
    return [_subset(item) for item in expected] if isinstance(expected, (list, tuple)) else expected


def _all(answers: Iterable[bool | None]) -> bool | None:
    known = list(answers)
    return False if False in known else None if None in known else True


def _any(answers: Iterable[bool | None]) -> bool | None:
    known = list(answers)
    return True if True in known else None if None in known else False

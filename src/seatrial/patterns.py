"""Patterns from suites: matched with Python's `re`, and with a time limit.

`re` holds the interpreter's lock while it matches: no thread and no signal can stop it. So the decision is made before
the match. A pattern that needs few steps on this text is matched here. Any other is matched by a worker process, which
ends itself when the limit is over. The parsed pattern tells how many steps it may need.
"""

import atexit
import io
import marshal
import math
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from seatrial.model.conversation import ErrorKind
from seatrial.model.results import TrialError

if TYPE_CHECKING:
    import subprocess

LIMIT_SECONDS = 1.0
_MOST_STEPS = 1_000_000
"""About ten milliseconds."""
_WORKER = Path(__file__).with_name("pattern_worker.py")
_TOOK_TOO_LONG = 1
"""The worker's exit code when a match took longer than the limit."""
_HINT = "simplify the pattern; avoid a repeat inside a repeat, such as (a+)+"


class PatternError(TrialError):
    """There is no answer whether the pattern matches: it took too long, or the worker process failed."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(ErrorKind.EVALUATOR, message, hint=hint)


class Found(NamedTuple):
    """The place of a match in the text."""

    start: int
    end: int


def problem(pattern: str) -> str | None:
    """Why it is not a regular expression; None when it is one."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return None


def search(pattern: str, text: str, flags: int = 0) -> Found | None:
    """The first match. Raises PatternError where there is no answer within the limit."""
    if _is_quick(pattern, text, flags):
        found = re.search(pattern, text, flags)
        return None if found is None else Found(*found.span())
    return next(iter(_worker.ask(pattern, text, flags, first=True)), None)


def find_all(pattern: str, text: str, flags: int = 0) -> list[Found]:
    """All matches, in their order. Raises PatternError where there is no answer within the limit."""
    if _is_quick(pattern, text, flags):
        return [Found(*found.span()) for found in re.finditer(pattern, text, flags)]
    return _worker.ask(pattern, text, flags, first=False)


def _is_quick(pattern: str, text: str, flags: int) -> bool:
    factor, power = _ways(pattern, int(flags))
    try:
        return factor * math.pow(len(text) + 1, power + 1) <= _MOST_STEPS
    except OverflowError:
        return False


class Ways(NamedTuple):
    """In how many ways a pattern can match from one place of a text of n characters: factor * n ** power at most."""

    factor: float = 1.0
    power: float = 0.0

    def then(self, other: "Ways") -> "Ways":
        return Ways(self.factor * other.factor, self.power + other.power)


_ONE = Ways()
_ENDLESS = Ways(float("inf"))
_SINGLE = {"LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "RANGE", "CATEGORY"}


@lru_cache(maxsize=1024)
def _ways(pattern: str, flags: int) -> Ways:
    try:
        return _ways_of(_parser.parse(pattern, flags))
    except RecursionError:
        return _ENDLESS


def _ways_of(parts: Iterable[tuple[Any, Any]]) -> Ways:
    found = _ONE
    for operator, operand in parts:
        found = found.then(_ways_of_part(str(operator), operand))
    return found


def _ways_of_part(operator: str, operand: Any) -> Ways:
    match operator:
        case "SUBPATTERN":
            return _ways_of(operand[3])
        case "ATOMIC_GROUP":
            return _ways_of(operand)
        case "ASSERT" | "ASSERT_NOT":
            return _ways_of(operand[1])
        case "BRANCH":
            return _either(map(_ways_of, operand[1]))
        case "GROUPREF_EXISTS":
            return _either(_ways_of(each) for each in operand[1:] if each is not None)
        case "GROUPREF":
            return Ways(power=1.0)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            _, most, repeated = operand
            return _repeat(_ways_of(repeated), most)
    return _ONE if operator in _SINGLE else _ENDLESS


def _either(branches: Iterable[Ways]) -> Ways:
    known = list(branches)
    return Ways(sum(each.factor for each in known), max(each.power for each in known))


def _repeat(ways: Ways, most: Any) -> Ways:
    if ways == _ONE:
        return Ways(power=1.0) if most is _constants.MAXREPEAT else Ways(most + 1.0)
    if most is _constants.MAXREPEAT:
        return _ENDLESS
    try:
        return Ways((ways.factor + 1.0) ** most, ways.power * most)
    except OverflowError:
        return _ENDLESS


class _Worker:
    """One process that matches patterns, started when it is first needed. A match that ends it is not repeated."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, pattern: str, text: str, flags: int, *, first: bool) -> list[Found]:
        with self._lock:
            process = self._started(pattern)
            answer = None
            try:
                answer = _exchange(process, (pattern, text, int(flags), first, LIMIT_SECONDS))
            finally:
                if answer is None:  # it ended; or we were interrupted, and its answer would be taken for the next one
                    self.stop()
        if answer is None:
            raise _no_answer(pattern, process.returncode)
        if isinstance(answer, str):
            raise PatternError(f"the pattern {pattern!r} could not be matched: {answer}")
        return [Found(*span) for span in answer]

    def _started(self, pattern: str) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self.stop()
            try:
                self._process = _start()
            except OSError as error:
                message = f"the pattern {pattern!r} needs a process of its own, which could not be started: {error}"
                raise PatternError(message) from None
        return self._process

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        _close_pipes(process)

    def forget(self) -> None:
        """In a fork: the process belongs to the parent, and so does the lock if a thread of the parent has it."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        if process is not None:
            process.returncode = 0  # so that nothing waits for it here
            _close_pipes(process)


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _start() -> "subprocess.Popen[bytes]":
    import subprocess

    command = [sys.executable, "-I", "-S", str(_WORKER)]
    # Nothing is buffered on the way in: what a fork finds in a buffer, it would send once more.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
    process.stdout = io.BufferedReader(cast(io.RawIOBase, process.stdout))
    if not process.stdout.read(1):  # until it is ready: the time that a start takes is no part of the limit
        raise OSError(f"{sys.executable} ended with {process.wait()}")
    return process


def _exchange(process: "subprocess.Popen[bytes]", question: tuple[Any, ...]) -> list[Any] | str | None:
    """The matches, or what the worker says instead; None when it ended without an answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    rest = memoryview(marshal.dumps(question))
    try:
        while rest:
            rest = rest[process.stdin.write(rest) :]
        answer: list[Any] | str = marshal.load(process.stdout)
    except (BrokenPipeError, EOFError):
        return None
    return answer


def _no_answer(pattern: str, code: int) -> PatternError:
    if code == _TOOK_TOO_LONG:
        return PatternError(f"matching the pattern {pattern!r} took longer than {LIMIT_SECONDS:g} s", hint=_HINT)
    return PatternError(f"the process that matched the pattern {pattern!r} ended with {code}")


_worker = _Worker()
atexit.register(_worker.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_worker.forget)


def limited_schema(schema: Any, kind: Any) -> tuple[Any, Any]:
    """A JSON Schema and its validator class, made so that its patterns are matched with the limit as well.

    `additionalProperties` and `unevaluatedProperties` match the patterns of `patternProperties` again, without a limit.
    So they come last, when it is known that these patterns end.
    """
    if isinstance(schema, Mapping):
        # Without it a reference to the root would go back to the class that knows no limit.
        schema = {key: value for key, value in schema.items() if key != "$schema"}
    return _patterns_first(schema), _limited_kind(kind)


@lru_cache
def _limited_kind(kind: Any) -> Any:
    from jsonschema import validators

    extend: Any = validators.extend
    return extend(kind, {"pattern": _check_text, "patternProperties": _check_properties})


def _patterns_first(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        ordered = sorted(schema.items(), key=lambda item: item[0] in ("additionalProperties", "unevaluatedProperties"))
        return {key: _patterns_first(value) for key, value in ordered}
    return list(map(_patterns_first, schema)) if isinstance(schema, list | tuple) else schema


def _check_text(validator: Any, pattern: str, value: Any, _: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(value, "string") and search(pattern, value) is None:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _check_properties(validator: Any, patterns: Mapping[str, Any], value: Any, _: Any) -> Iterator[Any]:
    if not validator.is_type(value, "object"):
        return
    for pattern, below in patterns.items():
        for key, item in value.items():
            if search(pattern, key) is not None:
                yield from validator.descend(item, below, path=key, schema_path=pattern)

"""Regular expressions from suites, matched with Python's `re` and a time limit.

`re` holds the interpreter's lock while it matches: no thread and no signal can stop it. So a pattern that may need many
steps on a text is matched in a worker process, which ends itself at the time limit. The number of steps is estimated
from the parsed pattern.
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
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from seatrial.model.conversation import ErrorKind
from seatrial.model.results import TrialError

if TYPE_CHECKING:
    import subprocess

LIMIT_SECONDS = 1.0
_MAX_STEPS = 1_000_000
"""About ten milliseconds."""
_WORKER = Path(__file__).with_name("pattern_worker.py")
_TOOK_TOO_LONG = 1
"""The worker's exit code when a match took longer than the limit."""
_HINT = "simplify the pattern; avoid a repeat inside a repeat, such as (a+)+"


class PatternError(TrialError):
    """It is unknown whether the pattern matches: the match took too long, or the worker process failed."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(ErrorKind.EVALUATOR, message, hint=hint)


class SlowMatch(Exception):
    """The match may take up to LIMIT_SECONDS, so it must not be made on an event loop."""


_may_wait: ContextVar[bool] = ContextVar("may_wait", default=True)


@contextmanager
def only_quick_matches() -> Iterator[None]:
    """Raise SlowMatch instead of waiting for the worker process."""
    token = _may_wait.set(False)
    try:
        yield
    finally:
        _may_wait.reset(token)


class Found(NamedTuple):
    """Start and end of a match in the text."""

    start: int
    end: int


def problem(pattern: str) -> str | None:
    """Why it is not a regular expression; None if it is one."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return None


def search(pattern: str, text: str, flags: int = 0) -> Found | None:
    """The first match. Raises PatternError if there is no answer within the limit."""
    if _is_quick(pattern, text, flags):
        found = re.search(pattern, text, flags)
        return None if found is None else Found(*found.span())
    return next(iter(_worker.ask(pattern, text, flags, first=True)), None)


def find_all(pattern: str, text: str, flags: int = 0) -> list[Found]:
    """All matches, in order. Raises PatternError if there is no answer within the limit."""
    if _is_quick(pattern, text, flags):
        return [Found(*found.span()) for found in re.finditer(pattern, text, flags)]
    return _worker.ask(pattern, text, flags, first=False)


def _is_quick(pattern: str, text: str, flags: int) -> bool:
    try:
        return (len(text) + 1) * _most_ways(_parse(pattern, int(flags)), len(text)) <= _MAX_STEPS
    except RecursionError:
        return False


@lru_cache(maxsize=1024)
def _parse(pattern: str, flags: int) -> list[tuple[Any, Any]]:
    return list(_parser.parse(pattern, flags))


def _most_ways(parts: Iterable[tuple[Any, Any]], length: int) -> float:
    """An upper bound of the ways in which a pattern can match from one place of a text of this length."""
    ways = 1.0
    for operator, operand in parts:
        match str(operator):
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN" | "AT" | "RANGE" | "CATEGORY":
                pass
            case "SUBPATTERN":
                ways *= _most_ways(operand[3], length)
            case "ATOMIC_GROUP":
                ways *= _most_ways(operand, length)
            case "ASSERT" | "ASSERT_NOT":
                ways *= _most_ways(operand[1], length)
            case "BRANCH":
                ways *= sum(_most_ways(branch, length) for branch in operand[1])
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                ways *= _ways_to_repeat(_most_ways(operand[2], length), operand[1], length)
            case _:
                return math.inf
    return ways


def _ways_to_repeat(ways: float, most: int, length: int) -> float:
    if ways == 1.0:
        return min(most, length) + 1.0
    return (ways + 1.0) ** most if most <= 8 and ways <= _MAX_STEPS else math.inf


class _Worker:
    """A process that matches patterns, started at the first use. A match that ends it is not repeated."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, pattern: str, text: str, flags: int, *, first: bool) -> list[Found]:
        if not _may_wait.get():
            raise SlowMatch(pattern)
        with self._lock:
            process = self._started(pattern)
            answer = None
            try:
                answer = _exchange(process, (pattern, text, int(flags), first, LIMIT_SECONDS))
            finally:
                if answer is None:  # it ended; or we were interrupted, and its answer would go to the next question
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
                message = f"the pattern {pattern!r} needs a worker process, which could not be started: {error}"
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
        """In a fork: the process belongs to the parent, and a thread of the parent may hold the lock."""
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
    # Input is not buffered: a fork would send the content of the buffer again.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )
    process.stdout = io.BufferedReader(cast(io.RawIOBase, process.stdout))
    if not process.stdout.read(1):  # wait until it is ready: the start does not count towards the limit
        raise OSError(f"{sys.executable} ended with {process.wait()}")
    return process


def _exchange(process: "subprocess.Popen[bytes]", question: tuple[Any, ...]) -> list[Any] | str | None:
    """The matches, or an error message; None if the worker ended without an answer."""
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
    """A JSON Schema and its validator class, changed so that its patterns are matched with the time limit.

    `additionalProperties` and `unevaluatedProperties` match the patterns of `patternProperties` again, without a limit.
    So they come last: by then the patterns have been matched within the limit.
    """
    if isinstance(schema, Mapping):
        # With it, a reference to the root would use the original class, without the limit.
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

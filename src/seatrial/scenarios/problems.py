"""Problems of files: by key path while a file is read, with line and column when they are shown."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import field

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""

Place: TypeAlias = tuple[int, int]
"""Line and column, both from 1."""

FAMILIAR: dict[str, tuple[str, ...]] = {
    "answer": ("expected_output",),
    "any_order": ("unordered",),
    "assert": ("expect",),
    "assertions": ("expect",),
    "attempts": ("trials",),
    "cases": ("scenarios",),
    "checks": ("expect",),
    "contains": ("reply_contains_all",),
    "content": ("input", "user"),
    "cost": ("cost_usd",),
    "epochs": ("trials",),
    "excludes": ("reply_excludes",),
    "expectations": ("expect",),
    "expected": ("expected_output",),
    "id": ("name",),
    "latency": ("latency_ms",),
    "max_cost": ("cost_usd",),
    "max_latency": ("latency_ms",),
    "max_tokens": ("tokens",),
    "max_tool_calls": ("tool_calls",),
    "message": ("input", "user"),
    "must_include": ("expected_tools", "tool_calls_include"),
    "not_contains": ("reply_excludes",),
    "ordered": ("in_order",),
    "output": ("expected_output",),
    "prompt": ("input",),
    "query": ("input",),
    "question": ("input",),
    "regex": ("reply_matches_all",),
    "repeat": ("trials",),
    "repetitions": ("trials",),
    "reply_contains": ("reply_contains_all",),
    "reply_not_contains": ("reply_excludes",),
    "role": ("user",),
    "rubric": ("judge",),
    "runs": ("trials",),
    "tests": ("scenarios",),
    "timeout": ("timeout_seconds",),
    "tool_calls": ("expected_tools", "tool_calls_include"),
}
"""The names that other tools use for our keys, in different places."""


class Problem(Struct, frozen=True, kw_only=True):
    """One problem of a file, with its place and a suggestion."""

    file: str
    line: int | None = None
    column: int | None = None
    path: str = ""
    message: str
    suggestion: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        text = ": ".join(part for part in (place, self.path, self.message) if part)
        if self.suggestion is None:
            return text
        return f"{text}{'' if text.endswith('.') else '.'} {self.suggestion}"


class FileProblems(UsageError):
    """All problems of the files, one line each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PathProblem(Struct, frozen=True):
    """A problem whose line and column are not known yet."""

    where: KeyPath
    message: str
    suggestion: str | None = None
    on_key: bool = False
    """The key itself is wrong, not its value."""

    def placed(self, file: str, place: Place | None = None, *, subject: str | None = None) -> "Problem":
        """The problem with its file and place, or with the object to which the path belongs."""
        line, column = place or (None, None)
        path = ": ".join(filter(None, (subject, path_text(self.where))))
        return Problem(file=file, line=line, column=column, path=path, message=self.message, suggestion=self.suggestion)


class Problems:
    """Collects the problems of one file."""

    __slots__ = ("folder", "found", "metrics", "python")

    def __init__(self, *, python: bool = False) -> None:
        self.found: list[PathProblem] = []
        self.metrics: Collection[str] = ()
        """Names of metrics of the suite's metrics_file."""
        self.folder = Path()
        """The folder of the file, in which it names other files."""
        self.python = python
        """The values come from Python, so functions and objects are allowed."""

    def __len__(self) -> int:
        return len(self.found)

    def add(self, where: KeyPath, message: str, suggestion: str | None = None, *, on_key: bool = False) -> None:
        self.found.append(PathProblem(where, message, suggestion, on_key))


def path_text(where: KeyPath) -> str:
    """The path as text: scenarios[0].expect."""
    text = ""
    for part in where:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part.replace("_", "a").replace("-", "a").isalnum():
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar, or None."""
    from difflib import get_close_matches

    names = list(known)
    familiar = next((one for one in FAMILIAR.get(name, ()) if one in names), None)
    if familiar is not None:
        return familiar
    matches = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A suggestion for an unknown name: the closest known one, or all of them."""
    close = closest(name, known)
    return f"Did you mean {close!r}?" if close else f"Known: {', '.join(known)}."


def show(value: Any) -> str:
    """A value, shortened, with its type."""
    kind = kind_of(value)
    if value is None:
        return kind
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{text} ({kind})"


def kind_of(value: Any) -> str:
    """The type of a value, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    return f"a {type(value).__name__}"


class UnreadableFile(Exception):
    """The text is not valid in its format."""

    def __init__(self, message: str, place: Place | None = None, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.suggestion = suggestion

    def placed(self, file: str, *, line: int | None = None) -> Problem:
        """The problem with its file; `line` is given if the text is one line of it."""
        own_line, column = self.place or (None, None)
        return Problem(
            file=file, line=line or own_line, column=column, message=self.message, suggestion=self.suggestion
        )


class Positions(Struct, frozen=True):
    """The places of keys and values in a file, by path."""

    values: dict[KeyPath, Place] = field(default_factory=dict)
    keys: dict[KeyPath, list[Place]] = field(default_factory=dict)
    """Every place of a key; more than one is a problem."""
    odd_keys: list[PathProblem] = field(default_factory=list)
    """Keys that are not text."""

    def place(self, problems: Problems, file: str) -> list[Problem]:
        """The problems with their places, in the order of the file; also those of keys given twice or not text."""
        self._add_doubtful_keys(problems)
        placed = [(self._locate(problem), problem) for problem in problems.found]
        placed.sort(key=lambda pair: pair[0])
        return [problem.placed(file, place) for place, problem in placed]

    def _locate(self, problem: PathProblem) -> Place:
        """The place of a problem: its key, its value, or the nearest value around it."""
        where = problem.where
        if problem.on_key and where in self.keys:
            return self.keys[where][-1]
        while where not in self.values:
            if not where:
                return (1, 1)
            where = where[:-1]
        return self.values[where]

    def _add_doubtful_keys(self, problems: Problems) -> None:
        """Report keys that are given twice or are not text."""
        odd = {problem.where for problem in self.odd_keys}
        problems.found[:] = [each for each in problems.found if each.where not in odd] + self.odd_keys
        for where, places in self.keys.items():
            if len(places) > 1:
                first = f"line {places[0][0]}, column {places[0][1]}"
                problems.add(where, f"the key {where[-1]!r} is given twice; first at {first}", on_key=True)

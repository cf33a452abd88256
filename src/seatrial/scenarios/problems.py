"""What is wrong with a file: by key path while it is read, with line and column once it is shown."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import field

from seatrial.errors import UsageError
from seatrial.model.struct import Struct

KeyPath: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""

Place: TypeAlias = tuple[int, int]
"""Line and column, both from 1."""

FAMILIAR = {
    "any_order": "unordered",
    "attempts": "trials",
    "epochs": "trials",
    "expectations": "expect",
    "goal": "user",
    "id": "name",
    "message": "input",
    "ordered": "in_order",
    "prompt": "input",
    "query": "input",
    "repeat": "trials",
    "repetitions": "trials",
    "runs": "trials",
    "tests": "scenarios",
    "cases": "scenarios",
    "timeout": "timeout_seconds",
    "tool_calls": "expected_tools",
}
"""What other tools call our keys."""


class Problem(Struct, frozen=True, kw_only=True):
    """One mistake in a file, with its place and what would work."""

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
    """Everything that is wrong with the files, one line each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class PathProblem(Struct, frozen=True):
    """A problem before its line and column are known."""

    where: KeyPath
    message: str
    suggestion: str | None = None
    on_key: bool = False
    """The key itself is wrong, not its value."""


class Problems:
    """Collects what is wrong with one file."""

    __slots__ = ("found", "metrics", "python")

    def __init__(self, *, python: bool = False) -> None:
        self.found: list[PathProblem] = []
        self.metrics: Collection[str] = ()
        """Names of metrics that the suite defines in a file of its own."""
        self.python = python
        """The values come from Python, so functions and objects may stand where files have data."""

    def __len__(self) -> int:
        return len(self.found)

    def add(self, where: KeyPath, message: str, suggestion: str | None = None, *, on_key: bool = False) -> None:
        self.found.append(PathProblem(where, message, suggestion, on_key))


def place_problems(
    file: str, problems: Iterable[PathProblem], locate: Callable[[PathProblem], Place | None]
) -> list[Problem]:
    """The problems with their places, in the order of the file."""
    placed = [(locate(problem), problem) for problem in problems]
    placed.sort(key=lambda pair: pair[0] or (0, 0))
    return [
        Problem(
            file=file,
            line=place[0] if place else None,
            column=place[1] if place else None,
            path=path_text(problem.where),
            message=problem.message,
            suggestion=problem.suggestion,
        )
        for place, problem in placed
    ]


def path_text(where: KeyPath) -> str:
    """The path as people write it: scenarios[0].expect."""
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
    """The known name that was probably meant."""
    from difflib import get_close_matches

    names = list(known)
    familiar = FAMILIAR.get(name)
    if familiar in names:
        return familiar
    matches = get_close_matches(name.lower(), names, n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A suggestion for an unknown name: the closest known one, or all of them."""
    close = closest(name, known)
    return f"Did you mean {close!r}?" if close else f"Known: {', '.join(known)}."


def show(value: Any) -> str:
    """A value as it was found, short, with its type in a tester's words."""
    kind = kind_of(value)
    if value is None:
        return kind
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{text} ({kind})"


def kind_of(value: Any) -> str:
    """What a value is, in a tester's words."""
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
    """The text is not what its format asks for; carries the place and what to do."""

    def __init__(self, message: str, place: Place | None = None, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place
        self.suggestion = suggestion


class Positions(Struct, frozen=True):
    """The places of a file, by path."""

    values: dict[KeyPath, Place] = field(default_factory=dict)
    keys: dict[KeyPath, list[Place]] = field(default_factory=dict)
    """Every place where a key was given: more than one is a mistake."""
    odd_keys: list[PathProblem] = field(default_factory=list)
    """Keys that are no text."""

    def locate(self, problem: PathProblem) -> Place | None:
        """The place of a problem: its key, its value, or the nearest thing around it."""
        where = problem.where
        if problem.on_key and where in self.keys:
            return self.keys[where][-1]
        while where not in self.values:
            if not where:
                return (1, 1)
            where = where[:-1]
        return self.values[where]

    def add_doubtful_keys(self, problems: Problems) -> None:
        """Report keys that are given twice or are no text."""
        odd = {problem.where for problem in self.odd_keys}
        problems.found[:] = [each for each in problems.found if each.where not in odd] + self.odd_keys
        for where, places in self.keys.items():
            if len(places) > 1:
                first = f"line {places[0][0]}, column {places[0][1]}"
                problems.add(where, f"the key {where[-1]!r} is given twice; first at {first}", on_key=True)

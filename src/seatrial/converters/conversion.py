"""Converts a file of another tool: reads it, collects scenarios and notes, and writes a scenario file."""

import csv
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.struct import Struct
from seatrial.scenarios import json_files, yaml_files
from seatrial.scenarios.problems import KeyPath, Place, UnreadableFile
from seatrial.scenarios.suite_files import read_text

from . import javascript


class SourceFile:
    """The data of a file, and the lines of its values. Raises UsageError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: Mapping[KeyPath, Place] = {}
        """Of values in JavaScript."""
        try:
            self._text = read_text(path)
            self.data = self._parse()
        except UnreadableFile as error:
            place = f":{error.place[0]}:{error.place[1]}" if error.place else ""
            raise UsageError(f"{path}{place}: {error.message}") from None

    def _parse(self) -> Any:
        match self.path.suffix.lower():
            case ".json":
                return json_files.decode(self._text)[0]
            case ".jsonl":
                return [json_files.decode(line)[0] for line in self._text.splitlines() if line.strip()]
            case ".csv":
                return [dict(row) for _, row in self._rows()]
            case ".ts" | ".js" | ".mjs":
                return self._read_javascript()
        return _merged(yaml_files.parse(self._text).data)

    def _rows(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """The rows of a CSV file that have a value, each with the line in which it ends."""
        rows = csv.DictReader(StringIO(self._text, newline=""), strict=True)
        try:
            for row in rows:
                yield rows.line_num, {key: value for key, value in row.items() if key is not None and value}
        except csv.Error as problem:
            raise UnreadableFile(f"not CSV: {problem}", (rows.line_num, 1)) from None

    def _read_javascript(self) -> Any:
        """The settings of `defineConfig({…})` or `export default {…}`, and each `scenario("name", {…})`."""
        source = javascript.Source(self._text)
        self._places = source.places
        found: dict[str, Any] = {}
        scenarios: list[Any] = []
        try:
            for call in source.calls("scenario", "defineConfig", "default"):
                if call == "scenario":
                    where: KeyPath = ("scenarios", len(scenarios))
                    name, options = (*source.arguments([(*where, "name"), where]), None, {})[:2]
                    if isinstance(options, Mapping):
                        scenarios.append({"name": name, **options})
                else:
                    [settings] = source.arguments([()]) or [{}]
                    found |= settings if isinstance(settings, Mapping) else {}
        except (javascript.NotJavaScript, RecursionError) as problem:
            raise UnreadableFile(f"not JavaScript: {problem}") from None
        return {**found, "scenarios": scenarios} if scenarios else found

    @cached_property
    def _lines(self) -> Mapping[KeyPath, int]:
        match self.path.suffix.lower():
            case ".jsonl":
                lines = [number for number, line in enumerate(self._text.splitlines(), 1) if line.strip()]
                return {(index,): number for index, number in enumerate(lines)}
            case ".csv":
                return {(index,): number for index, (number, _) in enumerate(self._rows())}
            case ".ts" | ".js" | ".mjs":
                return {where: place[0] for where, place in self._places.items()}
            case suffix:
                find = json_files.find_positions if suffix == ".json" else yaml_files.find_positions
                return {where: place[0] for where, place in find(self._text).values.items()}

    def line(self, where: KeyPath) -> int | None:
        """The line of a value; if it has none, of the nearest value around it."""
        while where and where not in self._lines:
            where = where[:-1]
        return self._lines.get(where)


def _merged(value: Any) -> Any:
    """The value with `<<: *other` resolved, which our own files do not allow."""
    if isinstance(value, list):
        return [_merged(item) for item in value]
    if not isinstance(value, dict):
        return value
    own = {key: _merged(item) for key, item in value.items() if key != "<<"}
    others = value.get("<<")
    for other in reversed(others if isinstance(others, list) else [others]):
        if isinstance(other, dict):
            own = {**_merged(other), **own}
    return own


NOT_IN_FRONT = r"\A(?![\s\S]*"


def escape(text: str) -> str:
    """As `re.escape`, but without escapes of spaces and dashes, which are easier to read."""
    return re.escape(text).replace(r"\ ", " ").replace(r"\-", "-")


def any_of(texts: Iterable[str], *, ignore_case: bool = False) -> str:
    """A pattern for at least one of the texts."""
    alternatives = "|".join(map(escape, texts))
    return f"{'(?i)' if ignore_case else ''}(?:{alternatives})"


def none_of(texts: Iterable[str], *, ignore_case: bool = False) -> str:
    """A pattern that matches if none of the texts occurs."""
    return f"{'(?i)' if ignore_case else ''}{NOT_IN_FRONT}{any_of(texts)})"


def short_name(text: str) -> str:
    """A name of at most 80 characters, on one line."""
    plain = " ".join(text.split())
    return plain if len(plain) <= 80 else f"{plain[:77]}..."


class Note(Struct, frozen=True, kw_only=True):
    """Something in the other tool's file that the scenario file lacks, or has with another meaning."""

    file: str
    line: int | None
    text: str
    scenario: str | None = None
    lost: bool = True
    """Not carried over; else carried over with another meaning."""

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        about = f"{self.scenario}: " if self.scenario else ""
        return f"{self.place}: {about}{self.text}"


class ConvertedSuite:
    """The suite that is made of a file."""

    def __init__(self, source: SourceFile, tool: str) -> None:
        self.source = source
        self.tool = tool
        self.suite: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.scenarios: list[ConvertedScenario] = []
        self.notes: list[Note] = []
        """About the file as a whole."""
        self._names: set[str] = set()

    def add_scenario(self, name: str, where: KeyPath) -> "ConvertedScenario":
        """A new scenario. A name that is taken gets a number."""
        plain = " ".join(name.split()) or "unnamed"
        unique, number = plain, 1
        while unique in self._names:
            number += 1
            unique = f"{plain} ({number})"
        self._names.add(unique)
        scenario = ConvertedScenario(self, unique, where)
        self.scenarios.append(scenario)
        return scenario

    def set_agents(self, agents: Mapping[str, Any]) -> None:
        if len(agents) == 1:
            self.suite["agent"] = next(iter(agents.values()))
        elif agents:
            self.suite["agents"] = dict(agents)

    def lose(self, where: KeyPath, text: str) -> None:
        """Note a setting that is not carried over."""
        self.notes.append(self.note(where, text))

    def lose_unknown(self, given: Iterable[str], known: Collection[str], reasons: Mapping[str, str]) -> None:
        """Note every key that is not known, or for which there is a reason not to carry it over."""
        for key in given:
            if key in reasons or key not in known:
                self.lose((key,), f"{key}: {reasons.get(key, 'has no counterpart here')}")

    def change(self, where: KeyPath, text: str) -> None:
        """Note a setting with another meaning here."""
        self.notes.append(self.note(where, text, lost=False))

    def note(self, where: KeyPath, text: str, *, scenario: str | None = None, lost: bool = True) -> Note:
        line = self.source.line(where)
        return Note(file=str(self.source.path), line=line, text=text, scenario=scenario, lost=lost)

    def all_notes(self) -> list[Note]:
        return [*self.notes, *(note for scenario in self.scenarios for note in scenario.notes)]


class ConvertedScenario:
    """One scenario of the suite. It counts the checks that are carried over, and those that are lost."""

    def __init__(self, target: ConvertedSuite, name: str, where: KeyPath) -> None:
        self.name = name
        self.where = where
        self.keys: dict[str, Any] = {"name": name}
        self.notes: list[Note] = []
        self.shared = False
        """Whether the next checks apply to every scenario of the file. They are counted separately."""
        self.own = _Count()
        self.common = _Count()
        self._target = target

    def add_scorer(self, scorer: Any) -> None:
        """A scorer of the whole trial, in addition to `passfail`, which an empty reply does not pass."""
        self.keys.setdefault("scorers", ["passfail"]).append(scorer)
        self.count_check()

    def add_expectation(self, key: str, values: list[Any]) -> None:
        found = self.keys.setdefault("expect", {}).setdefault(key, [])
        found += [value for value in values if value not in found]
        self.count_check()

    def add_limit(self, key: str, value: float) -> None:
        limits = self.keys.setdefault("limits", {})
        limits[key] = min(value, limits.get(key, value))
        self.count_check()

    def add_outcome(self, statement: str) -> None:
        self.keys.setdefault("expected_outcomes", []).append(statement)
        self.count_check()

    @property
    def _counts(self) -> "_Count":
        return self.common if self.shared else self.own

    def count_check(self) -> None:
        self._counts.carried += 1

    def lose_check(self, where: KeyPath, text: str) -> None:
        """Note an assertion that is not carried over."""
        self.lose(where, text)
        self._counts.lost += 1

    def lose(self, where: KeyPath, text: str) -> None:
        """Note a key that is not carried over."""
        self.notes.append(self._target.note(where, text, scenario=self.name))

    def lose_unknown(
        self, given: Mapping[str, Any], known: Collection[str], where: KeyPath, *, checks: bool = False
    ) -> None:
        """Note every key that is not known. `checks`: each of them is an assertion."""
        for key, value in given.items():
            if key not in known and value not in (None, [], {}, ""):
                lose = self.lose_check if checks or key.startswith("expect") else self.lose
                lose((*where, key), f"{key}: has no counterpart here")

    def change(self, where: KeyPath, text: str) -> None:
        """Note a key with another meaning here."""
        self.notes.append(self._target.note(where, text, scenario=self.name, lost=False))

    def finish(self) -> None:
        """Skip a scenario that lost all its checks: else it would pass without them."""
        carried, lost = self.own.carried + self.common.carried, self.own.lost + self.common.lost
        if (self.own.lost and not self.own.carried) or (lost and not carried):
            self.keys["skip"] = f"none of its assertions in {self._target.tool} could be carried over"
        elif not carried:
            self.change(self.where, "asserts nothing; here the reply must at least not be empty")


@dataclass(slots=True)
class _Count:
    carried: int = 0
    lost: int = 0


_WIDTH = 110


def write(target: ConvertedSuite) -> str:
    """The text of the scenario file."""
    lines = [f"# Converted from {target.tool}: {target.source.path.name}", *_comments(target.notes)]
    suite = {**target.suite, **({"config": target.config} if target.config else {})}
    text = "\n".join(lines) + "\n" + _dump({"suite": suite}) + "\nscenarios:\n"
    blocks = ["".join([*_block(scenario.keys, scenario.notes)]) for scenario in target.scenarios]
    text += "\n".join(blocks)
    data = {"suite": suite, "scenarios": [scenario.keys for scenario in target.scenarios]}
    if yaml_files.parse(text).data != data:
        raise UsageError(f"{target.source.path}: has a value that a scenario file cannot have, such as .nan")
    return text


def _block(keys: dict[str, Any], notes: Sequence[Note]) -> Iterator[str]:
    for comment in _comments(notes):
        yield f"  {comment}\n"
    first, *rest = _dump(keys).splitlines()
    yield f"  - {first}\n"
    for line in rest:
        yield f"    {line}\n" if line else "\n"


def _comments(notes: Sequence[Note]) -> Iterator[str]:
    for note in notes:
        what = "not carried over" if note.lost else "changed"
        place = f" (line {note.line})" if note.line is not None else ""
        text = "".join(char if char.isprintable() else " " for char in note.text)
        yield from textwrap.wrap(
            f"{what}{place}: {text}", _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False
        )


def _dump(data: Any) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes YAML that our reader, which follows YAML 1.2, reads unchanged."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        is_plain = bool(value) and isinstance(yaml_files.read_scalar(value), str)
        style = "|" if "\n" in value else None if is_plain else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(data, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)


TOOLS = {
    "agentest": "Agentest",
    "promptfoo": "promptfoo",
    "pydantic-evals": "pydantic-evals",
    "deepeval": "DeepEval",
}


class Converted(Struct, frozen=True, kw_only=True):
    """A scenario file, and notes about what it lacks."""

    tool: str
    text: str
    scenarios: int
    skipped: int
    """Scenarios without a check that could be carried over."""
    notes: tuple[Note, ...]


def convert(path: Path, *, tool: str | None = None) -> Converted:
    """The scenario file for a file of another tool. Raises UsageError if it cannot be read or the tool is unknown."""
    source = SourceFile(path)
    known = tool or _detect(source)
    target = ConvertedSuite(source, TOOLS[known])
    read: Callable[[ConvertedSuite], None] = import_module(f".{known.replace('-', '_')}", __package__).read
    try:
        read(target)
    except (LookupError, TypeError, AttributeError, ValueError, StopIteration) as problem:
        # The file was not validated: any value in it may have the wrong type.
        why = f"{type(problem).__name__}: {problem}"
        raise UsageError(f"{path}: cannot be read as a file of {target.tool}: {why}") from problem
    if not target.scenarios:
        raise UsageError(f"{path}: has no scenario that could be converted")
    for scenario in target.scenarios:
        scenario.finish()
    return Converted(
        tool=target.tool,
        text=write(target),
        scenarios=len(target.scenarios),
        skipped=sum("skip" in scenario.keys for scenario in target.scenarios),
        notes=tuple(target.all_notes()),
    )


def has_scenarios(path: Path) -> bool:
    """Whether it has our own keys and looks like a file of no other tool."""
    data = SourceFile(path).data
    return _has(data, "scenarios", "suite") and not any(marks(data) for marks in _MARKS.values())


def _detect(source: SourceFile) -> str:
    looks_like = [tool for tool, marks in _MARKS.items() if marks(source.data)]
    if len(looks_like) == 1:
        return looks_like[0]
    known = ", ".join(TOOLS)
    why = f"it looks like a file of {' and of '.join(looks_like)}" if looks_like else "its tool is unknown"
    raise UsageError(f"{source.path}: {why}. Name the tool: --from {known.replace(', ', '|')}")


def _has(data: Any, *keys: str) -> bool:
    return isinstance(data, Mapping) and any(key in data for key in keys)


def _first(data: Any, *names: str) -> Any:
    """The first entry of a list: the data itself, or the value of one of the names."""
    if isinstance(data, Mapping):
        data = next((data[name] for name in names if name in data), None)
    return data[0] if isinstance(data, list) and data else None


def _is_pydantic_evals(data: Any) -> bool:
    return _has(data, "cases") and _has(_first(data, "cases"), "inputs")


def _is_deepeval(data: Any) -> bool:
    golden = _first(data, "goldens", "conversational_goldens", "conversationalGoldens")
    if isinstance(data, Mapping) and golden is None:
        return False
    marks = ("expected_output", "actual_output", "expected_tools", "expected_outcome", "context", "expectedOutput")
    return _has(golden, "input", "scenario") and _has(golden, *marks)


def _is_promptfoo(data: Any) -> bool:
    if _has(data, "prompts", "providers", "targets", "defaultTest") and not _has(data, "agent"):
        return True
    return _has(_first(data, "tests"), "vars", "assert")


def _is_agentest(data: Any) -> bool:
    config = ("conversationsPerScenario", "failOnErrorSeverity", "unmockedTools", "requestTimeoutMs", "providerOptions")
    if _has(data, *config):
        return True
    if _has(data, "agent") and _has(data["agent"], "endpoint", "handler"):
        return True
    scenario = _first(data, "scenarios") if _has(data, "scenarios") else data
    turns = scenario.get("turns") if isinstance(scenario, Mapping) else None
    return _has(scenario, "profile") or _has(_first(turns), "userMessage")


_MARKS: Mapping[str, Callable[[Any], bool]] = {
    "agentest": _is_agentest,
    "promptfoo": _is_promptfoo,
    "pydantic-evals": _is_pydantic_evals,
    "deepeval": _is_deepeval,
}

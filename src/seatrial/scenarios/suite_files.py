"""YAML and JSON files with a suite and its scenarios, .jsonl files with one per line, and pytest-agent-eval's files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.scenario import Scenario
from seatrial.model.struct import Struct

from . import json_files, yaml_files
from .examples import expand_rows
from .keys import FILE, SCENARIO, find_home, is_transcript, read_transcript
from .problems import Problem, Problems, UnreadableFile, did_you_mean, show
from .suite_reader import SuiteReader, scenarios_of
from .yaml_files import Document


def read_document(path: Path, reader: SuiteReader, all_problems: list[Problem]) -> None:
    """Read a file, and add its problems."""
    try:
        text = read_text(path)
        document = _parser(path).parse(text)
    except UnreadableFile as error:
        all_problems.append(error.placed(str(path)))
        return
    problems = Problems()
    read = _read_transcript if is_transcript(document.data) else _read_suite
    read(document, path, reader, problems)
    if problems.found or document.doubtful_keys:
        all_problems.extend(_parser(path).find_positions(text).place(problems, str(path)))


def _parser(path: Path) -> ModuleType:
    return json_files if path.suffix.lower() == ".json" else yaml_files


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, with or without a byte order mark."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UnreadableFile(f"cannot be read: {error.strerror or error}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        place = (before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        raise UnreadableFile("not UTF-8", place, "Save the file as UTF-8") from None


def read_outline(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Name and tags of each scenario in a file. Nothing is checked, and no module is imported."""
    shared: set[str] = set()
    for one in _parts(path):
        if "suite" in one:
            shared |= _tags_of(one["suite"])
        raws = one.get("scenarios", [one])
        for raw in raws if isinstance(raws, list) else ():
            name = raw.get("name", raw.get("id")) if isinstance(raw, Mapping) else None
            if isinstance(name, str):
                yield name, shared | _tags_of(raw)


def _parts(path: Path) -> list[Mapping[str, Any]]:
    """The mappings at the top level of a file: the whole document, or each line."""
    if path.suffix.lower() == ".jsonl":
        parts = [json_files.decode(line)[0] for line in read_text(path).splitlines() if line.strip()]
    else:
        parts = [_parser(path).parse(read_text(path)).data]
    return [one for one in parts if isinstance(one, Mapping)]


def _tags_of(raw: Any) -> set[str]:
    tags = raw.get("tags") if isinstance(raw, Mapping) else None
    return {tag for tag in tags if isinstance(tag, str)} if isinstance(tags, list) else set()


def _read_transcript(document: Document, path: Path, reader: SuiteReader, problems: Problems) -> None:
    reader.read_suite({}, (), problems, default_name=path.stem, source=str(path))
    made = read_transcript(document.data, problems)
    if made is not None:
        reader.add(made, (), problems, source=f"{path}:1")


def _read_suite(document: Document, path: Path, reader: SuiteReader, problems: Problems) -> None:
    data = document.data
    if data is None:
        problems.add((), "the file is empty", "It needs a list of 'scenarios'")
        return
    if not isinstance(data, Mapping):
        hint = "Write 'scenarios:' above the list" if isinstance(data, list) else None
        problems.add((), f"expected a mapping with 'scenarios', got {show(data)}", hint)
        return
    for key in data:
        if key not in FILE.keys:
            suggestion = find_home(str(key), FILE.kind) or did_you_mean(str(key), [*FILE.keys])
            problems.add((key,), f"unknown key {key!r}", suggestion, on_key=True)
    reader.read_suite(data.get("suite", {}), ("suite",), problems, default_name=path.stem, source=str(path))
    if "scenarios" not in data:
        problems.add((), "'scenarios' is missing: what is tested")
        return
    raws = data["scenarios"]
    if not isinstance(raws, list) or not raws:
        empty = "no scenario is given, so nothing would run"
        hint = "Begin each scenario with '- '" if isinstance(raws, dict) else None
        problems.add(("scenarios",), empty if raws == [] else f"expected a list of scenarios, got {show(raws)}", hint)
        return
    lines = document.lines
    for index, raw in enumerate(raws):
        # An alias or a plain text in the list has no line of its own; then lines and items differ.
        source = f"{path}:{lines[index]}" if len(lines) == len(raws) else str(path)
        reader.read_scenario(raw, ("scenarios", index), problems, source=source)
    reader.finish(("suite",), problems)


KEEP = 10_000
"""The most scenarios of a .jsonl file that are held in memory; a larger file is read again each time."""


def read_jsonl(path: Path, reader: SuiteReader, all_problems: list[Problem]) -> None:
    """Check every line of a file; the reader keeps the scenarios of a small one."""
    started = False
    stamp = _stamp(path)
    for number, line in _lines(path):
        problems = Problems()
        source = f"{path}:{number}"
        try:
            raw, twice = _parse(line)
        except UnreadableFile as error:
            all_problems.append(error.placed(str(path), line=number))
            continue
        is_suite = not started and _is_suite_line(raw)
        if not started:
            started = True
            settings, where = (raw["suite"], ("suite",)) if is_suite else ({}, ())
            reader.read_suite(settings, where, problems, default_name=path.stem, source=source)
        if not is_suite:
            reader.read_scenario(raw, (), problems, source=source)
        if reader.count > KEEP:
            scenarios = JsonlScenarios(path=path, stamp=stamp, reader=reader)
            reader.stream(scenarios, scenarios.names)
        if problems.found or twice:
            positions = json_files.find_positions(str(line), first_line=number)
            all_problems.extend(positions.place(problems, str(path)))
    _finish(path, reader, all_problems)


def _finish(path: Path, reader: SuiteReader, all_problems: list[Problem]) -> None:
    problems = Problems()
    reader.finish(("suite",), problems)
    all_problems.extend(problem.placed(str(path), (1, 1)) for problem in problems.found)
    if reader.count == 0 and not all_problems:
        all_problems.append(Problem(file=str(path), message="no scenario is given, so nothing would run"))


class JsonlScenarios(Struct, frozen=True, kw_only=True):
    """The scenarios of a checked file that is too large to hold. They are read again each time."""

    path: Path
    stamp: tuple[int, int]
    """Size and time of the file when it was checked."""
    reader: SuiteReader

    def __iter__(self) -> Iterator[Scenario]:
        assert self.reader.resolver is not None
        for source, made in self._read_again():
            if made is None:
                raise _changed(source)
            found = scenarios_of(made, self.reader.suite, source, (), Problems())
            yield from map(self.reader.resolver.resolve, found)
        # Removed or edited lines may leave a valid file, but not the one that was checked.
        if _stamp(self.path) != self.stamp:
            raise _changed(str(self.path))

    def names(self) -> Iterator[tuple[str, str]]:
        """The names and their places; lines with problems have none."""
        for source, made in self._read_again():
            if made is not None:
                yield from ((one.name, source) for one in expand_rows(Scenario(**made), (), Problems()))

    def _read_again(self) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """The place and the keys of each scenario's line; None instead of the keys if there are problems."""
        for index, (number, line) in enumerate(_lines(self.path)):
            try:
                raw = _parse(line)[0]
            except UnreadableFile:
                raw = None
            if index or not _is_suite_line(raw):
                problems = Problems()
                problems.metrics, problems.folder = self.reader.definitions, self.reader.folder
                yield f"{self.path}:{number}", SCENARIO.read_keys(raw, (), problems)


def _changed(place: str) -> UsageError:
    return UsageError(f"{place}: the file was changed after it was checked; run again")


def _stamp(path: Path) -> tuple[int, int]:
    """Size and time of the last change."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _lines(path: Path) -> Iterator[tuple[int, str | UnreadableFile]]:
    """The lines that are not blank, with their numbers from 1; a problem instead of a line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                yield number, UnreadableFile("not UTF-8", (number, error.start + 1), "Save the file as UTF-8")
                continue
            if text and not text.isspace():
                yield number, text


def _parse(line: str | UnreadableFile) -> tuple[Any, bool]:
    if isinstance(line, UnreadableFile):
        raise line
    return json_files.decode(line)


def _is_suite_line(raw: Any) -> bool:
    return isinstance(raw, dict) and raw.keys() == {"suite"}

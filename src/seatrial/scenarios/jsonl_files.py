"""JSONL for large generated suites: one scenario a line, gone through line by line and never held as a whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.model.scenario import Scenario

from .json_files import find_positions, parse
from .jsonl_reread import SecondReading
from .positions import UnreadableFile
from .problems import Complaints, Problem, place_problems
from .reader import SuiteReader

KEEP = 10_000
"""So many scenarios are kept from the first pass; a larger file is read again each time."""


def read_jsonl(path: Path, reader: SuiteReader, problems: list[Problem]) -> None:
    """Check every line of a file; the reader keeps the scenarios of a small one."""
    started = False
    reader.forget_written()
    reader.stamp = _stamp(path)
    file = str(path)
    for number, line in _lines(path):
        complaints = Complaints()
        source = f"{file}:{number}"
        try:
            raw, twice = _parse(line)
        except UnreadableFile as error:
            problems.append(_unreadable(path, number, error))
            continue
        is_suite = not started and _is_suite_line(raw)
        if not started:
            started = True
            settings, where = (raw["suite"], ("suite",)) if is_suite else ({}, ())
            reader.read_suite(settings, where, complaints, default_name=path.stem, source=source)
        if not is_suite:
            reader.read_scenario(raw, (), complaints, source=source)
        if reader.count > KEEP:
            reader.forget(lambda: _name_lines(path, reader.again()))
        if complaints.found or twice:
            problems.extend(_place(path, number, str(line), complaints))
    _finish(path, reader, problems)


def _finish(path: Path, reader: SuiteReader, problems: list[Problem]) -> None:
    complaints = Complaints()
    reader.finish(("suite",), complaints)
    problems.extend(place_problems(str(path), complaints.found, lambda _: (1, 1)))
    if reader.count == 0 and not problems:
        problems.append(Problem(file=str(path), message="no scenario is given, so nothing would run"))


def stream_jsonl(path: Path, again: SecondReading, *, resolved: bool) -> Iterator[Scenario]:
    """The scenarios of a file that was found to be right, read again: as written, or as they are resolved."""
    read = again.resolved if resolved else again.written
    for source, made in _keys_again(path, again):
        if made is None:
            raise _changed(source)
        yield from read(made, source=source)
    # Lines that are gone leave no trace, and those that were edited may be right: nobody would miss what was checked.
    if _stamp(path) != again.stamp:
        raise _changed(str(path))


def _changed(place: str) -> UsageError:
    return UsageError(f"{place}: the file was changed after it was checked; run again")


def _stamp(path: Path) -> tuple[int, int]:
    """What differs once somebody has written to the file."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _name_lines(path: Path, again: SecondReading) -> Iterator[tuple[str, str]]:
    """The names of a file and their places; lines that are not right have none."""
    for source, made in _keys_again(path, again):
        if made is not None:
            yield from again.names(made, source=source)


def _keys_again(path: Path, again: SecondReading) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """The place of each line of a scenario and its keys; None for a line that is not right."""
    first, file = True, str(path)
    for number, line in _lines(path):
        try:
            raw = _parse(line)[0]
        except UnreadableFile:
            raw = None
        if not (first and _is_suite_line(raw)):
            yield f"{file}:{number}", again.keys(raw)
        first = False


def _lines(path: Path) -> Iterator[tuple[int, str | UnreadableFile]]:
    """The lines that hold something, with their numbers from 1; one that is not UTF-8 comes as its problem."""
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
    return parse(line)


def _is_suite_line(raw: Any) -> bool:
    return isinstance(raw, dict) and raw.keys() == {"suite"}


def _unreadable(path: Path, number: int, error: UnreadableFile) -> Problem:
    column = error.place[1] if error.place else None
    return Problem(file=str(path), line=number, column=column, message=error.message, suggestion=error.suggestion)


def _place(path: Path, number: int, line: str, complaints: Complaints) -> list[Problem]:
    positions = find_positions(line, first_line=number)
    positions.complain(complaints)
    return place_problems(str(path), complaints.found, positions.locate)

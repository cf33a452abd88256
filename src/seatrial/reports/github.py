"""What GitHub Actions shows: a step summary within its size limit, and annotations within their number."""

import sys
from collections.abc import Iterator
from io import UnsupportedOperation
from typing import TextIO

from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioOutcome

from .escaping import cut, defused, visible
from .markdown import blocks
from .texts import failing, verdict_line

SUMMARY_BYTES = 1024 * 1024
"""A larger summary is refused as a whole."""
ANNOTATIONS = 10
"""Of errors, and of warnings; GitHub drops the rest of a step's without a word."""
MESSAGE_LIMIT = 2_000

_CUT = "\n\nThe rest is left out: a step summary holds 1 MiB. `seatrial show {run}` has all of it.\n"


def write_github(record: RunRecord, stream: TextIO) -> None:
    """The summary on the stream, and the annotations on standard output, where the runner looks for them."""
    write_summary(record, stream)
    print_annotations(record, sys.stdout)


def write_summary(record: RunRecord, stream: TextIO) -> None:
    """The Markdown report, as much of it as fits beside what the stream holds already; nothing where it is full."""
    notice = _CUT.format(run=record.run.id)
    left = SUMMARY_BYTES - _held(stream) - len(notice.encode())
    if left < 0:
        return
    for block in blocks(record):
        left -= len(block.encode("utf-8", "backslashreplace"))
        if left < 0:
            stream.write(notice)
            return
        stream.write(block)


def print_annotations(record: RunRecord, stream: TextIO) -> None:
    """Workflow commands: an error for each scenario that did not pass, a warning for each with a note."""
    found = failing(record.outcome)
    errors = [_command("error", one, "; ".join((*one.verdict.failure_reasons, *one.notes))) for one in found]
    if not record.outcome.verdict.passed and not errors:
        errors = [f"::error title={_property('seatrial')}::{_data(verdict_line(record.outcome))}"]
    noted = [one for one in record.outcome.scenarios if one.verdict.passed and one.notes]
    warnings = [_command("warning", one, "; ".join(one.notes)) for one in noted]
    for line in (*_limited("error", errors), *_limited("warning", warnings)):
        stream.write(line + "\n")
    stream.flush()


def _limited(level: str, commands: list[str]) -> Iterator[str]:
    if len(commands) <= ANNOTATIONS:
        yield from commands
        return
    yield from commands[: ANNOTATIONS - 1]
    yield f"::{level} title=seatrial::{len(commands) - ANNOTATIONS + 1:,} more scenarios; the summary lists them"


def _command(level: str, outcome: ScenarioOutcome, message: str) -> str:
    properties = [f"title={_property(cut(outcome.entry.key.label, 200))}", *_place(outcome.entry.source)]
    text = cut(message or outcome.verdict.status.value, MESSAGE_LIMIT)
    return f"::{level} {','.join(properties)}::{_data(text)}"


def _place(source: str | None) -> Iterator[str]:
    """Where the scenario was written: `file:line`, or a file alone."""
    if not source:
        return
    file, _, line = source.rpartition(":")
    if file and line.isdecimal():
        yield f"file={_property(file)}"
        yield f"line={line}"
    else:
        yield f"file={_property(source)}"


def _data(text: str) -> str:
    return defused(visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _held(stream: TextIO) -> int:
    """How many bytes the summary has already, from earlier writers in the step."""
    try:
        return stream.tell()
    except (OSError, UnsupportedOperation):
        return 0

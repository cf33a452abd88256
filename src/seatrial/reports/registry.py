"""The report formats, built in or from installed packages, and writing one to a file."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from seatrial.errors import SeatrialError, UsageError
from seatrial.files import make_file, make_folder, replacing

if TYPE_CHECKING:
    from seatrial.model.protocols import RunRecord

ENTRY_POINTS = "seatrial.reports"
"""An entry point of this group is a function `write(record, stream)`; its name is the name of the format."""
_FOLDER = Path(".seatrial")
# Functions by name, so that a run that writes no HTML does not load the template engine.
_BUILT_IN: dict[str, tuple[str, str | None]] = {
    "console": ("console:print_run", None),
    "json": ("json_report:write_json", "results.json"),
    "jsonl": ("json_report:write_jsonl", "results.jsonl"),
    "html": ("html:write_html", "report.html"),
    "junit": ("junit:write_junit", "junit.xml"),
    "markdown": ("markdown:write_markdown", "report.md"),
    "comment": ("markdown:write_comment", "comment.md"),
    "github": ("markdown:write_github", None),
}
"""Format -> the function that writes it, and its default file in `.seatrial`."""
FORMATS = tuple(_BUILT_IN)


def parse_report_option(text: str) -> tuple[str, Path | None]:
    """The format and path of `html=out.html`. Without a path: the default file, None for console and github."""
    name, given, path = text.partition("=")
    name, path = name.strip(), path.strip()
    _require_known(name)
    if name not in _BUILT_IN:
        _installed_writer(name)  # a broken package is an error before the first trial, not after the last
    if given and not path:
        raise UsageError(f"--report {text}: the path after '=' is empty. Write {name}=PATH, or only {name}.")
    if given:
        return name, Path(path)
    file = _BUILT_IN[name][1] if name in _BUILT_IN else f"{name}.txt"
    return name, None if file is None else _FOLDER / file


def write_report(
    name: str, record: "RunRecord", target: str | os.PathLike[str] | TextIO, *, folder: Path = Path()
) -> None:
    """Write one report to a file or an open stream; `-` is standard output. A file is never left half written.

    A relative path starts at `folder`: an agent may have changed the current folder.
    The github report is appended to the file, since all steps of a job share it.
    """
    _require_known(name)
    write = _writer(name)
    write_to(name, lambda stream: write(record, stream), target, folder=folder)


def write_to(
    name: str, write: Callable[[TextIO], None], target: str | os.PathLike[str] | TextIO, *, folder: Path = Path()
) -> None:
    """Let `write` write the report of that name to a file or an open stream, as `write_report` does."""
    if not isinstance(target, str | os.PathLike):
        write(target)
    elif os.fspath(target) == "-":
        write(sys.stdout)
    else:
        path = Path(os.path.abspath(folder / target))
        with _explained(name, path), _appended(path) if name == "github" else _replaced(path) as stream:
            write(stream)


def _writer(name: str) -> "Callable[[RunRecord, TextIO], None]":
    if name not in _BUILT_IN:
        return _installed_writer(name)
    module, _, function = _BUILT_IN[name][0].partition(":")
    writer: Callable[[RunRecord, TextIO], None] = getattr(import_module(f"{__package__}.{module}"), function)
    return writer


def _installed_writer(name: str) -> "Callable[[RunRecord, TextIO], None]":
    point = _installed()[name]
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        raise UsageError(f"--report {name}: cannot load {point.value!r}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise UsageError(f"--report {name}: {point.value!r} is not a function write(record, stream)")

    def write(record: "RunRecord", stream: TextIO) -> None:
        try:
            found(record, stream)
        except (Exception, SystemExit) as error:
            raise SeatrialError(f"--report {name}: {point.value!r} failed: {type(error).__name__}: {error}") from error

    return write


def _installed() -> dict[str, Any]:
    """The entry points of installed packages by name. Reading them takes tens of milliseconds."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=ENTRY_POINTS) if point.name not in _BUILT_IN}


def _require_known(name: str) -> None:
    if name in _BUILT_IN or name in (installed := _installed()):
        return
    from difflib import get_close_matches

    known = (*FORMATS, *sorted(installed))
    close = get_close_matches(name.lower(), known, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise UsageError(f"--report: unknown report {name!r}.{guess} Known: {', '.join(known)}.")


@contextmanager
def _replaced(path: Path) -> Iterator[TextIO]:
    with replacing(path) as place, _opened(place, "w") as stream:
        yield stream


@contextmanager
def _appended(path: Path) -> Iterator[TextIO]:
    make_folder(path.parent)
    make_file(path)
    with _opened(path, "a") as stream:
        yield stream


def _opened(path: Path, mode: Literal["w", "a"]) -> TextIO:
    return open(path, mode, encoding="utf-8", errors="backslashreplace", newline="\n")


@contextmanager
def _explained(name: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"cannot write the {name} report to {str(path)!r}: {error.strerror or error}"
        raise UsageError(f"{problem}. Choose another path: --report {name}=PATH.") from error

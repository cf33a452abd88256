"""The door of the room: which reports there are, and how one comes to be a file."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias, get_args

from seatrial.errors import UsageError
from seatrial.files import make_file, make_folder, replacing

if TYPE_CHECKING:
    from seatrial.model.protocols import RunRecord

ReportKind: TypeAlias = Literal["console", "json", "jsonl", "html", "junit", "markdown", "github"]
KINDS: tuple[ReportKind, ...] = get_args(ReportKind)

# By name, so that a run which writes no HTML does not pay for its template engine.
_WRITERS: dict[ReportKind, tuple[str, str]] = {
    "console": ("console", "print_run"),
    "json": ("json_report", "write_json"),
    "jsonl": ("json_report", "write_jsonl"),
    "html": ("html", "write_html"),
    "junit": ("junit", "write_junit"),
    "markdown": ("markdown", "write_markdown"),
    "github": ("markdown", "write_github"),
}
_DEFAULT_PATHS: dict[ReportKind, str] = {
    "json": "results.json",
    "jsonl": "results.jsonl",
    "html": "report.html",
    "junit": "junit.xml",
    "markdown": "report.md",
}


def parse_report_option(text: str, *, folder: Path = Path(".seatrial")) -> tuple[ReportKind, Path | None]:
    """The kind and the path of `html=out.html`; without a path the default, None for console and github."""
    name, given, path = text.partition("=")
    kind = _known_kind(name.strip())
    if given and not path.strip():
        raise UsageError(f"--report {text}: the path after '=' is empty. Write {kind}=PATH, or only {kind}.")
    if given:
        return kind, Path(path.strip())
    default = _DEFAULT_PATHS.get(kind)
    return kind, None if default is None else folder / default


def write_report(
    kind: str, record: "RunRecord", target: str | os.PathLike[str] | TextIO, *, folder: Path = Path()
) -> None:
    """Write one report to a file, which appears whole or not at all, or to an open stream; `-` is standard output.

    A relative path is meant from the `folder`: the current one may be another since an agent has run.
    The github report is added to what the file holds already, since all steps of a job share it.
    """
    known = _known_kind(kind)
    write = _writer(known)
    if not isinstance(target, str | os.PathLike):
        write(record, target)
    elif os.fspath(target) == "-":
        write(record, sys.stdout)
    else:
        path = Path(os.path.abspath(folder / target))
        with _explained(known, path), _appended(path) if known == "github" else _replaced(path) as stream:
            write(record, stream)


def _writer(kind: ReportKind) -> "Callable[[RunRecord, TextIO], None]":
    module, name = _WRITERS[kind]
    writer: Callable[[RunRecord, TextIO], None] = getattr(import_module(f"{__package__}.{module}"), name)
    return writer


def _known_kind(name: str) -> ReportKind:
    for kind in KINDS:
        if kind == name:
            return kind
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), KINDS, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise UsageError(f"--report: unknown report {name!r}.{guess} Known: {', '.join(KINDS)}.")


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
def _explained(kind: ReportKind, path: Path) -> Iterator[None]:
    """A path that cannot be written is the user's to mend, so it is told without a traceback."""
    try:
        yield
    except OSError as error:
        problem = f"cannot write the {kind} report to {str(path)!r}: {error.strerror or error}"
        raise UsageError(f"{problem}. Choose another path: --report {kind}=PATH.") from error

"""Which files of the project a process reads: what `--watch` has to look at."""

import os
import sys
from collections.abc import Iterator
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any, Final

_OURS: Final = str(Path(__file__).resolve().parent.parent) + os.sep
_INSTALLED: Final = tuple({f"{Path(place).absolute()}{os.sep}" for place in (sys.prefix, sys.base_prefix)})
_WRITING: Final = os.O_WRONLY | os.O_RDWR
_LEFT_OUT: Final = ("node_modules", "__pycache__", "site-packages")


class FilesRead:
    """An audit hook that notes every file of the project that is opened, so that prompts count as modules do.

    A file that is also written to is none to watch: a log would make every round begin the next one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = f"{folder}{os.sep}"
        self._read: dict[str, None] = {}
        self._written: set[str] = set()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], (str, os.PathLike)):
            return
        path, _, flags = arguments
        name = os.path.abspath(os.fspath(path))
        if isinstance(flags, int) and flags & _WRITING:
            self._written.add(name)
        else:
            self._read[name] = None

    def of_project(self) -> list[str]:
        """Modules wherever they are, unless they are installed; other files in the project's folder, unless hidden."""
        sources = dict.fromkeys(map(_source, list(self._read)))
        return [name for name in sources if name not in self._written and self.is_of_project(name)]

    def is_of_project(self, name: str) -> bool:
        if is_installed(name):
            return False
        inside = name.startswith(self._folder)
        hidden = inside and any(part.startswith(".") for part in Path(name.removeprefix(self._folder)).parts)
        return (inside and not hidden) or name.endswith(".py")


def is_installed(name: str) -> bool:
    """Whether a file is nobody's work in this project: of Python, of Seatrial, of a package."""
    return name.startswith((_OURS, *_INSTALLED)) or any(f"{os.sep}{part}{os.sep}" in name for part in _LEFT_OUT)


def _source(name: str) -> str:
    """The file that a person edits."""
    if not name.endswith(".pyc"):
        return name
    try:
        return source_from_cache(name)
    except ValueError:
        return name


def python_files(folder: Path) -> Iterator[str]:
    """Every Python file of a project: what may be at fault when it could not be loaded."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and name not in _LEFT_OUT
            and not os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))
        ]
        yield from (os.path.join(parent, name) for name in files if name.endswith(".py"))

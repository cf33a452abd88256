"""Which files the given paths stand for."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .problems import Problem

READABLE = (".yaml", ".yml", ".json", ".jsonl", ".py")
IN_FOLDERS = (".yaml", ".yml", ".jsonl", ".trial.json", "_trials.py")
_LOOKED_FOR = "*.yaml, *.yml, *.jsonl, *.json of scenarios and *_trials.py"
_SUITE_IN_JSON = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:suite|scenarios)"\s*:')
_HEAD = 1024
_LEFT_OUT = ("node_modules", "__pycache__")


def find_files(paths: Sequence[str | Path], problems: list[Problem]) -> list[Path | str]:
    """The files, folders taken apart in the order of their names; `pkg.mod` stays a text. No file comes twice."""
    found: dict[Path | str, Path | str] = {}
    for path in map(Path, paths):
        if path.is_dir():
            files = sorted(_walk(path))
            if not files:
                message = f"no scenario file in this folder: {_LOOKED_FOR}"
                problems.append(Problem(file=str(path), message=message, suggestion=_where_to_go(path)))
            found |= {file.resolve(): file for file in files if file.resolve() not in found}
        elif path.exists():
            if path.suffix.lower() not in READABLE:
                message = f"expected a folder or a file of {', '.join(READABLE)}, got {path.suffix or path.name!r}"
                problems.append(Problem(file=str(path), message=message))
            else:
                found.setdefault(path.resolve(), path)
        elif _is_module(str(path)):
            found.setdefault(str(path), str(path))
        else:
            message = "there is no such file, folder or module"
            problems.append(Problem(file=str(path), message=message, suggestion=_what_is_like(path)))
    return list(found.values())


def _where_to_go(folder: Path) -> str:
    """Who stands below their project, or names a folder of it, has the scenarios above; anybody else has none yet."""
    above = next((place for place in list(folder.resolve().parents)[:3] if (place / "scenarios").is_dir()), None)
    if above is None:
        return "Make a first one: seatrial init"
    there = os.path.relpath(above, folder)
    if folder.resolve() != Path.cwd():
        return f"Did you mean {os.path.normpath(folder / there / 'scenarios')!r}?"
    return f"There is a folder of scenarios in {there}; go there first: cd {there}"


def _what_is_like(path: Path) -> str | None:
    from difflib import get_close_matches

    names = os.listdir(path.parent) if path.parent.is_dir() else []
    close = get_close_matches(path.name, names, n=1)
    return f"Did you mean {str(path.with_name(close[0]))!r}?" if close else None


def _walk(folder: Path) -> Iterator[Path]:
    seen: set[str] = set()
    for parent, folders, files in os.walk(folder, followlinks=True):
        place = os.path.realpath(parent)
        if place in seen:  # a link that leads back to where it stands
            folders.clear()
            continue
        seen.add(place)
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _LEFT_OUT]
        for name in files:
            path = Path(parent, name)
            if belongs_to_folder(path):
                yield path


def belongs_to_folder(file: Path) -> bool:
    """Whether a folder is taken with this file. JSON is mostly something else, unless it begins as a suite does."""
    name = file.name.lower()
    if name.startswith("."):
        return False
    return name.endswith(IN_FOLDERS) or (name.endswith(".json") and _begins_as_suite(file))


def _begins_as_suite(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return _SUITE_IN_JSON.match(stream.read(_HEAD)) is not None
    except OSError:
        return False


def _is_module(name: str) -> bool:
    """Whether Python can find a module of that name."""
    from importlib.util import find_spec

    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False

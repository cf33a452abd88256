"""Which files of the project stand behind a suite: its agent, evaluators and hooks, and whatever they import."""

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seatrial.model.struct import field_names

from .watch_files import is_installed


def files_behind(things: Iterable[Any], *, files: Iterable[str] = ()) -> set[str]:
    """The files, and those of all modules that they, and import paths and functions among the things, lead to."""
    found = {f"<{file}>": file for file in files}
    waiting = [module for thing in things for module in _modules_in(thing)]
    waiting += [module for file in files for module in _imported_by("", file)]
    while waiting:
        name = waiting.pop()
        file = None if name in found else _file_of(name)
        if file is not None:
            found[name] = file
            waiting += _imported_by(name, file)
    return set(found.values())


def _modules_in(thing: Any) -> Iterator[str]:
    if isinstance(thing, str):
        module, colon, attribute = thing.partition(":")
        if colon and all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
            yield module
    elif isinstance(thing, Mapping):
        yield from (module for value in thing.values() for module in _modules_in(value))
    elif isinstance(thing, Sequence) and not isinstance(thing, bytes):
        yield from (module for value in thing for module in _modules_in(value))
    elif not isinstance(thing, type) and (names := field_names(thing)) is not None:
        yield from (module for name in names for module in _modules_in(getattr(thing, name)))
    else:
        own = getattr(thing, "__module__", None)
        if isinstance(own, str):
            yield own


def _file_of(name: str) -> str | None:
    """The source of a module of the project; None for what is installed, built in, or not there."""
    if name.partition(".")[0] in sys.stdlib_module_names:
        return None
    loaded = sys.modules.get(name)
    if loaded is None and (parent := name.rpartition(".")[0]) and _file_of(parent) is None:
        return None  # looking for it would import its package
    try:
        spec = None if loaded is not None else find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    file = spec.origin if spec is not None else getattr(loaded, "__file__", None)
    file = None if file is None else os.path.abspath(file)
    return file if file is not None and file.endswith(".py") and not is_installed(file) else None


def _imported_by(name: str, file: str) -> Iterator[str]:
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = name if file.endswith("__init__.py") else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            # What is imported from a package may be a module of it.
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))

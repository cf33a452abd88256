"""Scenarios written in Python: every Scenario and Suite that a module has at its top level."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from seatrial.model.scenario import Scenario, Suite

from .problems import FileProblems, Problem


def import_file(path: Path) -> ModuleType:
    """The module that a file holds, executed anew. Raises FileProblems with the line that failed."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        # As for a script that Python runs: the modules beside it can be imported, also later, from its functions.
        sys.path.insert(0, folder)
    name = f"{path.stem}_{sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileProblems([Problem(file=str(path), message="not a Python file")])
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise FileProblems([_import_problem(path, error)]) from None
    return module


def _import_problem(path: Path, error: BaseException) -> Problem:
    from traceback import extract_tb

    own = path.resolve()
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if Path(frame.filename).resolve() == own]
    if isinstance(error, SyntaxError) and error.filename is not None and Path(error.filename).resolve() == own:
        lines.append(error.lineno)
    line = lines[-1] if lines else None
    return Problem(file=str(path), line=line, message=f"cannot be imported: {explain(error)}")


def explain(error: BaseException) -> str:
    """An exception of the user's code in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def import_named(name: str) -> ModuleType:
    """The module of that name. Raises FileProblems."""
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        raise FileProblems([Problem(file=name, message=f"cannot be imported: {explain(error)}")]) from None


_DEEPEST = 4
"""How deep scenarios are looked for in lists and mappings: what is deeper is other data, which may hold itself."""


def _all_in(values: Iterable[Any], *, depth: int) -> Iterator[Any]:
    for value in values:
        if depth and isinstance(value, (list, tuple, dict)):
            yield from _all_in(value.values() if isinstance(value, dict) else value, depth=depth - 1)
        else:
            yield value


def find_suites(values: Sequence[Any], default_name: str) -> list[Suite]:
    """The suites among a module's values; scenarios that stand alone make one more, named after the file."""
    suites: dict[int, Suite] = {}
    loose: dict[int, Scenario] = {}
    for item in _all_in(values, depth=_DEEPEST):
        if isinstance(item, Suite):
            suites[id(item)] = item
        elif isinstance(item, Scenario):
            loose[id(item)] = item
    for suite in suites.values():
        for scenario in suite.scenarios if isinstance(suite.scenarios, (list, tuple)) else ():
            loose.pop(id(scenario), None)
    found = list(suites.values())
    return [*found, Suite(name=default_name, scenarios=tuple(loose.values()))] if loose else found

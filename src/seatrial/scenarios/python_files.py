"""Python modules: their scenarios and suites, and their custom evaluators."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import iscoroutinefunction, isfunction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from seatrial.errors import UsageError
from seatrial.evaluators.registry import evaluator
from seatrial.model.scenario import Scenario, Suite

from .build_evaluators import is_built_in
from .problems import FileProblems, KeyPath, Problem, Problems

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def import_file(path: Path) -> ModuleType:
    """The module of a file, executed again. Raises FileProblems with the line that failed."""
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        # As for a script: modules in the same folder can be imported, also later, by its functions.
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
    """An exception of user code in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def import_named(name: str) -> ModuleType:
    """The module of that name. Raises FileProblems."""
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        raise FileProblems([Problem(file=name, message=f"cannot be imported: {explain(error)}")]) from None


_DEEPEST = 4
"""The depth to which lists and mappings are searched for scenarios; other data may be circular."""


def _all_in(values: Iterable[Any], *, depth: int) -> Iterator[Any]:
    for value in values:
        if depth and isinstance(value, (list, tuple, dict)):
            yield from _all_in(value.values() if isinstance(value, dict) else value, depth=depth - 1)
        else:
            yield value


def find_suites(values: Sequence[Any], default_name: str) -> list[Suite]:
    """The suites among a module's values; scenarios without a suite make one more, named after the file."""
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


ENTRY_POINTS = "seatrial.evaluators"
_EXPECTED = "Mark a function with @evaluator, or define a class with an evaluate method"


def collect_evaluators(modules: Sequence[str], where: KeyPath, problems: Problems) -> dict[str, Any]:
    """The evaluators that the modules define, by name: objects made by @evaluator, and classes."""
    found: dict[str, Any] = {}
    for index, name in enumerate(modules):
        place = (*where, index)
        try:
            module = import_module(name)
        except (Exception, SystemExit) as error:
            problems.add(place, f"cannot import {name!r}: {explain(error)}")
            continue
        own = evaluators_in(vars(module), module.__name__)
        if not own:
            problems.add(place, f"the module {name!r} defines no evaluator", _EXPECTED)
        for taken in filter(is_built_in, own):
            message = f"the evaluator {taken!r} has the name of a built-in evaluator, so the name is ambiguous"
            problems.add(place, message, "Give it another name: @evaluator(name=...)")
        for twice in sorted(found.keys() & own.keys()):
            problems.add(place, f"the evaluator {twice!r} is also defined by another module")
        found |= own
    return found


def installed_evaluators() -> dict[str, Any]:
    """The evaluators of installed packages, from the entry points `seatrial.evaluators`."""
    # Importing importlib.metadata and reading every package's entry points takes tens of milliseconds.
    from importlib.metadata import entry_points

    found: dict[str, Any] = {}
    for point in entry_points(group=ENTRY_POINTS):
        for name, loaded in _load_entry_point(point).items():
            package = point.dist.name if point.dist else point.value
            if is_built_in(name):
                raise UsageError(f"the package {package!r} has an evaluator {name!r}, but that name is built in")
            if name in found and found[name] is not loaded:
                raise UsageError(f"the package {package!r} has an evaluator {name!r}, and so has another package")
            found[name] = loaded
    return found


def _load_entry_point(point: "EntryPoint") -> dict[str, Any]:
    """The evaluators that an entry point names: all of a module, or one class, object or function."""
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:
        raise UsageError(f"the entry point {point.value!r} of {ENTRY_POINTS} fails: {explain(error)}") from None
    if isinstance(loaded, ModuleType):
        return evaluators_in(vars(loaded), loaded.__name__)
    if callable(getattr(loaded, "evaluate", None)):
        return {point.name: loaded}
    if isfunction(loaded):
        return {point.name: evaluator(name=point.name)(loaded)}
    raise UsageError(f"the entry point {point.value!r} of {ENTRY_POINTS} is no evaluator: {_EXPECTED}")


def evaluators_in(namespace: Mapping[str, Any], module: str) -> dict[str, Any]:
    """The evaluators among a module's names. Classes count where they are defined, not where they are imported."""
    found: dict[str, Any] = {}
    for value in namespace.values():
        if not _evaluates(value) or (isinstance(value, type) and value.__module__ != module):
            continue
        found[_name_of(value)] = value
    return found


def _evaluates(value: Any) -> bool:
    method = getattr(value, "evaluate", None)
    is_class = isinstance(value, type) and isfunction(method) and not getattr(value, "_is_protocol", False)
    return is_class or iscoroutinefunction(method)


def _name_of(value: Any) -> str:
    name = getattr(value, "name", None)
    if isinstance(name, str) and name:
        return name
    kind = value if isinstance(value, type) else type(value)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()

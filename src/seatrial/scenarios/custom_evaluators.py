"""Evaluators of the user's own: found in the modules a suite lists and in installed packages, kept per suite."""

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from seatrial.errors import UsageError

from .problems import Complaints, Where
from .python_files import explain
from .scorers import is_built_in

ENTRY_POINTS = "seatrial.evaluators"


def collect_evaluators(modules: Sequence[str], where: Where, complaints: Complaints) -> dict[str, Any]:
    """The evaluators that the modules define, by name: objects made by @evaluator, and classes to be built."""
    found: dict[str, Any] = {}
    for index, name in enumerate(modules):
        place = (*where, index)
        try:
            module = import_module(name)
        except (Exception, SystemExit) as error:
            complaints.add(place, f"cannot import {name!r}: {explain(error)}")
            continue
        own = evaluators_in(vars(module), module.__name__)
        if not own:
            hint = "Mark a function with @evaluator, or define a class with an async evaluate method"
            complaints.add(place, f"the module {name!r} defines no evaluator", hint)
        for taken in filter(is_built_in, own):
            message = f"the evaluator {taken!r} has the name of one that is built in, so it is not plain which is meant"
            complaints.add(place, message, "Give it another: @evaluator(name=...)")
        for twice in sorted(found.keys() & own.keys()):
            complaints.add(place, f"the evaluator {twice!r} is defined by another module too")
        found |= own
    return found


def installed_evaluators() -> dict[str, Any]:
    """The evaluators of installed packages, from the entry points `seatrial.evaluators`."""
    # Importing importlib.metadata and reading every package's entry points takes tens of milliseconds.
    from importlib.metadata import entry_points

    found: dict[str, Any] = {}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            loaded = point.load()
        except (Exception, SystemExit) as error:
            raise UsageError(f"the entry point {point.value!r} of {ENTRY_POINTS} fails: {explain(error)}") from None
        if hasattr(loaded, "__dict__") and not callable(getattr(loaded, "evaluate", None)):
            found |= evaluators_in(vars(loaded), loaded.__name__)
        else:
            found[point.name] = loaded
    return found


def evaluators_in(namespace: Mapping[str, Any], module: str) -> dict[str, Any]:
    """The evaluators among a module's names. Classes count where they are defined, not where they are imported."""
    found: dict[str, Any] = {}
    for value in namespace.values():
        if not _evaluates(value) or (isinstance(value, type) and value.__module__ != module):
            continue
        found[_name_of(value)] = value
    return found


def _evaluates(value: Any) -> bool:
    from inspect import iscoroutinefunction

    return iscoroutinefunction(getattr(value, "evaluate", None)) and not getattr(value, "_is_protocol", False)


def _name_of(value: Any) -> str:
    name = getattr(value, "name", None)
    if isinstance(name, str) and name:
        return name
    kind = value if isinstance(value, type) else type(value)
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()

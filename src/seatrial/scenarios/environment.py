"""Environment variables in agent settings, and nowhere else: test data stays as it is written."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from seatrial.errors import UsageError

from .problems import Complaints, Where, path_text

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def fill_environment(spec: Any, environ: Mapping[str, str]) -> Any:
    """The agent settings with ${NAME} and ${NAME:-default} filled. Raises UsageError that names what is not set."""
    complaints = Complaints()
    filled = fill_by_path(spec, environ, (), complaints)
    if complaints.found:
        found = "\n".join(": ".join(filter(None, (path_text(c.where), c.message))) for c in complaints.found)
        raise UsageError(f"agent settings: {found}")
    return filled


def fill_by_path(spec: Any, environ: Mapping[str, str], where: Where, complaints: Complaints) -> Any:
    """The same, with complaints by key path."""
    if isinstance(spec, str):
        return _VARIABLE.sub(_value_from(environ, where, complaints), spec) if "${" in spec else spec
    if isinstance(spec, Mapping):
        return {key: fill_by_path(value, environ, (*where, key), complaints) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [fill_by_path(item, environ, (*where, index), complaints) for index, item in enumerate(spec)]
    return spec


def _value_from(environ: Mapping[str, str], where: Where, complaints: Complaints) -> Callable[[re.Match[str]], str]:
    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        value = environ.get(name)
        # As in a shell, `:-` stands in for an empty variable too.
        if value is None or (value == "" and default is not None):
            if default is None:
                hint = f"Set it, or write ${{{name}:-default}}"
                complaints.add(where, f"the environment variable {name!r} is not set", hint)
            return default or ""
        return value

    return value_of

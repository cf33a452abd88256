"""Environment variables in agent settings. They are filled in nowhere else: test data stays as written."""

import re
from collections.abc import Mapping
from typing import Any

from seatrial.errors import UsageError

from .problems import KeyPath, Problems, path_text

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def fill_environment(spec: Any, environ: Mapping[str, str]) -> Any:
    """The agent settings with ${NAME} and ${NAME:-default} filled in. Raises UsageError if one is not set."""
    problems = Problems()
    filled = fill_by_path(spec, environ, (), problems)
    if problems.found:
        found = "\n".join(": ".join(filter(None, (path_text(one.where), one.message))) for one in problems.found)
        raise UsageError(f"agent settings: {found}")
    return filled


def fill_by_path(spec: Any, environ: Mapping[str, str], where: KeyPath, problems: Problems) -> Any:
    """The same, with problems by key path."""

    def value_of(match: re.Match[str]) -> str:
        name, default = match.groups()
        value = environ.get(name)
        # As in a shell, `:-` also replaces an empty variable.
        if value is None or (value == "" and default is not None):
            if default is None:
                hint = f"Set it, or write ${{{name}:-default}}"
                problems.add(where, f"the environment variable {name!r} is not set", hint)
            return default or ""
        return value

    if isinstance(spec, str):
        return _VARIABLE.sub(value_of, spec) if "${" in spec else spec
    if isinstance(spec, Mapping):
        return {key: fill_by_path(value, environ, (*where, key), problems) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [fill_by_path(item, environ, (*where, index), problems) for index, item in enumerate(spec)]
    return spec

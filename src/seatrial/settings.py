"""The table of settings: what may stand in `[tool.seatrial]` of pyproject.toml or in the environment.

Entry points read it, and a judge that is used without a run. Everything else takes arguments.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from seatrial.errors import UsageError
from seatrial.model.struct import Struct


class Setting(Struct, frozen=True, kw_only=True):
    """One line of the table."""

    kind: type | tuple[type, ...]
    default: Any
    help: str
    variable: str | None = None
    """The environment variable that overrides the file."""


SETTINGS: Final[Mapping[str, Setting]] = {
    "store": Setting(
        kind=str,
        default=".seatrial/runs.db",
        help="where runs are kept: a file, or postgresql://…",
        variable="SEATRIAL_STORE",
    ),
    "cache": Setting(
        kind=str, default=".seatrial/cache", help="where answers of models are kept", variable="SEATRIAL_CACHE"
    ),
    "agent": Setting(
        kind=(str, dict), default=None, help="the agent of suites that name none", variable="SEATRIAL_AGENT"
    ),
    "judge_model": Setting(
        kind=(str, dict), default=None, help="the model that judges", variable="SEATRIAL_JUDGE_MODEL"
    ),
    "user_model": Setting(
        kind=(str, dict), default=None, help="the model that plays users", variable="SEATRIAL_USER_MODEL"
    ),
    "dedup_model": Setting(
        kind=(str, dict),
        default=None,
        help="the model that merges behaviour failures; the judge's where not set",
        variable="SEATRIAL_DEDUP_MODEL",
    ),
    "testpaths": Setting(kind=list, default=(), help="folders whose scenario files pytest collects"),
    "live": Setting(kind=bool, default=False, help="pytest may ask models", variable="SEATRIAL_LIVE"),
    "redact": Setting(
        kind=dict, default=None, help="`{except: [NAME]}`: variables whose values are no secrets, whatever their names"
    ),
    "groups": Setting(kind=dict, default=None, help="gates over the tests of a pytest session, by name"),
}
_SWITCHES: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def read_settings(folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Every setting's value: from the environment, else from the nearest pyproject.toml, else its default."""
    values = {name: setting.default for name, setting in SETTINGS.items()}
    values.update(_from_project(folder))
    for name, setting in SETTINGS.items():
        given = environ.get(setting.variable) if setting.variable else None
        if given:
            values[name] = read_switch(str(setting.variable), given) if setting.kind is bool else given
    return values


def read_switch(name: str, given: str) -> bool:
    """Whether a text says yes or no. Raises UsageError for any other."""
    found = _SWITCHES.get(given.strip().lower())
    if found is None:
        raise UsageError(f"{name}={given!r}: expected one of {', '.join(_SWITCHES)}")
    return found


def _from_project(folder: Path) -> dict[str, Any]:
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            return _read_table(file)
    return {}


def _read_table(file: Path) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8", errors="replace")
    if "tool.seatrial" not in text:
        return {}
    import tomllib

    try:
        table = tomllib.loads(text).get("tool", {}).get("seatrial", {})
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: {error}") from None
    if not isinstance(table, dict):
        raise UsageError(f"{file}: [tool.seatrial] must be a table")
    problems = [problem for key, value in table.items() if (problem := _check(key, value))]
    if problems:
        raise UsageError("\n".join(f"{file}: [tool.seatrial] {problem}" for problem in problems))
    return {key: value for key, value in table.items() if key in SETTINGS}


def _check(key: str, value: Any) -> str | None:
    setting = SETTINGS.get(key)
    if setting is None:
        close = get_close_matches(key, SETTINGS, n=1)
        return f"unknown key {key!r}." + (
            f" Did you mean {close[0]!r}?" if close else f" Known: {', '.join(SETTINGS)}."
        )
    if not isinstance(value, setting.kind):
        return f"{key}: got {value!r} ({type(value).__name__})"
    return _check_redact(value) if key == "redact" else None


def _check_redact(table: Any) -> str | None:
    unknown = next((key for key in table if key != "except"), None)
    if unknown is not None:
        return f"redact: unknown key {unknown!r}. Known: except."
    names = table.get("except", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return f"redact.except: expected a list of variables, such as ['SORT_KEY'], got {names!r}"
    return None


def not_redacted(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The variables whose values are no secrets."""
    return tuple((settings["redact"] or {}).get("except", ()))


def models_from(settings: dict[str, Any]) -> dict[str, Any]:
    """Which model plays which role, where a scenario does not say."""
    return {
        role: settings[f"{role}_model"]
        for role in ("judge", "user", "dedup")
        if settings.get(f"{role}_model") is not None
    }

"""The settings in `[tool.seatrial]` of pyproject.toml and in the environment: name, default and help in one table.

Only entry points read settings, and a judge that is used without a run. Everything else takes arguments.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from seatrial.errors import UsageError
from seatrial.model.struct import Struct


class Setting(Struct, frozen=True, kw_only=True):
    """One setting."""

    kind: type | tuple[type, ...]
    default: Any
    help: str
    variable: str | None = None
    """The environment variable that overrides the file."""


SETTINGS: Final[Mapping[str, Setting]] = {
    "store": Setting(
        kind=str,
        default=".seatrial/runs.db",
        help="Where runs are stored: a file or postgresql://…",
        variable="SEATRIAL_STORE",
    ),
    "cache": Setting(
        kind=str, default=".seatrial/cache", help="Where answers of models are cached", variable="SEATRIAL_CACHE"
    ),
    "agent": Setting(
        kind=(str, dict), default=None, help="The agent of suites that name none", variable="SEATRIAL_AGENT"
    ),
    "judge_model": Setting(kind=(str, dict), default=None, help="The judge's model", variable="SEATRIAL_JUDGE_MODEL"),
    "user_model": Setting(
        kind=(str, dict), default=None, help="The model of simulated users", variable="SEATRIAL_USER_MODEL"
    ),
    "dedup_model": Setting(
        kind=(str, dict),
        default=None,
        help="The model that merges equal behaviour failures. Default: the judge's model",
        variable="SEATRIAL_DEDUP_MODEL",
    ),
    "testpaths": Setting(kind=list, default=(), help="Folders whose scenario files pytest collects"),
    "live": Setting(kind=bool, default=False, help="Whether pytest may call models", variable="SEATRIAL_LIVE"),
    "redact": Setting(
        kind=dict, default=None, help="`{except: [NAME]}`: variables whose values are not secret, despite their names"
    ),
    "groups": Setting(kind=dict, default=None, help="Gates over the tests of a pytest session, by name"),
}
_YES: Final = ("1", "true", "yes", "on")
_NO: Final = ("0", "false", "no", "off")


def read_settings(folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """The value of every setting: from the environment, else the nearest pyproject.toml, else its default."""
    values = {name: setting.default for name, setting in SETTINGS.items()}
    values.update(_from_project(folder))
    for name, setting in SETTINGS.items():
        given = environ.get(setting.variable) if setting.variable else None
        if given:
            values[name] = read_switch(str(setting.variable), given) if setting.kind is bool else given
    return values


def read_switch(name: str, given: str) -> bool:
    """The value of a setting that is on or off. Raises UsageError for any other text."""
    text = given.strip().lower()
    if text not in _YES + _NO:
        raise UsageError(f"{name}={given!r}: expected one of {', '.join(_YES + _NO)}")
    return text in _YES


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
    """The variables whose values are not secret."""
    return tuple((settings["redact"] or {}).get("except", ()))


def models_from(settings: dict[str, Any]) -> dict[str, Any]:
    """The models by role, for scenarios that name none."""
    return {
        role: settings[f"{role}_model"]
        for role in ("judge", "user", "dedup")
        if settings.get(f"{role}_model") is not None
    }

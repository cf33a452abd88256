"""What an agent can do wrong, by category, and how bad each is."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.results import Severity
from seatrial.model.struct import Struct

_OWN_FILE = Path(__file__).with_name("failures.toml")


class Category(Struct, frozen=True, kw_only=True):
    """A kind of behaviour failure. The judge names the category; how bad it is stands here."""

    name: str
    severity: Severity
    means: str


def load_categories(path: Path | None = None, *, severities: Mapping[str, str] | None = None) -> Mapping[str, Category]:
    """The categories by name, from the file that comes with the package or one's own, with severities of one's own."""
    categories = dict(_load(path or _OWN_FILE))
    for name, severity in (severities or {}).items():
        if name not in categories:
            close = get_close_matches(name, categories, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"severities: unknown category {name!r}.{guess} Known: {', '.join(categories)}.")
        categories[name] = replace(categories[name], severity=_severity(f"severities: {name}", severity))
    return categories


def _severity(where: str, word: Any) -> Severity:
    try:
        return Severity(word)
    except ValueError:
        raise UsageError(f"{where}: unknown severity {word!r}. Known: {', '.join(Severity)}.") from None


@lru_cache(maxsize=8)
def _load(path: Path) -> Mapping[str, Category]:
    import tomllib

    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: the categories cannot be read: {error}") from error
    if not tables:
        raise UsageError(f"{path}: no category is defined, so no failure could be found.")
    return {name: _read(name, table, where=f"{path}: [{name}]") for name, table in tables.items()}


def _read(name: str, table: Any, *, where: str) -> Category:
    if not isinstance(table, dict) or set(table) != {"severity", "means"} or not isinstance(table["means"], str):
        raise UsageError(f"{where}: expected exactly 'severity' and 'means', got {table!r}.")
    return Category(name=name, severity=_severity(where, table["severity"]), means=table["means"])

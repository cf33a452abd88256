"""`{{input}}`, `{{messages}}`, `{{trial_id}}` and `{{mcp_url}}` in the settings of agents, filled as JSON values."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from seatrial.errors import UsageError

PLACEHOLDERS = ("input", "messages", "trial_id", "mcp_url")
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")


def find_placeholders(template: Any) -> Iterator[str]:
    """The names in double braces in all texts of a template, except keys of mappings."""
    if isinstance(template, str):
        yield from _PLACEHOLDER.findall(template)
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from find_placeholders(value)
    elif isinstance(template, list | tuple):
        for value in template:
            yield from find_placeholders(value)


def check_placeholders(template: Any, *, where: str, more: Iterable[str] = ()) -> set[str]:
    """The placeholders of a template. Raises UsageError for one that is neither known nor one of `more`."""
    found, names = set(find_placeholders(template)), (*PLACEHOLDERS, *more)
    for name in sorted(found.difference(names)):
        close = get_close_matches(name, names, n=1)
        known = ", ".join(f"{{{{{known}}}}}" for known in names)
        what_now = f"Did you mean {{{{{close[0]}}}}}?" if close else f"Known: {known}."
        raise UsageError(f"{where}: unknown placeholder {{{{{name}}}}}. {what_now}")
    return found


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with values for its placeholders. A placeholder that is the whole text becomes the value itself."""
    if isinstance(template, str):
        whole = _PLACEHOLDER.fullmatch(template)
        if whole is not None:
            return values[whole[1]]
        return _PLACEHOLDER.sub(lambda found: _as_text(values[found[1]]), template)
    if isinstance(template, Mapping):
        return {key: fill(value, values) for key, value in template.items()}
    if isinstance(template, list | tuple):
        return [fill(value, values) for value in template]
    return template


def fill_url(template: str, values: Mapping[str, Any]) -> str:
    """The address with percent-encoded values for its placeholders."""
    from urllib.parse import quote

    return _PLACEHOLDER.sub(lambda found: quote(_as_text(values[found[1]]), safe=""), template)


def fill_address(text: str, url: str) -> str:
    """The text with the address for `{{mcp_url}}`. Other braces stay: they may be templates of the program."""
    return _PLACEHOLDER.sub(lambda found: url if found[1] == "mcp_url" else found[0], text)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)

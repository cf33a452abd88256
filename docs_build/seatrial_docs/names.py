"""The flags, commands and keys that a page names in inline code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from markdown_it import MarkdownIt

from .blocks import hand_written, name_of

_FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
_KEY = re.compile(r"[a-z][a-z_]*")
_CONTAINERS = ("suite", "config", "scenario", "expect", "models", "limits", "trajectory", "turn", "gate")
_OTHER_TOOLS = {"docs/other-tools.md", "docs/migrating.md"}
"""Pages that name other tools' flags and keys in the first column of their tables, or throughout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A piece of inline code, and where it is."""

    page: str
    line: int
    code: str
    column: str
    """The heading of the first column of its table, if it is in that column; else empty."""

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}: `{self.code}`"

    @property
    def flags(self) -> list[str]:
        return _FLAG.findall(self.code)

    @property
    def command(self) -> str | None:
        """The command of `seatrial COMMAND …`, without what comes before it."""
        found = re.search(r"(?:^|&& |\| )seatrial ([a-z].*)", self.code)
        return found[1] if found else None

    @property
    def keys(self) -> list[str]:
        """What looks like keys of a file: `key: value`, `suite.key`, or the first column of a table of keys."""
        if self.column in ("key", "`key`") and _KEY.fullmatch(self.code):
            return [self.code]
        if re.fullmatch(rf"({'|'.join(_CONTAINERS)})(\.[a-z_]+)+", self.code):
            return self.code.split(".")
        return [key for key in _mapping(self.code) if isinstance(key, str) and _KEY.fullmatch(key)]


def named_in(page: Path) -> Iterator[Named]:
    """The inline code of a page, in order."""
    name, column, cell, heading = name_of(page), 0, "", ""
    if name == "docs/other-tools.md":
        return
    for token in MarkdownIt().enable("table").parse(hand_written(page.read_text(encoding="utf-8"))):
        column = 0 if token.type == "tr_open" else column + (token.type in ("td_close", "th_close"))
        cell = token.type.removesuffix("_open") if token.type in ("td_open", "th_open", "paragraph_open") else cell
        if token.type != "inline":
            continue
        if cell == "th" and column == 0:
            heading = token.content
        if name in _OTHER_TOOLS and cell == "td" and column == 0:
            continue
        for child in token.children or ():
            if child.type == "code_inline":
                first = heading if cell == "td" and column == 0 else ""
                yield Named(page=name, line=(token.map or [0])[0] + 1, code=child.content, column=first)


def _mapping(code: str) -> dict[Any, Any]:
    """`key: value` as a mapping; an empty mapping for anything else. Braces alone are not read: they are often data."""
    if not re.match(r"[a-z_]+: \S", code) or "…" in code.partition(":")[0]:
        return {}
    try:
        found = yaml.safe_load(code)
    except yaml.YAMLError:
        return {code.partition(":")[0]: None}
    return found if isinstance(found, dict) else {}

"""The code blocks of a page, as markdown-it reads them: GitHub and the site show the same blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
GENERATED_PART = re.compile(r"(<!-- generated: ([\w ]+) -->\n)(?:.*?)(<!-- end of \2 -->\n)", re.DOTALL)
"""A part of a page that `make reference` writes: its first line, its name, its last line."""
_TITLE = re.compile(r'\btitle="([^"]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block."""

    page: str
    line: int
    """The number of its first line of content, from 1."""
    language: str
    title: str | None
    """The name of the file, if the block is a file."""
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.strip().partition("\n")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command of a console block, and the output below it."""

    command: str
    shown: str
    start: int
    """The lines of the page that hold the output, from 0: [start, end)."""
    end: int


def pages() -> list[Path]:
    """All pages, in a fixed order."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def hand_written(markdown: str) -> str:
    """The page with its generated parts blanked, so that lines keep their numbers."""
    return GENERATED_PART.sub(lambda found: "\n" * found[0].count("\n"), markdown)


def blocks_of(page: Path, text: str | None = None, *, name: str | None = None) -> list[Block]:
    """The hand-written blocks, in order. Raises ValueError for an indented block, which has no language."""
    source = page.read_text(encoding="utf-8") if text is None else text
    shown = name or name_of(page)
    found = []
    for token in MarkdownIt().parse(hand_written(source)):
        if token.type == "code_block" and token.map:
            raise ValueError(f"{shown}:{token.map[0] + 1}: an indented code block; use a fence")
        if token.type == "fence" and token.map:
            title = _TITLE.search(token.info)
            language = token.info.split()[0] if token.info.split() else ""
            found.append(
                Block(
                    page=shown,
                    line=token.map[0] + 2,
                    language=language,
                    title=title[1] if title else None,
                    text=token.content,
                )
            )
    return found


def steps_of(block: Block) -> Iterator[Step]:
    """`$ command`, with `> ` for its further lines, and everything up to the next one as its output."""
    lines = block.text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    if not starts or starts[0] != 0:
        raise ValueError(f"{block.where}: a console block begins with `$ command`")
    for start, after in zip(starts, [*starts[1:], len(lines)], strict=True):
        first = start + 1
        command = lines[start][2:]
        while first < after and lines[first].startswith("> "):
            command += "\n" + lines[first][2:]
            first += 1
        yield Step(
            command=command,
            shown="\n".join(lines[first:after]),
            start=block.line - 1 + first,
            end=block.line - 1 + after,
        )

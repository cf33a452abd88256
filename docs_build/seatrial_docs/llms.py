"""llms.txt, a list of all pages for language models, and llms-full.txt, all pages as one Markdown file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_FENCED = re.compile(r"```.*?```", re.DOTALL)
_HEADING = re.compile(r"^#+ .*$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def list_pages(nav: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each section of the navigation, with the titles and files of its pages."""
    for section in nav:
        for title, entries in section.items():
            yield title, [(name, file) for entry in entries for name, file in entry.items()]


def write_index(name: str, description: str, nav: Sequence[Mapping[str, Any]], docs: Path) -> str:
    """The text of llms.txt: see https://llmstxt.org."""
    lines = [f"# {name}", "", f"> {description}", "", "All pages as one file: [llms-full.txt](llms-full.txt)"]
    for section, pages in list_pages(nav):
        lines += ["", f"## {section}", ""]
        for title, file in pages:
            address = file.removesuffix(".md") + ".html"
            lines.append(f"- [{title}]({address}): {_first_sentence((docs / file).read_text(encoding='utf-8'))}")
    return "\n".join(lines) + "\n"


def write_full(name: str, description: str, nav: Sequence[Mapping[str, Any]], docs: Path) -> str:
    """The text of llms-full.txt."""
    pages = [file for _, entries in list_pages(nav) for _, file in entries]
    texts = [f"<!-- {file} -->\n{(docs / file).read_text(encoding='utf-8').strip()}" for file in pages]
    return "\n\n".join([f"# {name}\n\n> {description}", *texts]) + "\n"


def _first_sentence(page: str) -> str:
    prose = _LINK.sub(r"\1", _HEADING.sub("", _FENCED.sub("", page)))
    blocks = (" ".join(block.split()) for block in prose.split("\n\n"))
    first = next((block for block in blocks if block and block[0] not in "|!<-"), "")
    return re.split(r"(?<=[.:?])\s", first, maxsplit=1)[0]

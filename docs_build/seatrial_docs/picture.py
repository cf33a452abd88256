"""Pictures of what commands print, drawn as text in an SVG.

python -m seatrial_docs.picture docs/images/run.svg docs/images/end-state.svg
"""

import os
import re
import shutil
import sys
import tempfile
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

from .blocks import ROOT
from .shell import Shell


class Picture(NamedTuple):
    """A project, the command to show, and a command before it."""

    project: Path
    place: str
    """Where the project is copied to in the folder of the commands."""
    command: str
    before: str | None = None


_WRONG = "{type: python, target: examples.shop_world.agents_wrong:too_generous, tools: all_wrapped}"
PICTURES = {
    "run.svg": Picture(ROOT / "docs_build" / "picture", ".", "seatrial run --seed 3"),
    "end-state.svg": Picture(
        ROOT / "examples" / "shop_world",
        "examples/shop_world",
        "seatrial show latest 'refunds a delivered order' 1",
        before=f"seatrial run examples/shop_world/scenarios.yaml --agent '{_WRONG}'",
    ),
}
"""By file name."""
_LETTER, _LINE, _LEFT, _TOP = 7.9, 19, 18, 46
_COLOURS = (
    (re.compile(r"^(\s*)(✓)"), "#57ab5a"),
    (re.compile(r"^(\s*)(✗)"), "#e5534b"),
    (re.compile(r"^()(PASS.*)"), "#57ab5a"),
    (re.compile(r"^()((FAIL|ERROR).*)"), "#e5534b"),
)


def run_of_the_picture(name: str, folder: Path) -> str:
    """The command and its output."""
    picture = PICTURES[name]
    ignored = shutil.ignore_patterns("__pycache__", ".seatrial")
    shutil.copytree(picture.project, folder / picture.place, dirs_exist_ok=True, ignore=ignored)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SEATRIAL_")}
    with Shell(folder, environ | {"NO_COLOR": "1"}) as shell:
        if picture.before is not None:
            shell.run(picture.before)
        return f"$ {picture.command}\n{shell.run(picture.command)}".rstrip()


def drawn(text: str) -> str:
    """The text as an SVG that looks like a terminal, without fonts or scripts from other sites."""
    lines = text.splitlines()
    height = _TOP + _LINE * len(lines) + 10
    width = round(2 * _LEFT + _LETTER * max(map(len, lines)))
    body = "\n".join(
        f'<text x="{_LEFT}" y="{_TOP + _LINE * number}" xml:space="preserve">{_painted(line)}</text>'
        for number, line in enumerate(lines)
    )
    dots = "".join(
        f'<circle cx="{20 + 18 * number}" cy="16" r="5" fill="{colour}"/>'
        for number, colour in enumerate(("#e5534b", "#c69026", "#57ab5a"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#22272e"/>\n{dots}\n'
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#adbac7">\n'
        f"{body}\n</g>\n</svg>\n"
    )


def text_of(svg: str) -> str:
    """The text that a picture shows."""
    found = re.findall(r"<text [^>]*>(.*?)</text>", svg)
    return "\n".join(unescape(re.sub(r"<[^>]+>", "", line)) for line in found)


def _painted(line: str) -> str:
    for pattern, colour in _COLOURS:
        found = pattern.search(line)
        if found:
            rest = line[found.end() :]
            return f'{found[1]}<tspan fill="{colour}">{escape(found[2])}</tspan>{escape(rest)}'
    return escape(line)


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as place:
            drawing = drawn(run_of_the_picture(file.name, Path(place)))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(drawing, encoding="utf-8")

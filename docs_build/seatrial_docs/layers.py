"""The picture of the layers in docs/how-it-works.md, drawn from the import rules in pyproject.toml.

python -m seatrial_docs.layers docs/images/layers.svg
"""

import ast
import sys
import tomllib
from html import escape
from pathlib import Path
from textwrap import wrap

from .blocks import ROOT

_WIDTH, _GAP, _LINE = 1080, 8, 14
_SOURCE = ROOT / "src"


def layers() -> list[list[str]]:
    """The layers from top to bottom, each with its packages and modules."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    found = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    return [layer.split(" | ") for layer in found]


def contents(name: str) -> str:
    """The first sentence of a package's docstring."""
    path = _SOURCE.joinpath(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    first = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    return " ".join(first.split())


def drawn() -> str:
    """The layers as an SVG: one row per layer, one box per package."""
    rows, top = [], _GAP
    for names in layers():
        row, height = _row(sorted(names), top)
        rows.append(row)
        top += height + _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" height="{top}" '
        'font-family="system-ui, sans-serif">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(rows) + "\n</svg>\n"
    )


def _row(names: list[str], top: int) -> tuple[str, int]:
    width = (_WIDTH - _GAP * (len(names) + 1)) / len(names)
    texts = [wrap(contents(name), int(width / 6.2), max_lines=4, placeholder=" …") for name in names]
    height = 32 + _LINE * max(map(len, texts))
    boxes = (
        _box(name, text, left=_GAP + number * (width + _GAP), top=top, width=width, height=height)
        for number, (name, text) in enumerate(zip(names, texts, strict=True))
    )
    return "\n".join(boxes), height


def _box(name: str, text: list[str], *, left: float, top: int, width: float, height: int) -> str:
    x = f"{left + 8:.0f}"
    small = "".join(
        f'<text x="{x}" y="{top + 36 + _LINE * number}" font-size="10.5" fill="#57606a">{escape(line)}</text>'
        for number, line in enumerate(text)
    )
    return (
        f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{height}" rx="6" fill="#f6f8fa" stroke="#d0d7de"/>'
        f'<text x="{x}" y="{top + 20}" font-size="14" font-weight="600" fill="#1f2328">{name.removeprefix("seatrial.")}'
        f"</text>{small}"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(drawn(), encoding="utf-8")

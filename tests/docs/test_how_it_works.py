"""docs/how-it-works.md: the picture shows the import rules, and the walk follows real imports."""

import ast
import re
from pathlib import Path

import pytest

from seatrial_docs.blocks import ROOT
from seatrial_docs.layers import drawn

PAGE = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "seatrial"
STEPS = re.findall(r"`([\w/]+\.py)` → `([\w/]+\.py)`", PAGE)
NAMES = re.findall(r"`(\w+)` \(`([\w/]+\.py)`\)", PAGE)


def imported_by(file: Path) -> set[str]:
    """The files of the package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            package = file.parents[node.level - 1] if node.level else ROOT / "src"
            module = package.joinpath(*(node.module or "").split("."))
            for path in (module, *(module / alias.name for alias in node.names)):
                if path.with_suffix(".py").is_file():
                    found.add(str(path.with_suffix(".py").relative_to(PACKAGE)))
                elif (path / "__init__.py").is_file():
                    found.add(str((path / "__init__.py").relative_to(PACKAGE)))
    return found


def test_the_picture_shows_the_import_rules() -> None:
    picture = ROOT / "docs" / "images" / "layers.svg"

    assert picture.read_text(encoding="utf-8") == drawn(), "out of date: make layers-picture"


def test_the_walk_has_steps_and_names() -> None:
    assert len(STEPS) >= 8
    assert len(NAMES) >= 8


@pytest.mark.parametrize(("importer", "imported"), STEPS)
def test_each_step_of_the_walk_is_an_import(importer: str, imported: str) -> None:
    assert imported in imported_by(PACKAGE / importer)


@pytest.mark.parametrize(("name", "file"), NAMES)
def test_each_name_on_the_page_is_defined_in_its_file(name: str, file: str) -> None:
    defined = {
        node.name
        for node in ast.walk(ast.parse((PACKAGE / file).read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }

    assert name in defined

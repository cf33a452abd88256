"""Statistics uses the standard library only, and nothing impure of it."""

import ast
from pathlib import Path

import pytest

from seatrial import statistics

FOLDER = Path(statistics.__file__).parent
PURE = {"ast", "bisect", "collections", "dataclasses", "functools", "hashlib", "importlib", "itertools", "math"} | {
    "operator",
    "seatrial",
    "typing",
}


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.stem)
def test_a_file_imports_only_what_is_pure(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= PURE
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module.split(".")[0] in PURE

"""The room as its neighbours meet it: names, start-up, purity."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial import statistics

ROOM = Path(statistics.__file__).parent
PURE = {"ast", "bisect", "collections", "dataclasses", "functools", "hashlib", "importlib", "itertools", "math"} | {
    "operator",
    "seatrial",
    "typing",
}


def test_every_public_name_can_be_fetched() -> None:
    assert statistics.__all__
    for name in statistics.__all__:
        assert getattr(statistics, name) is not None
        assert name in dir(statistics)


def test_checkers_see_exactly_the_names_that_can_be_fetched() -> None:
    tree = ast.parse((ROOM / "__init__.py").read_text())
    seen = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    assert seen == set(statistics.__all__)


def test_an_unknown_name_is_refused_like_any_module_would() -> None:
    with pytest.raises(AttributeError, match="no attribute 'wilsen'"):
        statistics.wilsen  # noqa: B018


def test_asking_for_an_interval_does_not_load_the_rest() -> None:
    code = (
        "import sys; from seatrial.statistics import wilson_interval; "
        "print(*(name for name in sys.modules if name.startswith(('seatrial.statistics.', 'random', 'hashlib'))))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    files = ("distributions", "intervals", "validation")
    assert sorted(loaded) == [f"seatrial.statistics.{file}" for file in files]


@pytest.mark.parametrize("file", sorted(ROOM.glob("*.py")), ids=lambda file: file.stem)
def test_a_file_imports_only_what_is_pure(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= PURE
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module.split(".")[0] in PURE

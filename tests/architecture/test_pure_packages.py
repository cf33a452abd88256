"""Pure packages import no third party except msgspec, and use no clock, disk, network or randomness."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent.parent / "src" / "seatrial"
PURE = ("model", "verdicts", "statistics", "evaluators", "comparison")
IMPURE = {"time", "random", "os", "socket", "pathlib", "secrets", "subprocess", "threading", "asyncio", "datetime"}
TYPES_ONLY = {"datetime"}
"""Importing types from here is allowed; reading the time is not."""
ALLOWED = {"msgspec"}


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """(module, whether it is imported at the top level) of each absolute import."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", id(node) in top


@pytest.mark.parametrize("package", PURE)
def test_a_pure_package_imports_no_third_party_except_msgspec(package: str) -> None:
    found = {
        module.partition(".")[0]
        for file in (SOURCES / package).rglob("*.py")
        for module, top in imports(file)
        if top and module.partition(".")[0] not in {*sys.stdlib_module_names, "seatrial"}
    }

    assert found <= ALLOWED


@pytest.mark.parametrize("package", PURE)
def test_a_pure_package_imports_no_module_with_side_effects(package: str) -> None:
    found = {
        (file.name, module)
        for file in (SOURCES / package).rglob("*.py")
        for module, _ in imports(file)
        if module.partition(".")[0] in IMPURE - TYPES_ONLY or module == "seatrial.clock"
    }

    assert found == set()


@pytest.mark.parametrize("package", PURE)
def test_a_pure_package_does_not_read_the_time(package: str) -> None:
    calls = [
        file.name
        for file in (SOURCES / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("now", "today")
    ]

    assert calls == []

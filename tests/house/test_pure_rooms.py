"""The pure rooms import nothing foreign but msgspec, and touch no clock, disk, network or randomness."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOMS = Path(__file__).parent.parent.parent / "src" / "seatrial"
PURE = ("model", "verdicts", "statistics", "evaluators", "comparison")
IMPURE = {"time", "random", "os", "socket", "pathlib", "secrets", "subprocess", "threading", "asyncio", "datetime"}
TYPES_ONLY = {"datetime"}
"""Names of types may come from here; reading the time may not."""
VALUES_ARE_MADE_BY = {"msgspec"}


def imports(file: Path) -> Iterator[tuple[str, bool]]:
    """(module, whether it is imported at the top level) of each absolute import."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or "", id(node) in top


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_imports_no_third_party_but_what_values_are_made_by(room: str) -> None:
    found = {
        module.partition(".")[0]
        for file in (ROOMS / room).rglob("*.py")
        for module, top in imports(file)
        if top and module.partition(".")[0] not in {*sys.stdlib_module_names, "seatrial"}
    }

    assert found <= VALUES_ARE_MADE_BY


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_touches_no_world(room: str) -> None:
    found = {
        (file.name, module)
        for file in (ROOMS / room).rglob("*.py")
        for module, _ in imports(file)
        if module.partition(".")[0] in IMPURE - TYPES_ONLY or module == "seatrial.clock"
    }

    assert found == set()


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_does_not_ask_what_time_it_is(room: str) -> None:
    asked = [
        file.name
        for file in (ROOMS / room).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("now", "today")
    ]

    assert asked == []

"""Files and functions are short, and files have names that say what they contain."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES = [file for file in sorted((ROOT / "src").rglob("*.py")) if file.stat().st_size]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
VAGUE_WORDS = {"utils", "helpers", "common", "manager", "handler", "misc", "base", "core"}


def lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def test_no_file_is_longer_than_800_lines() -> None:
    assert [name_of(file) for file in SOURCES if lines(file) > 800] == []


def test_no_test_file_is_longer_than_620_lines() -> None:
    assert [name_of(file) for file in TESTS if lines(file) > 620] == []


def test_no_function_is_longer_than_60_lines() -> None:
    long = [
        f"{name_of(file)}:{function.lineno} {function.name}"
        for file in SOURCES
        for function in functions(file)
        if (function.end_lineno or 0) - function.lineno + 1 > 60
    ]

    assert long == []


def test_half_of_the_functions_are_shorter_than_fifteen_lines() -> None:
    sizes = sorted((f.end_lineno or 0) - f.lineno + 1 for file in SOURCES for f in functions(file))

    assert sizes[len(sizes) // 2] < 15


def test_no_file_has_a_vague_name() -> None:
    assert [name_of(file) for file in SOURCES if VAGUE_WORDS & set(file.stem.split("_"))] == []


@pytest.mark.parametrize("file", sorted((ROOT / "src" / "seatrial").glob("*/**/__init__.py")), ids=name_of)
def test_a_package_says_what_it_contains_and_holds_only_imports(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))

    assert ast.get_docstring(tree)
    kinds = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.If, ast.AnnAssign)
    assert [type(node).__name__ for node in tree.body if not isinstance(node, kinds)] == []
    assert list(functions(file)) == []


def test_every_module_has_a_docstring() -> None:
    without = [name_of(file) for file in SOURCES if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))]

    assert without == []


def test_no_file_contains_a_path_of_a_developers_machine() -> None:
    places = [ROOT / "src", ROOT / "examples", ROOT / "docs", ROOT / "benchmarks"]
    texts = [file for place in places for file in place.rglob("*") if file.suffix in (".py", ".md", ".yaml", ".toml")]
    found = [name_of(file) for file in texts if any(w in file.read_text("utf-8") for w in ("/root/", "/home/"))]

    assert found == []

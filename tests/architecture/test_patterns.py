"""Only `seatrial.patterns` matches patterns from suites: it has a time limit."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parent.parent.parent / "src"
MATCHES = {"compile", "search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split"}
WITH_A_LIMIT = {"seatrial/patterns.py", "seatrial/pattern_worker.py"}
OF_ESCAPED_TEXTS = {"seatrial/engine/redact.py"}
"""Joins escaped texts with `|`."""


def calls_of_re(file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"re.{name}" for name in MATCHES}:
            yield node


def is_our_own(pattern: ast.expr) -> bool:
    """Whether the pattern is a constant in the code; its variable parts must be escaped."""
    if isinstance(pattern, ast.JoinedStr):
        return all(is_our_own(part) for part in pattern.values)
    if isinstance(pattern, ast.FormattedValue):
        return ast.unparse(pattern.value).startswith("re.escape(")
    if isinstance(pattern, ast.BinOp):
        return is_our_own(pattern.left) and is_our_own(pattern.right)
    return isinstance(pattern, ast.Constant)


def test_no_other_module_matches_a_pattern_that_is_not_its_own_constant() -> None:
    found = {
        file.relative_to(SOURCES).as_posix()
        for file in SOURCES.rglob("*.py")
        for call in calls_of_re(file)
        if not is_our_own(call.args[0])
    }

    assert found == WITH_A_LIMIT | OF_ESCAPED_TEXTS


def test_no_module_imports_single_functions_of_re() -> None:
    taken = [
        file.name
        for file in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "re" and {name.name for name in node.names} & MATCHES
    ]

    assert taken == []

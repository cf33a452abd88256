"""Whether a test asserts the verdicts of its runs, for the pytest plugin.

Reading a verdict is not an assertion: `if report.passed:` and `print(report.status)` fail no test. It is one if the
code that reads the verdict is part of an `assert` statement, or of a call of a unittest method such as
`self.assertTrue`.
"""

import ast
import linecache
import os
from functools import lru_cache
from itertools import islice
from types import FrameType
from typing import Any

unsettled: list[Any] = []
"""Reports that the current test has made."""


def in_a_test() -> bool:
    """Whether pytest runs the body of a test in this process."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").endswith("(call)")


def is_asserting(frame: FrameType) -> bool:
    """Whether the current code of the frame is part of an assertion. False if its source cannot be read."""
    code = frame.f_code
    line, _, column, _ = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if line is None:
        return False
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename, frame.f_globals))
    if column is None:  # Python runs without columns (-X no_debug_ranges)
        return any(start[0] <= line <= end[0] for start, end in _asserts(source))
    return any(start <= (line, column) < end for start, end in _asserts(source))


@lru_cache(maxsize=64)
def _asserts(source: str) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """Start and end of each assertion, as (line, column)."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(
        ((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0))
        for node in nodes
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and _is_of_unittest(node.func))
    )


def _is_of_unittest(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr.startswith("assert")

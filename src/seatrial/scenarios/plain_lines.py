"""Lines of JSONL that hold nothing but texts, read at once: large suites are generated, and most of their lines do.

`shape` says what a scenario may hold, and is asked for every other line, above all for those with a mistake. What is
read here must be what it would read.
"""

from typing import Any, Required, TypedDict

import msgspec


class _Plain(TypedDict, total=False):
    name: Required[str]
    input: Required[str]
    description: str
    expected_output: str
    expected_tools: tuple[str, ...]
    expected_tool_args: dict[str, dict[str, str | int | bool | None]]


_decode = msgspec.json.Decoder(_Plain).decode


def read_plain(line: object) -> dict[str, Any] | None:
    """The keys of the scenario in a line; None where another must look."""
    # A key may stand apart from its colon, or be a matcher.
    if not isinstance(line, str) or '" ' in line or '"\t' in line or '"\r' in line or '"$' in line:
        return None
    try:
        made: dict[str, Any] = _decode(line)  # type: ignore[assignment]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    arguments = made.get("expected_tool_args", {})
    # A key that is given twice or that nobody knows is written, but not read.
    if line.count('":') != len(made) + len(arguments) + sum(map(len, arguments.values())):
        return None
    if not (made["name"].strip() and made["input"].strip() and all(map(str.strip, made.get("expected_tools", ())))):
        return None
    return made

"""Lines of nothing but texts are read in a quicker way: to the same keys, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.scenarios import FileProblems, load
from seatrial.scenarios.json_files import parse
from seatrial.scenarios.plain_lines import read_plain
from seatrial.scenarios.problems import Complaints
from seatrial.scenarios.shape import SCENARIO

_TEXT = st.text(max_size=6) | st.sampled_from(["", " ", "$any", '":', '" ', "\x00", "a"])
_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1.0, -0.0, 2**70])
_SCALARS = st.one_of(_TEXT, _NUMBERS, st.booleans(), st.none())
_ARGUMENTS = st.dictionaries(_TEXT, _SCALARS | st.lists(_SCALARS, max_size=2), max_size=3)
_LINES = st.fixed_dictionaries(
    {"name": _TEXT, "input": _TEXT},
    optional={
        "description": _TEXT,
        "expected_output": _TEXT | _SCALARS,
        "expected_tools": st.lists(_TEXT, max_size=3) | _SCALARS,
        "expected_tool_args": st.dictionaries(_TEXT, _ARGUMENTS, max_size=2),
        "tags": st.lists(_TEXT, max_size=2),
        "inptu": _TEXT,
    },
)


def _read_with_care(line: str) -> dict[str, Any] | None:
    raw, twice = parse(line)
    complaints = Complaints()
    made = SCENARIO.read_keys(raw, (), complaints)
    return None if twice or complaints.found else made


@example({"name": "a", "input": "b", "expected_tool_args": {"t": {"n": 1.0}}})
@example({"name": "a", "input": "b", "expected_tool_args": {"t": {"n": True, "m": None, "o": 10**30}}})
@given(_LINES)
def test_what_is_read_quickly_is_what_the_shape_would_read(line: dict[str, Any]) -> None:
    for written in (json.dumps(line), json.dumps(line, separators=(",", ":")), json.dumps(line, ensure_ascii=False)):
        plain = read_plain(written)
        if plain is not None:
            read = _read_with_care(written)
            assert plain == read
            assert repr(sorted(plain.items())) == repr(sorted(read.items()))  # 1, 1.0 and True are equal


def test_a_line_of_texts_is_read_quickly():
    line = {"name": "a", "input": "b", "expected_tools": ["t"], "expected_tool_args": {"t": {"x": "y", "n": 3}}}
    assert read_plain(json.dumps(line)) == {**line, "expected_tools": ("t",)}


@pytest.mark.parametrize(
    "line",
    [
        '{"name": "a", "input": "b", "input": "c"}',
        '{"name": "a", "input": "b", "input" : "c"}',
        '{"name": "a", "input": "b", "input"\t: "c"}',
        '{"name": "a", "input": "b", "input"\r: "c"}',
        '{"name": "a", "input": "b", "expected_tool_args": {"t": {"x": 1, "x": 2}}}',
        '{"name": "a", "input": "b", "inptu": "c"}',
        '{"name": "a", "input": " "}',
        '{"name": "", "input": "b"}',
        '{"name": "a", "input": "b", "expected_tools": [" "]}',
        '{"name": "a", "input": 1}',
        '{"name": "a"}',
        '{"name": "a", "input": "b"',
        '["a"]',
    ],
)
def test_a_line_with_a_mistake_is_left_to_those_who_can_say_where(line: str, tmp_path: Path) -> None:
    assert read_plain(line) is None
    file = tmp_path / "suite.jsonl"
    file.write_text(f'{{"name": "first", "input": "x"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(FileProblems) as caught:
        load(file)
    assert {problem.line for problem in caught.value.problems} == {2}


@pytest.mark.parametrize("value", [{"$gt": 1}, [1], {"a": 1}, 1.5])
def test_arguments_that_are_no_texts_are_left_to_those_who_know_matchers(value: object) -> None:
    line = {"name": "a", "input": "b", "expected_tool_args": {"t": {"x": value}}}
    assert read_plain(json.dumps(line)) is None

"""Mistakes in `mocks:` and how they are said."""

from typing import Any

import pytest

from seatrial.tools.mock_checks import check_mocks, find_problems

ALL_FAULTS = "timeout, error, rate_limited, malformed, truncated, empty, slow"


@pytest.mark.parametrize(
    "spec",
    [
        {"returns": None},
        {"raises": "no"},
        {"sequence": [1, {"returns": {}}, {"raises": "x", "delay_ms": 1}]},
        {"when": [{"args": {"a": 1}, "returns": 1}]},
        {"when": [{"args": {"a": 1}, "sequence": [1, 2]}], "raises": "no such order"},
        {"python": "shop.mocks:lookup"},
        {"python": len},
        {"fault": "timeout", "delay_ms": 0.5},
        {"fault": "truncated", "returns": "some text"},
        {"fault": "empty"},
        {"fault": "empty", "returns": {"id": 1}},
        {"fault": "slow", "returns": None},
        print,
    ],
)
def test_what_a_mock_may_say_has_no_problem(spec: Any):
    assert check_mocks({"tool": spec}) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("x", "tool: expected a mapping such as tool: {returns: 'x'}, got 'x'"),
        (None, "tool: expected a mapping such as tool: {returns: None}, got None"),
        ({}, "tool: gives no answer; give one of returns, sequence, raises, python, fault or when"),
        ({"delay_ms": 5}, "tool: gives no answer; give one of returns, sequence, raises, python, fault or when"),
        ({"returns": 1, "raises": "x"}, "tool: gives returns and raises; only one of them can answer"),
        ({"returns": 1, "fault": "timeout"}, "tool: gives returns and fault; only one of them can answer"),
        ({"raises": ""}, "tool.raises: expected the text of the tool's error, got ''"),
        ({"raises": 5}, "tool.raises: expected the text of the tool's error, got 5"),
        ({"python": "shop.mocks"}, "tool.python: expected a function as pkg.mod:name, got 'shop.mocks'"),
        (
            {"fault": "crash"},
            "tool.fault: expected one of timeout, error, rate_limited, malformed, truncated, empty, slow, got 'crash'",
        ),
        (
            {"fault": []},
            "tool.fault: expected one of timeout, error, rate_limited, malformed, truncated, empty, slow, got []",
        ),
        ({"returns": 1, "delay_ms": True}, "tool.delay_ms: expected milliseconds, 0 or more, got True"),
        ({"returns": 1, "delay_ms": float("nan")}, "tool.delay_ms: expected milliseconds, 0 or more, got nan"),
        ({"sequence": []}, "tool.sequence: expected a list of answers, got []"),
        ({"sequence": {"returns": 1}}, "tool.sequence: expected a list of answers, got {'returns': 1}"),
        (
            {"sequence": [{"sequence": [1]}]},
            "tool.sequence[0].sequence: a 'sequence' cannot stand directly inside another",
        ),
        ({"when": []}, "tool.when: expected a list of {args, returns} entries, got []"),
        ({"when": [5]}, "tool.when[0]: expected a mapping such as {args, returns}, got 5"),
        (
            {"when": [{"args": {}, "returns": 1}]},
            "tool.when[0].args: expected the arguments to look for, got {}; an answer to any call stands beside when",
        ),
        ({"fault": "slow"}, "tool.fault: 'slow' needs 'returns' beside it, with the result that comes late"),
        ({"fault": "error", "returns": 1}, "tool: gives returns and fault; only one of them can answer"),
        (
            {"fault": "truncated"},
            "tool.fault: 'truncated' needs 'returns' beside it, with a mapping, a list or a text to cut",
        ),
        (
            {"fault": "truncated", "returns": 12345},
            "tool.fault: 'truncated' needs 'returns' beside it, with a mapping, a list or a text to cut",
        ),
    ],
)
def test_a_mistake_is_said_with_its_place(spec: Any, problem: str):
    assert check_mocks({"tool": spec}) == [problem]


def test_a_result_given_without_returns_is_told_where_it_belongs():
    problems = check_mocks({"book": {"sequence": [{"id": "BK-1"}]}})
    assert problems[0].startswith("book.sequence[0].id: unknown key 'id'. Known: ")
    assert problems[0].endswith("A result that is a mapping stands under 'returns'")


def test_mocks_that_are_no_mapping_are_a_problem():
    assert check_mocks(["search"]) == ["mocks: expected a mapping such as {lookup_order: {returns: …}}, got ['search']"]


def test_a_blank_tool_name_is_a_problem():
    assert len(check_mocks({" ": {"returns": 1}})) == 1


def test_paths_can_be_placed_in_a_file():
    [problem] = find_problems({"book": {"sequence": [1, {"raises": ""}]}})
    assert problem.path == ("book", "sequence", 1, "raises")


def test_expected_arguments_are_checked_by_the_rules_they_follow():
    specs = {"book": {"when": [{"args": {"id": {"$gtt": 1}}, "returns": 1}]}}
    assert check_mocks(specs, check_args=lambda value: [f"bad {value}"]) == [
        "book.when[0].args: bad {'id': {'$gtt': 1}}"
    ]

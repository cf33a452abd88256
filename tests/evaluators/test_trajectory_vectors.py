"""The trajectory cases that every build must satisfy."""

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.evaluators.trajectory import Trajectory, compare_calls
from seatrial.model.conversation import ToolCall

VECTORS = Path(__file__).parent.parent / "vectors"


def cases(file: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in json.loads((VECTORS / file).read_text("utf-8"))]


def entries(case: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return [
        {("arg_match" if name == "argMatchMode" else name): value for name, value in entry.items()}
        for entry in case.get(key, ())
    ]


def matched(case: dict[str, Any]) -> Any:
    built = Trajectory(mode=case["mode"], expected=entries(case, "expected"), forbidden=entries(case, "forbidden"))
    return compare_calls(built, [ToolCall(call["name"], call["args"]) for call in case["actual"]]).match


@pytest.mark.parametrize("case", [*cases("trajectory.json"), *cases("trajectory_fuzz.json")])
def test_the_match_is_what_the_vector_says(case: dict[str, Any]) -> None:
    found, wanted = matched(case), case["result"]

    assert found.matched == wanted["matched"]
    assert bool(found.ordering_issues) == bool(wanted["ordering"])
    assert list(found.forbidden_calls) == wanted["forbidden"]
    if "missing" in wanted:
        assert list(found.missing_calls) == wanted["missing"]
        assert list(found.extra_calls) == wanted["extra"]
    else:
        assert len(found.missing_calls) == wanted["missing_count"]
        assert len(found.extra_calls) == wanted["extra_count"]


@pytest.mark.parametrize("case", cases("trajectory_extended.json"))
def test_counts_alternatives_and_matchers_are_what_the_vector_says(case: dict[str, Any]) -> None:
    assert matched(case).matched == case["matched"]

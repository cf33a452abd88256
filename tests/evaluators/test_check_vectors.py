"""The cases of checks.json that an evaluator alone decides; agents that raise, judges and transcripts are others'."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial.errors import UsageError
from seatrial.evaluators.registry import build_evaluator
from seatrial.model.conversation import ToolCall
from seatrial.model.protocols import TurnContext
from seatrial.model.results import EvalResult
from seatrial.model.scenario import Scenario

VECTORS = Path(__file__).parent.parent / "vectors"
CLASSES = ("ContainsEvaluator", "ToolCallEvaluator", "ToolCallArgsEvaluator")
SCORERS = ("passfail", "exact", "regex", "nope")


def decided_by_an_evaluator(case: dict[str, Any]) -> bool:
    result = case["agent_result"]
    return (
        case["scorer"] in (*CLASSES, *SCORERS)
        and "raises" not in result
        and "sleep" not in result
        and not isinstance(result.get("output"), int)
    )


CASES = [
    pytest.param(case, id=case["id"])
    for case in json.loads((VECTORS / "checks.json").read_text("utf-8"))
    if decided_by_an_evaluator(case)
]


def result_of(case: dict[str, Any]) -> EvalResult:
    made = case["agent_result"]
    scenario = None
    if case["scorer"] in CLASSES:
        built = getattr(seatrial, case["scorer"])(**case["scenario"])
    else:
        scenario = Scenario(**case["scenario"])
        built = build_evaluator(case["scorer"], scenario=scenario)
    calls = [ToolCall(call["name"], call["arguments"]) for call in made["tool_calls"]]
    ctx = TurnContext(reply=made["output"], tool_calls=calls, scenario=scenario)
    return asyncio.run(built.evaluate(ctx))


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_what_the_vector_says(case: dict[str, Any]) -> None:
    wanted = case["expect"]
    if wanted.get("config_error"):
        with pytest.raises(UsageError):
            result_of(case)
        return

    result = result_of(case)

    assert result.passed == wanted["passed"]
    assert result.error is None
    if "score" in wanted:
        assert result.score == wanted["score"]
    failed = [check.name for check in result.checks if not check.passed]
    assert failed[:1] == ([wanted["failing_check"]] if "failing_check" in wanted else [])
    if "failing_checks" in wanted:
        assert failed == wanted["failing_checks"]


def test_most_of_the_file_is_decided_by_evaluators() -> None:
    assert len(CASES) > 60

import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.evaluators.tool_calls import ToolArgs, ToolCalls
from seatrial.model.conversation import ErrorKind, ToolCall
from seatrial.model.protocols import Evaluator, TurnContext
from seatrial.model.results import EvalResult


def judged(evaluator: Evaluator, calls: list[ToolCall] | None) -> EvalResult:
    return asyncio.run(evaluator.evaluate(TurnContext(reply="ok", tool_calls=calls)))


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(name) for name in names]


def test_failures_accumulate_in_the_words_of_the_document() -> None:
    result = judged(ToolCalls(must_include=["book", "mail"], must_exclude=["drop"]), calls("look", "drop"))

    assert result.reasoning == (
        "Expected tool 'book' not in ['look', 'drop']\n"
        "Expected tool 'mail' not in ['look', 'drop']\n"
        "Forbidden tool 'drop' was called"
    )


def test_a_wrong_order_prints_both_lists() -> None:
    result = judged(ToolCalls(must_include=("a", "b"), ordered=True), calls("b", "a"))

    assert result.reasoning == "Tools ['a', 'b'] not called in order in ['b', 'a']"


def test_passing_tool_calls_say_so() -> None:
    result = judged(ToolCalls(must_include=["a"], must_exclude=["b"]), calls("a"))

    assert result.passed
    assert result.reasoning == "All tool call checks passed"


@pytest.mark.parametrize(
    "evaluator",
    [
        ToolCalls(must_include=["a"]),
        ToolCalls(must_exclude=["a"]),
        ToolArgs("a", {}),
    ],
)
def test_without_recorded_calls_there_is_no_answer_above_all_for_must_not_call(evaluator: Evaluator) -> None:
    result = judged(evaluator, None)

    assert not result.passed
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONFIG
    assert "ctx.call_tool" in (result.error.hint or "")


def test_without_criteria_no_evidence_is_needed() -> None:
    assert judged(ToolCalls(), None).passed


MIXED = [ToolCall("a", {"x": 1}), ToolCall("a", {"x": 2})]


@pytest.mark.parametrize(
    ("which", "wanted", "passed"),
    [("any", 2, True), ("any", 3, False), ("first", 1, True), ("first", 2, False), ("all", 1, False)],
)
def test_calls_says_which_calls_must_match(which: Any, wanted: int, passed: bool) -> None:
    assert judged(ToolArgs("a", {"x": wanted}, calls=which), MIXED).passed == passed


def test_all_calls_pass_when_each_matches() -> None:
    assert judged(ToolArgs("a", {"x": {"$gte": 1}}, calls="all"), MIXED).passed


def test_a_mismatch_names_the_argument_and_a_call_that_never_came_the_others() -> None:
    mismatch = judged(ToolArgs("a", {"x": 1}, mode="exact"), [ToolCall("a", {"x": 1, "y": 2})])
    never = judged(ToolArgs("a", {"x": 1}), calls("b"))

    assert mismatch.reasoning == "Tool 'a' was not called with {'x': 1} (exact): y: not expected, got 2"
    assert never.reasoning == "Tool 'a' was never called; called: ['b']"


def test_malformed_arguments_fail_and_unrecorded_ones_have_no_answer() -> None:
    malformed = judged(ToolArgs("a", {"x": 1}), [ToolCall("a", '{"x": 1}')])
    unrecorded = judged(ToolArgs("a", {"x": 1}), calls("a"))

    assert malformed.error is None
    assert unrecorded.error is not None
    assert [check.name for check in (*malformed.checks, *unrecorded.checks)] == ["args_not_captured"] * 2


def test_one_unrecorded_call_is_too_many_where_all_must_match() -> None:
    some = [ToolCall("a", {"x": 1}), ToolCall("a")]

    assert judged(ToolArgs("a", {"x": 1}), some).passed
    assert judged(ToolArgs("a", {"x": 1}, calls="all"), some).error is not None


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: ToolCalls(must_include="a"), r"tool_calls\.must_include: expected a list of strings"),
        (lambda: ToolArgs("a", {}, mode="fuzzy"), r"tool_calls_args\.mode: unknown value 'fuzzy'"),
        (lambda: ToolArgs("a", {}, calls="alll"), r"Did you mean 'all'\?"),
        (lambda: ToolArgs("a", None), r"tool_calls_args: nothing is asserted of the arguments"),
        (
            lambda: ToolArgs("a", {"x": {"$regx": 1}}),
            r"args\.x\.\$regx: unknown matcher '\$regx'\. Did you",
        ),
        (lambda: ToolArgs("a", {"$any": True}), r"a matcher is for one argument"),
    ],
)
def test_a_wrong_argument_is_refused_when_the_evaluator_is_built(build: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        build()

import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.evaluators.limits import Limits
from seatrial.model.conversation import ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript, Usage
from seatrial.model.protocols import TrialContext, TurnContext
from seatrial.model.results import EvalResult


def a_turn(**given: Any) -> PlayedTurn:
    return PlayedTurn(**{"index": 0, "user": "u", "reply": "r", "tool_calls": None, **given})


def judged(limits: Limits, *turns: PlayedTurn) -> EvalResult:
    transcript = Transcript(turns=turns, stop_reason=StopReason.SCRIPT_ENDED)
    return asyncio.run(limits.evaluate(TrialContext(transcript=transcript)))


KNOWN = {
    "latency_ms": 100.0,
    "cost_usd": 0.02,
    "usage": Usage(input_tokens=10, output_tokens=5),
    "tool_calls": (ToolCall("a"), ToolCall("b")),
}


@pytest.mark.parametrize(
    ("limit", "enough", "too_little"),
    [
        ("latency_ms", 100, 99),
        ("cost_usd", 0.04, 0.039),
        ("tokens", 30, 29),
        ("tool_calls", 4, 3),
        ("turns", 2, 1),
    ],
)
def test_a_trial_may_take_as_much_as_the_limit_and_no_more(limit: str, enough: float, too_little: float) -> None:
    assert judged(Limits(**{limit: enough}), a_turn(**KNOWN), a_turn(**KNOWN)).passed  # type: ignore[arg-type]

    over = judged(Limits(**{limit: too_little}), a_turn(**KNOWN), a_turn(**KNOWN))  # type: ignore[arg-type]

    assert not over.passed
    assert over.error is None
    assert [check.name for check in over.checks if not check.passed] == [limit]


def test_a_limit_that_was_passed_says_by_what() -> None:
    result = judged(Limits(latency_ms=8000, turns=5), a_turn(latency_ms=9000.0))

    assert result.reasoning == "Over the limit: latency_ms: 9000 (limit: 8000)"


@pytest.mark.parametrize(
    ("limit", "unknown"),
    [
        ("cost_usd", {"cost_usd": None}),
        ("tokens", {"usage": None}),
        ("tokens", {"usage": Usage(input_tokens=1)}),
        ("tool_calls", {"tool_calls": None}),
    ],
)
def test_what_one_turn_does_not_say_is_unknown_and_not_free(limit: str, unknown: dict[str, Any]) -> None:
    result = judged(Limits(**{limit: 1000}), a_turn(**KNOWN), a_turn(**{**KNOWN, **unknown}))  # type: ignore[arg-type]

    assert not result.passed
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONFIG
    assert limit in result.error.message
    assert "AgentResult" in (result.error.hint or "")


def test_a_limit_already_passed_by_what_is_known_is_failed() -> None:
    result = judged(Limits(cost_usd=0.01), a_turn(**KNOWN), a_turn())

    assert not result.passed
    assert result.error is None


def test_a_cost_that_is_not_a_number_is_over_every_limit() -> None:
    assert not judged(Limits(cost_usd=1), a_turn(cost_usd=float("nan"))).passed


def test_a_turn_alone_has_no_answer() -> None:
    assert asyncio.run(Limits(turns=1).evaluate(TurnContext())).error is not None
    assert judged(Limits(turns=1)).error is not None


@pytest.mark.parametrize("limit", [-1, True, "5", float("nan")])
def test_a_limit_that_is_no_amount_is_refused(limit: Any) -> None:
    with pytest.raises(UsageError, match=r"limits\.tokens: expected a number that is not negative"):
        Limits(tokens=limit)

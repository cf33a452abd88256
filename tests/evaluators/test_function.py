import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.evaluators.registry import evaluator
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import Evaluator, TurnContext
from seatrial.model.results import EvalResult


def judged(returned: Any, **options: Any) -> EvalResult:
    return asyncio.run(evaluator(**options)(lambda ctx: returned).evaluate(TurnContext(reply="hi")))


def test_a_marked_function_is_an_evaluator_with_its_name() -> None:
    @evaluator
    def polite(ctx: Any) -> bool:
        return "please" in ctx.reply

    assert isinstance(polite, Evaluator)
    assert polite.name == polite.__name__ == "polite"
    assert polite(TurnContext(reply="please")) is True
    assert asyncio.run(polite.evaluate(TurnContext(reply="please"))).passed
    assert not asyncio.run(polite.evaluate(TurnContext(reply="now"))).passed


def test_a_function_may_be_async() -> None:
    @evaluator
    async def slow(ctx: Any) -> tuple[bool, str]:
        await asyncio.sleep(0)
        return False, "too slow"

    result = asyncio.run(slow.evaluate(TurnContext()))

    assert not result.passed
    assert result.reasoning == "too slow"


def test_a_number_is_the_score_and_passes_from_the_threshold_upwards() -> None:
    assert judged(0.5).passed
    assert judged(0.5).score == 0.5
    assert not judged(0.49).passed
    assert not judged(0.79, threshold=0.8).passed
    assert judged(1).score == 1.0
    assert judged((0.9, "good")).reasoning == "good"


def test_a_result_is_taken_as_it_is() -> None:
    result = EvalResult(passed=False, reasoning="no")

    assert judged(result) is result


@pytest.mark.parametrize(
    "returned", [None, "yes", 2, -0.1, float("nan"), (True,), (None, "x"), (True, 5), {"passed": True}]
)
def test_anything_else_is_an_error_of_the_evaluator(returned: Any) -> None:
    result = judged(returned, name="odd")

    assert not result.passed
    assert result.error is not None
    assert result.error.kind is ErrorKind.EVALUATOR
    assert result.error.message.startswith("evaluator 'odd' returned ")


def test_what_the_function_raises_is_not_swallowed() -> None:
    @evaluator
    def broken(ctx: Any) -> bool:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(broken.evaluate(TurnContext()))


def test_a_threshold_outside_the_scale_is_refused() -> None:
    with pytest.raises(UsageError, match="threshold must be between 0 and 1, got 2"):
        evaluator(threshold=2)

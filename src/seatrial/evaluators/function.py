"""A function of the user's as an evaluator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.results import EvalResult

from .matchers import shown

_MAY_RETURN = "Return a bool, a number from 0 to 1, (passed, reason) or an EvalResult."


@dataclass(frozen=True, slots=True)
class FunctionEvaluator:
    """A function that was marked with `@evaluator`. It can still be called as the function it is."""

    function: Callable[[Any], Any]
    name: str
    threshold: float

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __wrapped__(self) -> Callable[[Any], Any]:
        """The function itself, where tools such as inspect look for it."""
        return self.function

    def __call__(self, ctx: Any) -> Any:
        return self.function(ctx)

    async def evaluate(self, ctx: Any) -> EvalResult:
        returned = self.function(ctx)
        if hasattr(returned, "__await__"):
            returned = await returned
        return self.read_result(returned)

    def read_result(self, returned: Any) -> EvalResult:
        """What the function returned, as a result."""
        if isinstance(returned, EvalResult):
            return returned
        verdict, reason = returned, ""
        if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[1], str):
            verdict, reason = returned
        if isinstance(verdict, bool):
            return EvalResult(passed=verdict, reasoning=reason or f"{self.name} returned {verdict}")
        if isinstance(verdict, (int, float)) and 0 <= verdict <= 1:
            reasoning = reason or f"{self.name} returned {verdict} (threshold: {self.threshold})"
            return EvalResult(passed=verdict >= self.threshold, reasoning=reasoning, score=float(verdict))
        message = f"evaluator {self.name!r} returned {shown(returned)}"
        error = ErrorInfo(kind=ErrorKind.EVALUATOR, message=message, hint=_MAY_RETURN)
        return EvalResult(passed=False, reasoning=f"{message}. {_MAY_RETURN}", error=error)


@overload
def evaluator(function: Callable[[Any], Any], /) -> FunctionEvaluator: ...


@overload
def evaluator(
    *, name: str | None = None, threshold: float = 0.5
) -> Callable[[Callable[[Any], Any]], FunctionEvaluator]: ...


def evaluator(
    function: Callable[[Any], Any] | None = None, /, *, name: str | None = None, threshold: float = 0.5
) -> FunctionEvaluator | Callable[[Callable[[Any], Any]], FunctionEvaluator]:
    """The function as an evaluator. It takes ctx, may be async, and returns a bool, a number, (passed, reason) or more.

    A number from 0 to 1 is the score, and passes from `threshold` upwards.
    """
    if not 0 <= threshold <= 1:
        raise UsageError(f"@evaluator: threshold must be between 0 and 1, got {threshold!r}.")

    def mark(marked: Callable[[Any], Any]) -> FunctionEvaluator:
        return FunctionEvaluator(marked, name or str(getattr(marked, "__name__", type(marked).__name__)), threshold)

    return mark if function is None else mark(function)

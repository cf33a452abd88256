"""The evaluator of the mocks' state at the end of a trial."""

from collections.abc import Mapping
from typing import Any, ClassVar

from seatrial.errors import UsageError
from seatrial.model.protocols import Context, TrialContext
from seatrial.model.results import Check, EvalResult

from .built_in import BuiltInEvaluator, check_expected, no_answer
from .matchers import differences, shown
from .redacted_evidence import matches_surely, secret_in_state


class State(BuiltInEvaluator, frozen=True):
    """Passes when the mocks' state includes the expected values. It may contain more, at any depth."""

    expected: Mapping[str, Any]

    name: ClassVar[str] = "state"

    def __post_init__(self) -> None:
        if not isinstance(self.expected, Mapping):
            raise UsageError(f"expected_state: expected a mapping, got {shown(self.expected)}.")
        problems = check_expected(self.expected)
        if problems:
            raise UsageError("\n".join(f"expected_state.{problem}" for problem in problems))

    async def evaluate(self, ctx: Context) -> EvalResult:
        state = ctx.transcript.state if isinstance(ctx, TrialContext) else None
        found = list(differences(self.expected, state or {}))
        if state is None:
            if found and _could_be_written(ctx):
                return _differs(f"{'; '.join(found)} (nothing was written to ctx.state)")
            hint = "Give the scenario mocks that keep their results in ctx.state, and expect it of the whole trial."
            return no_answer(
                "expected_state: nothing was written to ctx.state, so there is no state to look at", hint=hint
            )
        if not found and matches_surely({"$subset": self.expected}, state) is None:
            return secret_in_state(ctx)
        if not found:
            return EvalResult(passed=True, reasoning="State includes what was expected")
        return _differs("; ".join(found))


def _differs(detail: str) -> EvalResult:
    check = Check(name="state", passed=False, detail=detail)
    return EvalResult(passed=False, reasoning=f"State differs: {detail}", checks=(check,))


def _could_be_written(ctx: Context) -> bool:
    """Whether the agent could call the mocks that write the state, or its calls are known and there are mocks."""
    if not isinstance(ctx, TrialContext):
        return False
    has_mocks = ctx.scenario is not None and bool(ctx.scenario.mocks)
    return bool(ctx.reachable_tools) or (has_mocks and ctx.tool_calls is not None)

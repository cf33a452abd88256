"""The evaluator of limits on the time, cost, tokens, calls and turns of a trial."""

from collections.abc import Callable, Iterable
from typing import Annotated, ClassVar

from msgspec import Meta

from seatrial.errors import UsageError
from seatrial.model.conversation import Transcript
from seatrial.model.keys import Key
from seatrial.model.protocols import RECORD_CALLS, Context, TrialContext
from seatrial.model.results import Check, EvalResult
from seatrial.model.scenario import Amount, Count

from .built_in import BuiltInEvaluator, no_answer
from .matchers import shown

_Taken = tuple[float, bool]
"""The known amount, and whether it is complete."""


class Limits(BuiltInEvaluator, frozen=True, kw_only=True):
    """Passes when a whole trial stays within every limit. A limit on an unknown amount is errored."""

    latency_ms: Annotated[Amount | None, Key("the greatest latency of a turn, in milliseconds")] = None
    cost_usd: Annotated[Annotated[float, Meta(ge=0)] | None, Key("the greatest cost of the agent, in US dollars")] = (
        None
    )
    tokens: Annotated[Annotated[int, Meta(ge=0)] | None, Key("the greatest number of tokens of the agent")] = None
    tool_calls: Annotated[Annotated[int, Meta(ge=0)] | None, Key("the greatest number of tool calls")] = None
    turns: Annotated[Count | None, Key("the greatest number of turns")] = None

    name: ClassVar[str] = "limits"
    needs_one_of: ClassVar[tuple[str, ...]] = ("latency_ms", "cost_usd", "tokens", "tool_calls", "turns")

    def __post_init__(self) -> None:
        for name in self.needs_one_of:
            limit = getattr(self, name)
            if limit is None:
                continue
            if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit >= 0:
                raise UsageError(f"limits.{name}: expected a number that is not negative, got {shown(limit)}.")

    async def evaluate(self, ctx: Context) -> EvalResult:
        if not isinstance(ctx, TrialContext) or not ctx.transcript.turns:
            return no_answer("limits: there is no finished trial to measure", hint="Use limits on a whole trial.")
        checks: list[Check] = []
        unknown: list[str] = []
        for field, measure in _MEASURES.items():
            limit = getattr(self, field)
            if limit is None:
                continue
            taken, complete = measure(ctx.transcript)
            # Not `taken > limit`, which is false for NaN.
            within = taken <= limit
            detail = f"{field}: {_number(taken)} (limit: {_number(limit)})"
            if within and not complete:
                unknown.append(field)
            else:
                checks.append(Check(name=field, passed=within, detail=detail))
        return _result(tuple(checks), unknown)


def _result(checks: tuple[Check, ...], unknown: list[str]) -> EvalResult:
    over = [check.detail for check in checks if not check.passed]
    if over:
        return EvalResult(passed=False, reasoning="Over the limit: " + "; ".join(over), checks=checks)
    if unknown:
        message = f"limits: {', '.join(unknown)} of the trial is not known"
        return no_answer(message, hint=" ".join(_REMEDIES[field] for field in unknown), checks=checks)
    return EvalResult(passed=True, reasoning="Within the limits: " + "; ".join(c.detail for c in checks), checks=checks)


def _number(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _sum_known(parts: Iterable[float | None]) -> _Taken:
    all_parts = list(parts)
    known = [part for part in all_parts if part is not None]
    return sum(known), len(known) == len(all_parts)


def _tokens(transcript: Transcript) -> _Taken:
    counts: list[int | None] = []
    for turn in transcript.turns:
        counts += [turn.usage.input_tokens, turn.usage.output_tokens] if turn.usage is not None else [None]
    return _sum_known(counts)


_MEASURES: dict[str, Callable[[Transcript], _Taken]] = {
    "latency_ms": lambda transcript: (max(turn.latency_ms for turn in transcript.turns), True),
    "cost_usd": lambda transcript: _sum_known(turn.cost_usd for turn in transcript.turns),
    "tokens": _tokens,
    "tool_calls": lambda transcript: (len(transcript.seen_calls), transcript.calls_complete),
    "turns": lambda transcript: (len(transcript.turns), True),
}

_REMEDIES = {
    "cost_usd": "Return AgentResult(output, cost_usd=...) from the agent.",
    "tokens": "Return AgentResult(output, usage=Usage(input_tokens=..., output_tokens=...)) from the agent.",
    "tool_calls": RECORD_CALLS,
}
"""How to record an amount that is unknown."""

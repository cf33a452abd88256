"""Does this follow the rubric? The judge's yes or no about a turn, a trial, or the arguments of a tool."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from seatrial.errors import UsageError
from seatrial.llm.client import LLM
from seatrial.model.conversation import ErrorInfo, ErrorKind, ToolCall
from seatrial.model.protocols import MAY_BE_MORE, NOT_RECORDED, RECORD_CALLS, Context, TrialContext
from seatrial.model.results import EvalResult

from .prompts import conversation_message, record_of, rubric_system
from .voting import Model, Panel

_RECORD_ARGUMENTS = "Record them: give each ToolCall its arguments as a mapping, or call tools through ctx.call_tool."


@dataclass(frozen=True, slots=True)
class JudgeEvaluator(Panel):
    """Passes when a model finds that the turn, or the whole trial, follows the rubric."""

    rubric: str
    model: Model = None
    retries: int = 2
    timeout: float = 30.0
    _: KW_ONLY
    votes: int = 1
    llm: LLM | None = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "judge"

    def __post_init__(self) -> None:
        self.check()
        _check_text("judge.rubric", self.rubric)

    async def evaluate(self, ctx: Context) -> EvalResult:
        if isinstance(ctx, TrialContext) and not ctx.transcript.turns:
            error = ErrorInfo(kind=ErrorKind.JUDGE, message="there is no turn to judge")
            return EvalResult(passed=False, reasoning=error.message, error=error)
        what = "the whole conversation" if isinstance(ctx, TrialContext) else "the agent's part in the last turn"
        return await self.ask(
            system=rubric_system(self.rubric, what=what), message=conversation_message(record_of(ctx), ctx.scenario)
        )


@dataclass(frozen=True, slots=True)
class ToolArgsJudge(Panel):
    """Passes when a model finds that the arguments of some call of the tool follow the rubric."""

    tool: str
    rubric: str
    model: Model = None
    retries: int = 2
    timeout: float = 30.0
    _: KW_ONLY
    votes: int = 1
    llm: LLM | None = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "tool_calls_args"

    def __post_init__(self) -> None:
        self.check()
        _check_text("tool_calls_args.tool", self.tool)
        _check_text("tool_calls_args.judge.rubric", self.rubric)

    async def evaluate(self, ctx: Context) -> EvalResult:
        calls = [call for call in ctx.seen_calls if call.name == self.tool]
        if not calls and not ctx.knows_all_calls and self.tool not in ctx.reachable_tools:
            message = NOT_RECORDED if ctx.tool_calls is None else MAY_BE_MORE
            return _not_recorded(f"tool_calls_args for {self.tool!r}: {message}", RECORD_CALLS)
        if not calls:
            return EvalResult(passed=False, reasoning=f"Tool {self.tool!r} was never called")
        if all(call.args is None for call in calls):
            return self._without_arguments(calls)
        what = f"nothing but the arguments of the calls of the tool {self.tool!r}; one call that follows it is enough"
        return await self.ask(
            system=rubric_system(self.rubric, what=what), message=conversation_message(record_of(ctx), ctx.scenario)
        )

    def _without_arguments(self, calls: Sequence[ToolCall]) -> EvalResult:
        """Arguments that came malformed speak against the agent; arguments that nobody recorded against nobody."""
        detail = f"Tool {self.tool!r} was called, but its arguments were not captured"
        malformed = [call.arguments for call in calls if call.arguments is not None]
        if malformed:
            return EvalResult(passed=False, reasoning=f"{detail}: expected a mapping, got {malformed[0]!r}")
        return _not_recorded(detail, _RECORD_ARGUMENTS)


def _not_recorded(message: str, hint: str) -> EvalResult:
    error = ErrorInfo(kind=ErrorKind.CONFIG, message=message, hint=hint)
    return EvalResult(passed=False, reasoning=f"{message}. {hint}", error=error)


def _check_text(where: str, text: str) -> None:
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{where}: expected a text that says what to look for, got {text!r}.")

"""The answer of an evaluator that was not shown what it must judge: an error in the set-up, never a verdict."""

from seatrial.model.conversation import ErrorInfo, ErrorKind, ToolCall
from seatrial.model.protocols import MAY_BE_MORE, NOT_RECORDED, RECORD_CALLS, Context
from seatrial.model.results import Check, EvalResult

from .matchers import shown

RECORD_ARGUMENTS = (
    "Record them: return AgentResult(output, tool_calls=[ToolCall(name, arguments), ...]) with the arguments as a "
    "mapping, or call tools through ctx.call_tool."
)


def no_answer(message: str, *, hint: str, checks: tuple[Check, ...] = ()) -> EvalResult:
    """A result that says why there is no answer, and what to change."""
    error = ErrorInfo(kind=ErrorKind.CONFIG, message=message, hint=hint)
    return EvalResult(passed=False, reasoning=f"{message}. {hint}", checks=checks, error=error)


def malformed_call(call: ToolCall) -> EvalResult:
    """The result where a rule about arguments meets a call whose arguments are no mapping: the agent's failure."""
    detail = f"Tool {call.name!r} was called with malformed arguments: expected a mapping, got {shown(call.arguments)}"
    return EvalResult(
        passed=False, reasoning=detail, checks=(Check(name="malformed_call", passed=False, detail=detail),)
    )


def is_surely_absent(tool: str, ctx: Context) -> bool:
    """Whether a call of the tool that is not among those seen was not made: all are known, or it is one of ours."""
    return ctx.knows_all_calls or tool in ctx.reachable_tools


def calls_not_known(what: str, ctx: Context, *, checks: tuple[Check, ...] = ()) -> EvalResult:
    """The result where an expectation about tools depends on calls that nobody recorded."""
    message = NOT_RECORDED if ctx.tool_calls is None else MAY_BE_MORE
    return no_answer(f"{what}: {message}", hint=RECORD_CALLS, checks=checks)


def arguments_not_recorded(what: str, *, tool: str, checks: tuple[Check, ...] = ()) -> EvalResult:
    """The result where an expectation about arguments meets a call whose arguments were not recorded."""
    message = f"{what}: the arguments of {tool!r} were not recorded"
    return no_answer(message, hint=RECORD_ARGUMENTS, checks=checks)

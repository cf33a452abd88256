"""What all evaluators share: the base class, and the results for a failure or for missing evidence."""

from collections.abc import Mapping
from typing import ClassVar

from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.protocols import MAY_BE_MORE, NOT_RECORDED, RECORD_CALLS, Context
from seatrial.model.results import Check, EvalResult
from seatrial.model.struct import InputStruct

RECORD_ARGUMENTS = (
    "Record them: return AgentResult(output, tool_calls=[ToolCall(name, arguments), ...]) with the arguments as a "
    "mapping, or call tools through ctx.call_tool."
)


class BuiltInEvaluator(InputStruct, frozen=True):
    """An evaluator of Seatrial: its fields are its arguments in files and in Python."""

    name: ClassVar[str]
    needs_one_of: ClassVar[tuple[str, ...]] = ()
    """Fields of which a file must give at least one: without any, the evaluator passes every reply."""
    searches_texts: ClassVar[bool] = False
    """Its texts are searched for. A file must not give an empty one, which is found everywhere."""
    from_scenario: ClassVar[Mapping[str, str]] = {}
    """Fields that are taken from keys of the scenario: field -> key."""
    from_metadata: ClassVar[Mapping[str, str]] = {}
    """Fields that AgenticAssure's files give under `metadata`: field -> key."""

    @property
    def asserts_nothing(self) -> bool:
        """Whether it passes, whatever the agent does."""
        return bool(self.needs_one_of) and all(getattr(self, key) in (None, ()) for key in self.needs_one_of)


def failed(name: str, detail: str) -> EvalResult:
    """A failed result with one check."""
    return EvalResult(passed=False, reasoning=detail, checks=(Check(name=name, passed=False, detail=detail),))


def no_answer(message: str, *, hint: str, checks: tuple[Check, ...] = ()) -> EvalResult:
    """An errored result: what is missing, and what to change."""
    error = ErrorInfo(kind=ErrorKind.CONFIG, message=message, hint=hint)
    return EvalResult(passed=False, reasoning=f"{message}. {hint}", checks=checks, error=error)


def is_surely_absent(tool: str, ctx: Context) -> bool:
    """Whether a call of the tool would have been recorded: all calls are, or Seatrial answers this tool."""
    return ctx.knows_all_calls or tool in ctx.reachable_tools


def calls_not_known(what: str, ctx: Context, *, checks: tuple[Check, ...] = ()) -> EvalResult:
    """An errored result: the expectation depends on calls that were not recorded."""
    message = NOT_RECORDED if ctx.tool_calls is None else MAY_BE_MORE
    return no_answer(f"{what}: {message}", hint=RECORD_CALLS, checks=checks)


def arguments_not_recorded(what: str, *, tool: str, checks: tuple[Check, ...] = ()) -> EvalResult:
    """An errored result: the expectation depends on arguments that were not recorded."""
    message = f"{what}: the arguments of {tool!r} were not recorded"
    return no_answer(message, hint=RECORD_ARGUMENTS, checks=checks)

"""What all built-in evaluators share: the base class, results without evidence, checks of arguments."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from seatrial import patterns
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind
from seatrial.model.protocols import MAY_BE_MORE, NOT_RECORDED, RECORD_CALLS, Context
from seatrial.model.results import Check, EvalResult
from seatrial.model.struct import InputStruct

from .matchers import OPERATORS, TYPES, operator_of, shown

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


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """The end of a message: the closest known word, if there is one, and all known words."""
    from difflib import get_close_matches

    words = list(known)
    # A user who writes `ordered` does not mean `unordered`.
    close = get_close_matches(str(word), (one for one in words if one != f"un{word}"), n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{hint} Known: {', '.join(words)}."


def texts(where: str, value: Any) -> tuple[str, ...]:
    """The value as a tuple of strings. A single string is refused, because it would be read letter by letter."""
    if isinstance(value, str):
        raise UsageError(f"{where}: expected a list of strings, got the string {value!r}. Write [{value!r}].")
    if not isinstance(value, (list, tuple)):
        raise UsageError(f"{where}: expected a list of strings, got {shown(value)}.")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise UsageError(f"{where}[{index}]: expected a string, got {shown(item)}.")
    return tuple(value)


def text(where: str, value: Any) -> str:
    """The value, which must be a string."""
    if not isinstance(value, str):
        raise UsageError(f"{where}: expected a string, got {shown(value)}.")
    return value


def flag(where: str, value: Any) -> bool:
    """The value, which must be true or false."""
    if not isinstance(value, bool):
        raise UsageError(f"{where}: expected true or false, got {shown(value)}.")
    return value


def choice(where: str, value: Any, known: tuple[str, ...]) -> str:
    """The value, which must be one of the known words."""
    if not isinstance(value, str) or value not in known:
        raise UsageError(f"{where}: unknown value {shown(value)}.{did_you_mean(value, known)}")
    return value


def pattern(where: str, value: Any) -> str:
    """The value, which must be a regular expression."""
    problem = _pattern_problem(text(where, value))
    if problem:
        raise UsageError(f"{where}: {problem}")
    return str(value)


def arguments(where: str, value: Any) -> Mapping[str, Any]:
    """The value, which must be a mapping of expected arguments."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected a mapping of arguments, got {shown(value)}.")
    problems = check_arguments(value)
    if problems:
        raise UsageError("\n".join(f"{where}.{problem}" for problem in problems))
    return value


def check_arguments(value: Mapping[str, Any]) -> list[str]:
    """The problems of expected arguments, each with its path.

    The mapping itself is never a matcher: an argument may well be called `$filter`.
    """
    problems = []
    for key, expected in value.items():
        if key in OPERATORS and len(value) == 1:
            problems.append(f"{key}: a matcher is for one argument; write {{argument: {{{key}: …}}}}.")
        problems.extend(check_expected(expected, path=str(key)))
    return problems


def check_expected(value: Any, *, path: str = "") -> list[str]:
    """The problems of an expected value, each with its path."""
    if isinstance(value, Mapping):
        operator = operator_of(value)
        if operator is not None:
            return _check_matcher(operator, value[operator], f"{path}.{operator}" if path else operator)
        if _is_several_matchers(value):
            return [f"{path}: {_SEVERAL}" if path else _SEVERAL]
        return [
            problem
            for key, item in value.items()
            for problem in check_expected(item, path=f"{path}.{key}" if path else str(key))
        ]
    if isinstance(value, (list, tuple)):
        return [
            problem for index, item in enumerate(value) for problem in check_expected(item, path=f"{path}[{index}]")
        ]
    return []


_SEVERAL = "several matchers in one mapping, which would match nothing; give one. A range is {$between: [1, 9]}."


def _is_several_matchers(value: Mapping[Any, Any]) -> bool:
    """Whether all keys look like matchers. Compared as a plain mapping, it would match no call."""
    return all(isinstance(key, str) and key.startswith("$") for key in value) and any(key in OPERATORS for key in value)


def _check_matcher(operator: str, operand: Any, path: str) -> list[str]:
    if operator not in OPERATORS:
        return [f"{path}: unknown matcher {operator!r}.{did_you_mean(operator, OPERATORS)}"]
    problem = _operand_problem(operator, operand)
    if problem:
        return [f"{path}: {problem}"]
    return check_expected(operand, path=path) if operator in ("$contains", "$one_of", "$subset", "$not") else []


def _operand_problem(operator: str, operand: Any) -> str | None:
    problem = None
    if operator == "$regex":
        problem = _pattern_problem(operand) if isinstance(operand, str) else f"expected a string, got {shown(operand)}."
    elif operator == "$type" and not (isinstance(operand, str) and operand in TYPES):
        problem = f"unknown type {shown(operand)}.{did_you_mean(operand, TYPES)}"
    elif operator == "$one_of" and not (isinstance(operand, (list, tuple)) and operand):
        problem = f"expected a list of values, got {shown(operand)}."
    elif operator == "$any" and operand is not True:
        problem = f"expected true, got {shown(operand)}."
    elif operator == "$subset" and not isinstance(operand, Mapping):
        problem = f"expected a mapping, got {shown(operand)}."
    elif operator in ("$gt", "$gte", "$lt", "$lte") and (
        isinstance(operand, bool) or not isinstance(operand, (int, float, str))
    ):
        problem = f"expected a number or a string, got {shown(operand)}."
    elif operator == "$between":
        problem = _bounds_problem(operand)
    return problem


def _bounds_problem(bounds: Any) -> str | None:
    is_pair = isinstance(bounds, (list, tuple)) and len(bounds) == 2
    if not is_pair or not all(_is_bound(bound, bounds[0]) for bound in bounds):
        return f"expected two numbers, [low, high], got {shown(bounds)}."
    return None if bounds[0] <= bounds[1] else f"expected [low, high], got {shown(bounds)}, which nothing is between."


def _is_bound(bound: Any, other: Any) -> bool:
    """Whether both bounds are numbers, or both are texts."""
    number = isinstance(bound, (int, float)) and not isinstance(bound, bool)
    return (number and not isinstance(other, str)) or (isinstance(bound, str) and isinstance(other, str))


def _pattern_problem(value: str) -> str | None:
    problem = patterns.problem(value)
    return None if problem is None else f"{value!r} is not a regular expression: {problem}."

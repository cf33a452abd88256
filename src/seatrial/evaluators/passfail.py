"""The default evaluator: output, tools, their arguments, a text in the output."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall, is_blank
from seatrial.model.protocols import Context
from seatrial.model.results import Check, EvalResult
from seatrial.model.struct import set_field

from .built_in import (
    BuiltInEvaluator,
    arguments,
    arguments_not_recorded,
    calls_not_known,
    is_surely_absent,
    text,
    texts,
)
from .matchers import argument_differences, shown, subset
from .redacted_evidence import includes_surely, secret_in_arguments
from .text import NO_OUTPUT, OUTPUT_PRODUCED


class PassFail(BuiltInEvaluator, frozen=True, kw_only=True):
    """Passes when up to four checks pass, in order. A field that is None is taken from the scenario.

    Output produced; expected tools called; their arguments (first call of that name, top-level keys); expected
    output found (case-insensitive).
    """

    expected_tools: Sequence[str] | None = None
    expected_tool_args: Mapping[str, Mapping[str, Any]] | None = None
    expected_output: str | None = None

    name: ClassVar[str] = "passfail"
    from_scenario: ClassVar[Mapping[str, str]] = {
        key: key for key in ("expected_tools", "expected_tool_args", "expected_output")
    }

    def __post_init__(self) -> None:
        if self.expected_tools is not None:
            set_field(self, "expected_tools", texts("passfail.expected_tools", self.expected_tools))
        if self.expected_tool_args is not None:
            _check_tools("passfail.expected_tool_args", self.expected_tool_args)
        if self.expected_output is not None:
            text("passfail.expected_output", self.expected_output)

    async def evaluate(self, ctx: Context) -> EvalResult:
        reply = ctx.reply or ""
        if is_blank(reply):
            return EvalResult(passed=False, reasoning="Output produced: FAIL (empty output).", checks=(NO_OUTPUT,))
        said = "Output produced: PASS."
        checks: tuple[Check, ...] = (OUTPUT_PRODUCED,)
        tools, tool_args, output = self._expectations(ctx)
        if tools or tool_args:
            calls = ctx.seen_calls
            called = {call.name for call in calls}
            for what, names in (("expected_tools", tools or ()), ("expected_tool_args", tool_args or ())):
                missing = [tool for tool in names if tool not in called]
                if missing and not any(is_surely_absent(tool, ctx) for tool in missing):
                    return calls_not_known(what, ctx, checks=checks)
            if tools:
                missing = [tool for tool in tools if tool not in called and is_surely_absent(tool, ctx)]
                if missing:
                    detail = f"missing: {', '.join(dict.fromkeys(missing))}"
                    return _failed(said, checks, name="expected_tools", title="Expected tools called", detail=detail)
                said += f" Expected tools called: PASS ({', '.join(tools)})."
                checks += (Check(name="expected_tools", passed=True),)
            if tool_args:
                problem = _argument_problem(tool_args, calls)
                if problem is not None:
                    detail, unrecorded = problem
                    if unrecorded:
                        return arguments_not_recorded("expected_tool_args", tool=unrecorded, checks=checks)
                    return _failed(said, checks, name="tool_args", title="Tool arguments match", detail=detail)
                doubtful = _tool_in_doubt(tool_args, calls)
                if doubtful is not None:
                    return secret_in_arguments("expected_tool_args", ctx, tool=doubtful)
                said += " Tool arguments match: PASS."
                checks += (Check(name="tool_args", passed=True),)
        if output is not None:
            if output.lower() not in reply.lower():
                detail = f'"{output}" not found in output'
                return _failed(said, checks, name="expected_output", title="Expected output found", detail=detail)
            said += f' Expected output found: PASS ("{output}" found in output).'
            checks += (Check(name="expected_output", passed=True),)
        return EvalResult(passed=True, reasoning=said, checks=checks, evaluator="passfail")

    def _expectations(
        self, ctx: Context
    ) -> tuple[Sequence[str] | None, Mapping[str, Mapping[str, Any]] | None, str | None]:
        tools, tool_args, output = self.expected_tools, self.expected_tool_args, self.expected_output
        scenario = ctx.scenario
        if scenario is not None:
            tools = scenario.expected_tools if tools is None else tools
            tool_args = scenario.expected_tool_args if tool_args is None else tool_args
            output = scenario.expected_output if output is None else output
        return tools, tool_args, output


def _check_tools(where: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected a mapping of tools, got {shown(value)}.")
    for tool, expected in value.items():
        arguments(f"{where}.{tool}", expected)


def _failed(said: str, checks: tuple[Check, ...], *, name: str, title: str, detail: str) -> EvalResult:
    check = Check(name=name, passed=False, detail=detail)
    return EvalResult(passed=False, reasoning=f"{said} {title}: FAIL ({detail}).", checks=(*checks, check))


def _argument_problem(
    expected: Mapping[str, Mapping[str, Any]], calls: Sequence[ToolCall]
) -> tuple[str, str | None] | None:
    """(problems, tool with unrecorded arguments) of the first calls; None if the arguments match."""
    problems: list[str] = []
    unrecorded = None
    for tool, wanted in expected.items():
        for call in calls:
            if call.name == tool:
                break
        else:
            problems.append(f"{tool}: not called")
            continue
        made = call.args
        if made is not None:
            if not subset(wanted, made):
                problems.extend(f"{tool}.{text}" for text in argument_differences(wanted, made))
        elif wanted and call.arguments is None:
            unrecorded = tool
        elif call.arguments is not None:
            problems.append(f"{tool}: arguments are not a mapping, got {shown(call.arguments)}")
    if problems:
        return "; ".join(problems), None
    return ("", unrecorded) if unrecorded else None


def _tool_in_doubt(expected: Mapping[str, Mapping[str, Any]], calls: Sequence[ToolCall]) -> str | None:
    """A tool whose match depends on a redacted secret."""
    for tool, wanted in expected.items():
        made = next(call.args for call in calls if call.name == tool)
        if made is not None and includes_surely(wanted, made) is None:
            return tool
    return None

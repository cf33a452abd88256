"""Evaluators of the tools that were called, and of their arguments."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from seatrial.errors import UsageError
from seatrial.model.conversation import ToolCall
from seatrial.model.keys import Key
from seatrial.model.protocols import Context
from seatrial.model.results import Check, EvalResult
from seatrial.model.scenario import Arguments, Name
from seatrial.model.struct import set_field

from .built_in import (
    BuiltInEvaluator,
    arguments,
    arguments_not_recorded,
    calls_not_known,
    choice,
    failed,
    flag,
    is_surely_absent,
    text,
    texts,
)
from .matchers import argument_differences, shown, subset
from .redacted_evidence import includes_surely, secret_in_arguments

if TYPE_CHECKING:
    from seatrial.judges.rubric import Judge


class ToolCalls(BuiltInEvaluator, frozen=True):
    """Passes when every required tool was called and no forbidden tool was called."""

    must_include: Sequence[str] = ()
    must_exclude: Sequence[str] = ()
    ordered: bool = False
    """The tools of `must_include` must be called in the given order; other calls may come between."""

    name: ClassVar[str] = "tool_calls"
    needs_one_of: ClassVar[tuple[str, ...]] = ("must_include", "must_exclude")
    searches_texts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for group in self.needs_one_of:
            set_field(self, group, texts(f"tool_calls.{group}", getattr(self, group)))
        flag("tool_calls.ordered", self.ordered)

    async def evaluate(self, ctx: Context) -> EvalResult:
        called = [call.name for call in ctx.seen_calls]
        failures = self._failures(called, ctx)
        if failures:
            return EvalResult(passed=False, reasoning="\n".join(check.detail for check in failures), checks=failures)
        if not ctx.knows_all_calls:
            if not self._includes(called):
                return calls_not_known("must_include", ctx)
            if self.must_exclude:
                return calls_not_known("must_exclude", ctx)
        return EvalResult(passed=True, reasoning="All tool call checks passed")

    def _includes(self, called: Sequence[str]) -> bool:
        return _is_subsequence(self.must_include, called) if self.ordered else set(self.must_include) <= set(called)

    def _failures(self, called: list[str], ctx: Context) -> tuple[Check, ...]:
        """What is wrong, even if the agent made calls that were not recorded."""
        found = []
        absent = [tool for tool in self.must_include if tool not in called and is_surely_absent(tool, ctx)]
        if not self.ordered:
            found += [("must_include", f"Expected tool {tool!r} not in {called!r}") for tool in absent]
        forbidden = [tool for tool in self.must_exclude if tool in called]
        found += [("must_exclude", f"Forbidden tool {tool!r} was called") for tool in forbidden]
        sure = bool(absent) or all(is_surely_absent(tool, ctx) for tool in self.must_include)
        if self.ordered and sure and not _is_subsequence(self.must_include, called):
            found.append(("ordered", f"Tools {list(self.must_include)!r} not called in order in {called!r}"))
        return tuple(Check(name=name, passed=False, detail=detail) for name, detail in found)


ToolCallEvaluator = ToolCalls
"""The name in pytest-agent-eval."""


def _is_subsequence(wanted: Sequence[str], called: Sequence[str]) -> bool:
    rest = iter(called)
    return all(tool in rest for tool in wanted)


class ToolArgs(BuiltInEvaluator, frozen=True):
    """Passes when a tool was called with the expected arguments, and the judge accepts them if there is one."""

    tool: Annotated[Name, Key("the tool's name")]
    args: Annotated[Arguments | None, Key("the arguments it must have been called with")] = None
    mode: Annotated[
        Literal["subset", "exact"], Key("subset: other arguments may be there, at the top level; exact: not")
    ] = "subset"
    calls: Annotated[Literal["any", "first", "all"], Key("which calls of the tool must have the arguments")] = "any"
    judge: Annotated["Judge | None", Key("a rubric for the arguments")] = None

    name: ClassVar[str] = "tool_calls_args"

    def __post_init__(self) -> None:
        text("tool_calls_args.tool", self.tool)
        if self.args is None and self.judge is None:
            raise UsageError("tool_calls_args: nothing is asserted of the arguments. Give args, judge, or both.")
        if self.args is not None:
            arguments("tool_calls_args.args", self.args)
        choice("tool_calls_args.mode", self.mode, ("subset", "exact"))
        choice("tool_calls_args.calls", self.calls, ("any", "first", "all"))
        if self.judge is not None and not hasattr(self.judge, "judge_arguments"):
            raise UsageError(f"tool_calls_args.judge: expected a Judge, got {shown(self.judge)}.")

    async def evaluate(self, ctx: Context) -> EvalResult:
        made = [call for call in ctx.seen_calls if call.name == self.tool]
        if not made and not is_surely_absent(self.tool, ctx):
            return calls_not_known(f"tool_calls_args for {self.tool!r}", ctx)
        if not made:
            called = [call.name for call in ctx.seen_calls]
            return failed("args_never_called", f"Tool {self.tool!r} was never called; called: {called!r}")
        result = None if self.args is None else self._compare(self.args, made, ctx)
        if self.judge is None or (result is not None and not result.passed):
            assert result is not None
            return result
        if all(call.args is None for call in made):
            return self._not_captured(made)
        return await self.judge.judge_arguments(self.tool, ctx)

    def _compare(self, expected: Mapping[str, Any], made: Sequence[ToolCall], ctx: Context) -> EvalResult:
        compared = made[:1] if self.calls == "first" else made
        recorded = [call.args for call in compared if call.args is not None]
        if not recorded or (self.calls == "all" and len(recorded) < len(compared)):
            return self._not_captured(compared)
        enough = any if self.calls == "any" else all
        right = [subset(expected, args, exact=self.mode == "exact") for args in recorded]
        if not enough(right):
            wrong = [args for args, ok in zip(recorded, right, strict=True) if not ok]
            return failed("args_mismatch", self._mismatch(expected, wrong))
        if not enough(includes_surely(expected, args) is True for args in recorded):
            return secret_in_arguments("tool_calls_args", ctx, tool=self.tool)
        if self.calls == "all" and not ctx.knows_all_calls:
            return calls_not_known(f"tool_calls_args for all calls of {self.tool!r}", ctx)
        return EvalResult(passed=True, reasoning=f"Tool {self.tool!r} was called with the expected arguments")

    def _not_captured(self, calls: Sequence[ToolCall]) -> EvalResult:
        """Malformed arguments are the agent's failure; unrecorded arguments are an error of the configuration."""
        malformed = [call.arguments for call in calls if call.args is None and call.arguments is not None]
        detail = f"Tool {self.tool!r} was called, but its arguments were not captured"
        if malformed:
            return failed("args_not_captured", f"{detail}: expected a mapping, got {shown(malformed[0])}")
        check = Check(name="args_not_captured", passed=False, detail=detail)
        return arguments_not_recorded("tool_calls_args", tool=self.tool, checks=(check,))

    def _mismatch(self, expected: Mapping[str, Any], wrong: Sequence[Mapping[str, Any]]) -> str:
        first = "; ".join(argument_differences(expected, wrong[0], exact=self.mode == "exact"))
        more = f" (and {len(wrong) - 1} more calls)" if len(wrong) > 1 else ""
        return f"Tool {self.tool!r} was not called with {shown(dict(expected))} ({self.mode}): {first}{more}"


ToolCallArgsEvaluator = ToolArgs
"""The name in pytest-agent-eval."""

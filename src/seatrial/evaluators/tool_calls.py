"""Evaluators of the tools that were called, and of their arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from seatrial.model.conversation import ToolCall
from seatrial.model.protocols import Context
from seatrial.model.results import Check, EvalResult

from .matchers import argument_differences, shown, subset
from .redacted import includes_surely, secret_in_arguments
from .validation import arguments, arguments_not_recorded, calls_not_known, choice, flag, is_surely_absent, text, texts


@dataclass(frozen=True, slots=True)
class ToolCallEvaluator:
    """Passes when the tools that must be called were, in order if so asked, and no forbidden one was."""

    must_include: Sequence[str] = ()
    must_exclude: Sequence[str] = ()
    ordered: bool = False
    """`must_include` must appear in the given order; other calls may stand between."""

    name: ClassVar[str] = "tool_calls"

    def __post_init__(self) -> None:
        for group in ("must_include", "must_exclude"):
            object.__setattr__(self, group, texts(f"tool_calls.{group}", getattr(self, group)))
        flag("tool_calls.ordered", self.ordered)

    async def evaluate(self, ctx: Context) -> EvalResult:
        called = [call.name for call in ctx.seen_calls]
        failed = self._failures(called, ctx)
        if failed:
            return EvalResult(passed=False, reasoning="\n".join(check.detail for check in failed), checks=failed)
        if not ctx.knows_all_calls:
            if not self._includes(called):
                return calls_not_known("must_include", ctx)
            if self.must_exclude:
                return calls_not_known("must_exclude", ctx)
        return EvalResult(passed=True, reasoning="All tool call checks passed")

    def _includes(self, called: Sequence[str]) -> bool:
        return _is_subsequence(self.must_include, called) if self.ordered else set(self.must_include) <= set(called)

    def _failures(self, called: list[str], ctx: Context) -> tuple[Check, ...]:
        """What is wrong whatever other calls there were."""
        failed = []
        absent = [tool for tool in self.must_include if tool not in called and is_surely_absent(tool, ctx)]
        if not self.ordered:
            failed += [
                Check(name="must_include", passed=False, detail=f"Expected tool {tool!r} not in {called!r}")
                for tool in absent
            ]
        failed += [
            Check(name="must_exclude", passed=False, detail=f"Forbidden tool {tool!r} was called")
            for tool in self.must_exclude
            if tool in called
        ]
        sure = bool(absent) or all(is_surely_absent(tool, ctx) for tool in self.must_include)
        if self.ordered and sure and not _is_subsequence(self.must_include, called):
            detail = f"Tools {list(self.must_include)!r} not called in order in {called!r}"
            failed.append(Check(name="ordered", passed=False, detail=detail))
        return tuple(failed)


def _is_subsequence(wanted: Sequence[str], called: Sequence[str]) -> bool:
    rest = iter(called)
    return all(tool in rest for tool in wanted)


@dataclass(frozen=True, slots=True)
class ToolCallArgsEvaluator:
    """Passes when a tool was called with the expected arguments: in any of its calls, the first, or all of them."""

    tool: str
    args: Mapping[str, Any]
    mode: Literal["subset", "exact"] = "subset"
    """subset: other arguments may be there, at the top level."""
    _: KW_ONLY
    calls: Literal["any", "first", "all"] = "any"

    name: ClassVar[str] = "tool_calls_args"

    def __post_init__(self) -> None:
        text("tool_calls_args.tool", self.tool)
        arguments("tool_calls_args.args", self.args)
        choice("tool_calls_args.mode", self.mode, ("subset", "exact"))
        choice("tool_calls_args.calls", self.calls, ("any", "first", "all"))

    async def evaluate(self, ctx: Context) -> EvalResult:
        made = [call for call in ctx.seen_calls if call.name == self.tool]
        if not made and not is_surely_absent(self.tool, ctx):
            return calls_not_known(f"tool_calls_args for {self.tool!r}", ctx)
        if not made:
            called = [call.name for call in ctx.seen_calls]
            return _failed("args_never_called", f"Tool {self.tool!r} was never called; called: {called!r}")
        looked_at = made[:1] if self.calls == "first" else made
        recorded = [call.args for call in looked_at if call.args is not None]
        if not recorded or (self.calls == "all" and len(recorded) < len(looked_at)):
            return self._not_captured(looked_at)
        exact = self.mode == "exact"
        right = [subset(self.args, args, exact=exact) for args in recorded]
        if all(right) if self.calls != "any" else any(right):
            sure = [includes_surely(self.args, args) is True for args in recorded]
            if not (all(sure) if self.calls != "any" else any(sure)):
                return secret_in_arguments("tool_calls_args", ctx, tool=self.tool)
            if self.calls == "all" and not ctx.knows_all_calls:
                return calls_not_known(f"tool_calls_args for all calls of {self.tool!r}", ctx)
            return EvalResult(passed=True, reasoning=f"Tool {self.tool!r} was called with the expected arguments")
        return _failed(
            "args_mismatch", self._mismatch([args for args, ok in zip(recorded, right, strict=True) if not ok])
        )

    def _not_captured(self, looked_at: Sequence[ToolCall]) -> EvalResult:
        """Arguments that came malformed speak against the agent; arguments that nobody recorded against nobody."""
        malformed = [call.arguments for call in looked_at if call.args is None and call.arguments is not None]
        detail = f"Tool {self.tool!r} was called, but its arguments were not captured"
        if malformed:
            return _failed("args_not_captured", f"{detail}: expected a mapping, got {shown(malformed[0])}")
        check = Check(name="args_not_captured", passed=False, detail=detail)
        return arguments_not_recorded("tool_calls_args", tool=self.tool, checks=(check,))

    def _mismatch(self, wrong: Sequence[Mapping[str, Any]]) -> str:
        first = "; ".join(argument_differences(self.args, wrong[0], exact=self.mode == "exact"))
        more = f" (and {len(wrong) - 1} more calls)" if len(wrong) > 1 else ""
        return f"Tool {self.tool!r} was not called with {shown(dict(self.args))} ({self.mode}): {first}{more}"


def _failed(name: str, detail: str) -> EvalResult:
    return EvalResult(passed=False, reasoning=detail, checks=(Check(name=name, passed=False, detail=detail),))

"""The evaluator of the state at the end of a trial: of the world, or of the mocks if there is no world."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.conversation import REDACTED, ToolCall
from seatrial.model.json_patch import ABSENT, Difference, differences, write_pointer
from seatrial.model.keys import Format, Key
from seatrial.model.protocols import RECORD_CALLS, Context, TrialContext
from seatrial.model.results import Check, EvalResult
from seatrial.model.scenario import GoldCall, Name
from seatrial.model.struct import set_field
from seatrial.model.value_paths import Location, ValuePath, parse_path, show_location
from seatrial.model.world_view import WorldView

from .built_in import BuiltInEvaluator, calls_not_known, check_expected, no_answer, texts
from .matchers import differences as missing_values
from .matchers import shown
from .redacted_evidence import matches_surely, secret_in_state

_MOST_SHOWN = 10
_LONGEST = 160


class EndState(BuiltInEvaluator, frozen=True):
    """Passes when the world at the end of the trial is as expected. Without a world, `contains` looks at the mocks'
    state."""

    as_after: Annotated[
        Sequence[Annotated[Any, Format("gold call")]] | None,
        Key("the end state must equal the state after these calls; [] means that nothing changed"),
    ] = None
    contains: Annotated[
        Annotated[Mapping[str, Any], Meta(min_length=1), Format("matchers")] | None,
        Key("values that the end state must contain"),
    ] = None
    unchanged: Annotated[
        Sequence[Annotated[Name, Format("path")]], Meta(min_length=1), Key("paths of parts that must not change")
    ] = ()
    ignore: Annotated[
        Sequence[Annotated[Name, Format("path")]], Meta(min_length=1), Key("paths that every comparison leaves out")
    ] = ()

    name: ClassVar[str] = "end_state"

    def __post_init__(self) -> None:
        if self.as_after is not None:
            if isinstance(self.as_after, str | Mapping):
                raise UsageError(f"end_state.as_after: expected a list of calls, got {shown(self.as_after)}.")
            set_field(self, "as_after", tuple(map(read_gold_call, self.as_after)))
        if self.contains is not None:
            if not isinstance(self.contains, Mapping):
                raise UsageError(f"end_state.contains: expected a mapping, got {shown(self.contains)}.")
            problems = check_expected(self.contains)
            if problems:
                raise UsageError("\n".join(f"end_state.contains.{problem}" for problem in problems))
        for key in ("unchanged", "ignore"):
            set_field(self, key, texts(f"end_state.{key}", getattr(self, key)))
            for path in getattr(self, key):
                parse_path(path)

    @property
    def asserts_nothing(self) -> bool:
        return self.as_after is None and not self.contains and not self.unchanged

    @property
    def needs_world(self) -> bool:
        return self.as_after is not None or bool(self.unchanged) or bool(self.ignore)

    async def evaluate(self, ctx: Context) -> EvalResult:
        if isinstance(ctx, TrialContext) and ctx.world is not None:
            return await self._check_world(ctx, ctx.world)
        if ctx.scenario is not None and ctx.scenario.world is not None:
            return calls_not_known("end_state", ctx)
        if self.needs_world or self.contains is None:
            return no_answer("end_state: the scenario has no world", hint="Give the scenario or its suite a `world`.")
        return check_mock_state(self.contains, ctx)

    async def _check_world(self, ctx: TrialContext, world: WorldView) -> EvalResult:
        findings = [
            *([] if self.as_after is None else [await self._check_calls(ctx, world, self.as_after)]),
            *([] if self.contains is None else [self._check_contained(ctx, world, self.contains)]),
            *([self._check_unchanged(ctx, world)] if self.unchanged else []),
        ]
        checks = tuple(found.check for found in findings if found.check is not None)
        if any(not check.passed for check in checks):
            reasoning = "; ".join(check.detail or check.name for check in checks if not check.passed)
            failed = EvalResult(passed=False, reasoning=f"End state differs: {reasoning}", checks=checks)
            gold = None if self.as_after is None else await world.changing(self.as_after)
            return replace(failed, gold_calls=gold)
        errored = next((found.error for found in findings if found.error is not None), None)
        if errored is not None:
            return errored
        return EvalResult(passed=True, reasoning="End state is as expected", checks=checks)

    async def _check_calls(self, ctx: TrialContext, world: WorldView, calls: Sequence[GoldCall]) -> "_Finding":
        gold = await world.end_after(calls)
        found = self._differences(gold, world.end)
        if any(_is_redacted(each) for each in found):
            return _Finding(error=secret_in_state(ctx))
        if found:
            return _reachable(ctx, "as_after", _describe(found, ctx))
        if not self._differences(world.seed, gold):
            return _needs_all_calls(ctx, "as_after", "nothing may change")
        return _Finding(check=Check(name="as_after", passed=True))

    def _check_contained(self, ctx: TrialContext, world: WorldView, expected: Mapping[str, Any]) -> "_Finding":
        found = list(missing_values(expected, world.end))
        if found:
            return _reachable(ctx, "contains", "; ".join(found[:_MOST_SHOWN]))
        if matches_surely({"$subset": expected}, world.end) is None:
            return _Finding(error=secret_in_state(ctx))
        if next(missing_values(expected, world.seed), None) is None:
            return _needs_all_calls(ctx, "contains", "the seed contains these values, so they must not change")
        return _Finding(check=Check(name="contains", passed=True))

    def _check_unchanged(self, ctx: TrialContext, world: WorldView) -> "_Finding":
        found: list[Difference] = []
        for path in map(parse_path, self.unchanged):
            before, after = dict(path.find(world.seed)), dict(path.find(world.end))
            if not before and not after:
                message = f"end_state.unchanged: the path {path.text!r} leads to nothing in the seed or the end state"
                return _Finding(error=no_answer(message, hint="Correct the path."))
            for location in {**before, **after}:
                found += self._differences(before.get(location, ABSENT), after.get(location, ABSENT), location)
        if found:
            detail = _describe(found, ctx, expected="it must stay")
            return _Finding(check=Check(name="unchanged", passed=False, detail=detail))
        return _needs_all_calls(ctx, "unchanged", f"{', '.join(self.unchanged)} must not change")

    def _differences(self, before: Any, after: Any, location: Location = ()) -> list[Difference]:
        ignored = self._ignored
        return [
            each
            for each in differences(before, after, location)
            if not any(path.covers(each.location) for path in ignored)
        ]

    @property
    def _ignored(self) -> list[ValuePath]:
        return [parse_path(path) for path in self.ignore]


class _Finding(NamedTuple):
    """The result of one rule: a check, or an error if there is no answer."""

    check: Check | None = None
    error: EvalResult | None = None


def read_gold_call(given: Any) -> GoldCall:
    """The call of `tool`, `{tool: arguments}` or `{tool: arguments, refused: true}`. Raises UsageError."""
    if isinstance(given, GoldCall):
        return given
    if isinstance(given, str) and given.strip():
        return GoldCall(given)
    if isinstance(given, Mapping):
        refused = given.get("refused", False)
        calls = [(name, arguments) for name, arguments in given.items() if name != "refused"]
        if len(calls) == 1 and isinstance(calls[0][0], str) and isinstance(refused, bool):
            name, arguments = calls[0]
            if arguments is None or isinstance(arguments, Mapping):
                return GoldCall(name, arguments or {}, refused)
    raise UsageError(f"expected a call such as {{refund: {{order_id: W1}}}}, got {shown(given)}.")


def _reachable(ctx: TrialContext, rule: str, detail: str) -> _Finding:
    """A failed check; an error if the agent cannot act on the world at all."""
    if ctx.knows_all_calls or ctx.reachable_tools or any(call.changes for call in ctx.seen_calls):
        return _Finding(check=Check(name=rule, passed=False, detail=detail))
    message = f"end_state.{rule}: the agent cannot reach the world: it calls no tool through Seatrial"
    return _Finding(error=no_answer(message, hint=RECORD_CALLS))


def _needs_all_calls(ctx: TrialContext, rule: str, why: str) -> _Finding:
    """A passed check; an error if calls that the world did not see could break the rule."""
    record = ctx.transcript.world
    if record is not None and record.outside:
        message = f"end_state.{rule}: {', '.join(record.outside)} ran outside of the world, and {why}"
        hint = "Give the world these tools, or mock them."
        return _Finding(error=no_answer(message, hint=hint))
    if not ctx.knows_all_calls:
        return _Finding(error=calls_not_known(f"end_state.{rule}: {why}", ctx))
    return _Finding(check=Check(name=rule, passed=True))


def _describe(found: Sequence[Difference], ctx: TrialContext, *, expected: str = "expected") -> str:
    """Each difference with its place, both values, and the call that made it."""
    lines = []
    for each in found[:_MOST_SHOWN]:
        actual = f"{expected} {_short(each.before)}, got {_short(each.after)}"
        lines.append(f"{show_location(each.location)}: {actual}{_made_by(each.location, ctx)}")
    more = len(found) - _MOST_SHOWN
    return "; ".join([*lines, f"and {more} more"] if more > 0 else lines)


def _made_by(location: Location, ctx: TrialContext) -> str:
    place = write_pointer(location)
    made = [(turn, call) for turn, call in _calls(ctx) if any(_touches(change.path, place) for change in call.changes)]
    if not made:
        return " (no call changed it)"
    turn, call = made[-1]
    return f" (changed by {call.name} in turn {turn + 1})"


def _calls(ctx: TrialContext) -> Iterator[tuple[int, ToolCall]]:
    return ((turn.index, call) for turn in ctx.transcript.turns for call in turn.tool_calls or ())


def _touches(path: str, place: str) -> bool:
    return path == place or place.startswith(f"{path}/") or path.startswith(f"{place}/")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _is_redacted(difference: Difference) -> bool:
    return REDACTED in repr(difference.after)


def check_mock_state(expected: Mapping[str, Any], ctx: Context) -> EvalResult:
    """Whether the mocks' state includes the expected values. It may contain more, at any depth."""
    state = ctx.transcript.state if isinstance(ctx, TrialContext) else None
    if isinstance(ctx, TrialContext) and not ctx.transcript.state_known:
        hint = "Give the scenario a `world`, which repeats the recorded calls."
        return no_answer(
            "expected_state: mocks did not answer the recorded calls, so the state is not known", hint=hint
        )
    found = list(missing_values(expected, state or {}))
    if state is None:
        if found and _could_be_written(ctx):
            return _differs(f"{'; '.join(found)} (nothing was written to ctx.state)")
        hint = "Give the scenario mocks that keep their results in ctx.state, and expect it of the whole trial."
        return no_answer("expected_state: nothing was written to ctx.state, so there is no state to look at", hint=hint)
    if not found and matches_surely({"$subset": expected}, state) is None:
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

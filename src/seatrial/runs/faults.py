"""Sweeps over faults (`seatrial run --faults`): each scenario, with each of its tools failing in each way."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.evaluators.passfail import PassFail
from seatrial.evaluators.text import Contains
from seatrial.judges.rubric import Judge
from seatrial.model.conversation import ToolCall
from seatrial.model.faults import FAILING, FAULTS, Fault
from seatrial.model.protocols import Context, Evaluator, PreparedScenario, ToolBox, TrialContext
from seatrial.model.results import EvalResult
from seatrial.model.run import Gates, Variant
from seatrial.model.scenario import Expect, Scenario
from seatrial.model.struct import Struct
from seatrial.scenarios.build_evaluators import build_expectations
from seatrial.scenarios.models import RunModels
from seatrial.scenarios.tool_names import tools_in
from seatrial.tools.altered_tools import AlteredTools
from seatrial.tools.faults import SLOW_SECONDS, ToolFault

from .sweeps import make_variant

OCCUR = ("once", "always")
_SHOWN = 20
_TOLD = Judge(
    "A tool failed in this conversation. The agent's last reply tells the user plainly that something could not be "
    "done, was not done completely or is not certain, and it does not claim that everything was done."
)
"""Decides where a scenario has no `on_failure`, if there is a model for the judge."""


class FaultChoice(Struct, frozen=True, kw_only=True):
    """A part of a selection such as `search=timeout`."""

    tool: str
    """`*`: every tool."""
    fault: Fault | None
    """None: every fault."""
    seconds: float | None = None
    """How long a slow tool takes; None: the default."""


def read_choices(text: str, *, flag: str = "--faults") -> tuple[FaultChoice, ...]:
    """The parts of `search=timeout,book=*`. Raises UsageError."""
    return tuple(_read_choice(part.strip(), f"{flag} {text!r}") for part in text.split(","))


def _read_choice(part: str, where: str) -> FaultChoice:
    tool, given, fault = (each.strip() for each in part.partition("="))
    if not tool or (given and not fault):
        raise UsageError(f"{where}: expected TOOL=FAULT, such as search=timeout or search=*, got {part!r}")
    name, has_time, time = fault.partition(":")
    if not given or fault == "*":
        return FaultChoice(tool=tool, fault=None)
    known = next((each for each in FAULTS if each == name), None)
    if known is None:
        raise UsageError(f"{where}: unknown fault {name!r}.{_suggest(name, FAULTS)}")
    if has_time and known != "slow":
        raise UsageError(f"{where}: only slow has a time, such as slow:10")
    return FaultChoice(tool=tool, fault=known, seconds=_read_seconds(time, where) if has_time else None)


def _read_seconds(text: str, where: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"{where}: expected seconds after slow:, such as slow:10, got {text!r}")
    return seconds


def _suggest(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"{hint} Known: {', '.join(known[:_SHOWN])}{more}."


def read_faults(given: Any, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a sweep over faults, as stored with its run. Raises UsageError.

    `given`: select, occur, limit. Of the run's own settings, the seed chooses among faults, and `trials` counts.
    """
    known = ("select", "occur", "limit")
    if not isinstance(given, Mapping) or any(key not in known for key in given):
        raise UsageError(f"faults: expected True, TOOL=FAULT, or a mapping with {', '.join(known)}, got {given!r:.80}")
    select, occur, limit = given.get("select", "*"), given.get("occur", "once"), given.get("limit")
    read_choices(str(select))
    if occur not in OCCUR:
        raise UsageError(f"faults: occur {occur!r}: expected one of {', '.join(OCCUR)}")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise UsageError(f"faults: limit {limit!r}: expected a number, 1 or more")
    trials = overrides.get("trials") or 1
    if trials == "auto":
        raise UsageError("faults: trials: auto tests one pass rate, which a sweep does not have. Give a number")
    return {
        "kind": "fault",
        "select": str(select),
        "occur": occur,
        "limit": limit,
        "seed": overrides.get("seed") or 0,
        "trials": trials,
    }


def find_variants(
    prepared: Sequence[PreparedScenario], sweep: Mapping[str, Any], models: RunModels
) -> Iterator[PreparedScenario]:
    """The scenarios with each selected fault of each selected tool. Raises UsageError if a tool does not exist."""
    _require_tools(prepared, sweep)
    for each in prepared:
        yield from _variants_of(each, sweep, models)


def _require_tools(prepared: Sequence[PreparedScenario], sweep: Mapping[str, Any]) -> None:
    if not prepared:
        return
    select = str(sweep.get("select", "*"))
    known = list(dict.fromkeys(tool for each in prepared for tool in tools_of(each)))
    if not known:
        raise UsageError(
            "--faults: no scenario has a tool that could fail. Seatrial lets tools fail that it answers: "
            "add `mocks:` or `world:`"
        )
    for choice in read_choices(select):
        if choice.tool != "*" and choice.tool not in known:
            raise UsageError(f"--faults {select!r}: {_explain_unknown(choice.tool, known)}")


def _explain_unknown(tool: str, known: Sequence[str]) -> str:
    if Path(tool).exists():
        return f"is a path. Write it first: seatrial run {tool} --faults"
    if tool in FAULTS:
        return f"{tool!r} is a fault. For all tools: '*={tool}'"
    return f"no scenario has the tool {tool!r}.{_suggest(tool, known)}"


def read_session_faults(texts: Sequence[str], tools: ToolBox) -> tuple[FaultChoice, ...]:
    """The faults of `mock-server --fault`. Raises UsageError for a tool that is not served."""
    choices = tuple(choice for text in texts for choice in read_choices(text, flag="--fault"))
    known = _answered(tools)
    for choice in choices:
        if choice.tool not in known:
            raise UsageError(f"--fault: there is no tool {choice.tool!r} to fail.{_suggest(choice.tool, known)}")
        if choice.fault is None:
            raise UsageError(f"--fault: {choice.tool}: expected one fault, such as {choice.tool}=timeout")
    return choices


def alter_tools(
    tools: ToolBox, choices: Sequence[FaultChoice], scenario: Scenario, world: Any, *, once: bool
) -> ToolBox:
    """The tools of a session in which all of these fail."""
    for choice in choices:
        assert choice.fault is not None
        seconds, errors = choice.seconds or SLOW_SECONDS, _errors_of(scenario, world, choice.tool)
        tools = AlteredTools(tools, ToolFault(choice.tool, choice.fault, once=once, seconds=seconds, errors=errors))
    return tools


def count_successful(
    evaluators: Sequence[Evaluator], choices: Sequence[FaultChoice], scenario: Scenario
) -> list[Evaluator]:
    """The evaluators. Those that expect calls do not count calls that failed by one of the faults."""
    found = list(evaluators)
    for choice in choices:
        if choice.fault in FAILING:
            found = list(_without_failed(found, choice.tool, scenario))
    return found


def _answered(tools: ToolBox) -> list[str]:
    """The tools that Seatrial answers: by mocks, recordings and the world."""
    return [name for tool in tools.offered() if tools.knows(name := str(tool["name"]))]


def tools_of(prepared: PreparedScenario) -> list[str]:
    """The tools of a scenario that can fail."""
    return _answered(prepared.make_tools("", 0))


def _variants_of(prepared: PreparedScenario, sweep: Mapping[str, Any], models: RunModels) -> Iterator[PreparedScenario]:
    """The scenario with each selected fault of each selected tool."""
    choices = read_choices(str(sweep.get("select", "*")))
    on_failure = _build_on_failure(prepared.scenario, models)
    for tool in tools_of(prepared):
        for fault in FAULTS:
            chosen = [each for each in choices if each.tool in ("*", tool) and each.fault in (None, fault)]
            if chosen:
                seconds = _seconds(prepared, chosen) if fault == "slow" else None
                variant = _make_variant(prepared, sweep, tool, fault, seconds)
                yield replace(variant, on_failure=on_failure)


def _seconds(prepared: PreparedScenario, chosen: Sequence[FaultChoice]) -> float:
    """How long a slow tool takes: less than the agent's own time, which would end the trial."""
    given = [each.seconds for each in chosen if each.seconds is not None]
    if not given:
        return min(SLOW_SECONDS, prepared.timeout_seconds / 2)
    if given[-1] >= prepared.timeout_seconds:
        raise UsageError(
            f"--faults: slow:{given[-1]:g}: the agent has only {prepared.timeout_seconds:g} s in the scenario "
            f"{prepared.entry.key.label!r}. Give fewer seconds, or raise timeout_seconds"
        )
    return given[-1]


def _build_on_failure(scenario: Scenario, models: RunModels) -> tuple[Evaluator, ...]:
    if scenario.on_failure is not None:
        return tuple(build_expectations(scenario.on_failure, scenario, models))
    judge = (scenario.models.judge if scenario.models else None) or models.defaults.get("judge")
    return () if judge is None else tuple(build_expectations(Expect(judge=_TOLD), scenario, models))


def _make_variant(
    prepared: PreparedScenario, sweep: Mapping[str, Any], tool: str, fault: Fault, seconds: float | None
) -> PreparedScenario:
    scenario, occur = prepared.scenario, sweep.get("occur", "once")
    evaluators = [each for turn in prepared.turn_evaluators for each in turn]
    evaluators += [*prepared.every_turn_evaluators, *prepared.trial_evaluators]
    settings = {
        "tool": tool,
        "fault": fault,
        "occur": occur,
        **({} if seconds is None else {"seconds": seconds}),
        "checks_effects": prepared.judge is not None or any(_looks_at(tool, each, scenario) for each in evaluators),
        "checks_words": any(_asks_for_words(each, scenario) for each in evaluators),
    }
    made = make_variant(
        prepared,
        Variant(kind="fault", scenario=scenario.name, settings=settings),
        f"{tool}={fault}",
        lambda: ToolFault(
            tool, fault, once=occur == "once", seconds=seconds or 0.0, errors=_errors_of(scenario, prepared.world, tool)
        ),
    )
    gates = Gates(pass_threshold=prepared.entry.gates.pass_threshold)
    entry = replace(made.entry, trials=int(sweep.get("trials") or 1), gates=gates, xfail=None)
    if fault not in FAILING:
        return replace(made, entry=entry)
    return replace(
        made,
        entry=entry,
        turn_evaluators=tuple(tuple(_without_failed(turn, tool, scenario)) for turn in prepared.turn_evaluators),
        trial_evaluators=tuple(_without_failed(prepared.trial_evaluators, tool, scenario)),
    )


def _errors_of(scenario: Scenario, world: Any, tool: str) -> str | None:
    """How the agent sees an error of the tool: a world may have its own form."""
    return None if tool in (scenario.mocks or ()) else getattr(world, "errors", None)


_WORDS = ("exact", "regex", "similarity", "reply_json")


def _asks_for_words(evaluator: Evaluator, scenario: Scenario) -> bool:
    """Whether the evaluator asks for something in a reply, not only that something is absent."""
    name = getattr(evaluator, "name", None)
    if name == "passfail":
        return (getattr(evaluator, "expected_output", None) or scenario.expected_output) is not None
    asked = ("any_of", "all_of", "matches_any", "matches_all", "contains_all", "contains_any")
    if name in ("contains", "said"):
        return any(getattr(evaluator, group, ()) for group in asked)
    return name in _WORDS


_SEE_NO_EFFECTS = (
    *("reply", "contains", "said", "ended", "exact", "regex", "similarity", "reply_json", "json_schema"),
    *("limits", "guardrail", "invariant", "passfail", "tool_calls", "tool_calls_args", "trajectory"),
)
"""Evaluators that do not look at what a tool did, unless they name it."""


def _looks_at(tool: str, evaluator: Evaluator, scenario: Scenario) -> bool:
    """Whether the evaluator looks at what the tool does: the end state, its calls, or code of the user."""
    name = getattr(evaluator, "evaluator_name", None) or getattr(evaluator, "name", None)
    return name not in _SEE_NO_EFFECTS or tool in _expected_tools(evaluator, scenario)


def _expected_tools(evaluator: Evaluator, scenario: Scenario) -> set[str]:
    """The tools that must be called according to the evaluator."""
    holders: list[Any] = [evaluator, scenario] if isinstance(evaluator, PassFail) else [evaluator]
    return {named.name for holder in holders for named in tools_in(holder) if not named.must_not}


def _without_failed(evaluators: Sequence[Evaluator], tool: str, scenario: Scenario) -> Iterator[Evaluator]:
    """The evaluators. Those that expect calls of the tool do not count calls that failed by the fault."""
    for each in evaluators:
        if tool not in _expected_tools(each, scenario):
            yield each
            continue
        forbidden = {named.name for named in tools_in(each) if named.must_not}
        yield SuccessfulCalls(evaluator=each, name=getattr(each, "name", ""), tool=tool, strict=tool in forbidden)
        output = (each.expected_output or scenario.expected_output) if isinstance(each, PassFail) else None
        if output:
            # passfail stops at its first failure, so it does not say what the reply contains.
            yield Contains(all_of=(output,))


class SuccessfulCalls(Struct, frozen=True, kw_only=True):
    """An evaluator of calls that does not count those which a fault let fail: they had no effect."""

    evaluator: Evaluator
    name: str
    tool: str
    strict: bool = False
    """It also forbids the tool, for which attempts count too."""

    async def evaluate(self, ctx: Context) -> EvalResult:
        result = await self.evaluator.evaluate(_without_failed_calls(ctx))
        if result.passed:
            return await self.evaluator.evaluate(ctx) if self.strict else result
        first, *more = result.reasoning.split("\n")
        told = f"{first} (the call of {self.tool} that failed does not count)"
        return replace(result, reasoning="\n".join([told, *more]))


def _without_failed_calls(ctx: Any) -> Any:
    if not isinstance(ctx, TrialContext):
        return replace(ctx, tool_calls=_successful(ctx.tool_calls))
    turns = tuple(replace(turn, tool_calls=_successful(turn.tool_calls)) for turn in ctx.transcript.turns)
    return replace(ctx, transcript=replace(ctx.transcript, turns=turns))


def _successful(calls: Sequence[ToolCall] | None) -> tuple[ToolCall, ...] | None:
    if calls is None:
        return None
    return tuple(call for call in calls if call.altered not in FAILING)

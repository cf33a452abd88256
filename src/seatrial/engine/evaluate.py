"""Evaluate a transcript: run the evaluators of a scenario on its turns and on the whole."""

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import NoneType
from typing import Any

from msgspec.structs import replace

from seatrial import foreign
from seatrial.evaluators.redacted_evidence import secret_in_expectation
from seatrial.evaluators.text import ReplyProduced
from seatrial.model.conversation import (
    ErrorInfo,
    ErrorKind,
    Message,
    PlayedTurn,
    StopReason,
    ToolCall,
    Transcript,
)
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import Context, Evaluator, PreparedScenario, TrialContext, TurnContext
from seatrial.model.results import Check, EvalResult, InvariantCheck, ModelUse, TrajectoryMatch, TrialError
from seatrial.model.world_view import WorldView
from seatrial.patterns import SlowMatch, only_quick_matches

from .redact import Redaction


async def evaluate(
    prepared: PreparedScenario,
    transcript: Transcript,
    *,
    index: int,
    redaction: Redaction | None = None,
    world: WorldView | None = None,
) -> tuple[EvalResult, ...]:
    """All results of a trial: turn by turn, then of the whole.

    For an errored trial, only trajectories, invariants and attacks are evaluated, on the calls made until then.
    """
    if not transcript.redacted:
        redaction = None
    results: list[EvalResult] = []
    errored = transcript.error is not None
    seconds = prepared.trial_timeout_seconds
    if prepared.turn_evaluators or prepared.every_turn_evaluators:
        history: list[Message] = list(transcript.history)
        for turn in transcript.turns:
            evaluators = _for_turn(prepared, turn, transcript)
            ctx = TurnContext(
                user=turn.user,
                reply=turn.reply or "",
                tool_calls=turn.tool_calls,
                calls_complete=turn.calls_complete,
                reachable_tools=transcript.reachable_tools,
                history=tuple(history),
                scenario=prepared.scenario,
                trial=index,
                turn=turn.index,
                redacted=transcript.redacted,
                guardrail=turn.guardrail,
                attachments=turn.attachments,
                reply_attachments=turn.reply_attachments,
                contexts=turn.contexts,
            )
            for evaluator in _about_calls(evaluators) if errored else evaluators:
                result = await _ask(evaluator, ctx, turn.index, seconds)
                results.append(_check_redacted(result, evaluator, ctx, redaction))
            history += messages_of(turn)
        if not errored:
            by_tool = transcript.stop_reason is StopReason.ENDED_BY_TOOL
            left = range(len(transcript.turns), len(prepared.turn_evaluators))
            results += [_never_played(turn, by_tool=by_tool) for turn in left]
    if prepared.trial_evaluators and not (errored and not transcript.turns):
        whole = TrialContext(transcript=transcript, scenario=prepared.scenario, trial=index, world=world)
        chosen = _about_calls(prepared.trial_evaluators) if errored else prepared.trial_evaluators
        results += await evaluate_whole(chosen, whole, redaction=redaction, seconds=seconds)
    # The error that ended the trial explains missing calls; errors of trajectories would only repeat it.
    return tuple(result for result in results if result.error is None) if errored else tuple(results)


async def evaluate_whole(
    evaluators: Sequence[Evaluator], ctx: TrialContext, *, redaction: Redaction | None, seconds: float
) -> list[EvalResult]:
    """The results of evaluators of a whole trial."""
    return [
        _check_redacted(await _ask(evaluator, ctx, None, seconds), evaluator, ctx, redaction)
        for evaluator in evaluators
    ]


def _for_turn(prepared: PreparedScenario, turn: PlayedTurn, transcript: Transcript) -> Sequence[Evaluator]:
    own = prepared.turn_evaluators[turn.index] if turn.index < len(prepared.turn_evaluators) else ()
    evaluators = (*prepared.every_turn_evaluators, *own)
    if transcript.stop_reason is StopReason.ENDED_BY_TOOL and turn is transcript.turns[-1]:
        # The user hears no reply to a call that ends the conversation.
        return [each for each in evaluators if not isinstance(each, ReplyProduced)]
    return evaluators


def _about_calls(evaluators: Sequence[Evaluator]) -> list[Evaluator]:
    return [evaluator for evaluator in evaluators if evaluator_name(evaluator) in ("trajectory", "invariant", "attack")]


async def _ask(evaluator: Evaluator, ctx: Any, turn: int | None, seconds: float) -> EvalResult:
    name = evaluator_name(evaluator)
    of_user = _is_user_code(type(evaluator))
    try:
        said: Any = await (_call_user_code if of_user else _call_built_in)(evaluator, ctx, seconds)
    except TrialError as missing:
        error = replace(missing.info, message=f"evaluator {name!r}: {missing.info.message}", turn=turn)
        return EvalResult(passed=False, reasoning=error.message, error=error, evaluator=name, turn=turn)
    except foreign.ForeignError as raised:
        return _broken(name, turn, str(raised), raised.traceback)
    except TimeoutError:
        return _broken(name, turn, f"TimeoutError: no answer within {seconds:g} s (trial_timeout_seconds)")
    except Exception as bug:
        return _broken(name, turn, foreign.describe(bug), "".join(traceback.format_exception(bug)))
    if not isinstance(said, EvalResult):
        return _broken(name, turn, f"returned {said!r:.200} instead of an EvalResult")
    passed: Any = said.passed
    if passed is not True and passed is not False:
        return _broken(name, turn, f"passed must be True or False, got {passed!r:.200}; wrap it in bool(...)")
    problem = _find_problem(said) if of_user else None
    if problem is not None:
        return _broken(name, turn, problem)
    if said.evaluator == name and said.turn == turn:
        return said
    return replace(said, evaluator=name, turn=turn)


_FROM_SCENARIO = ("expected_tools", "expected_tool_args", "expected_output")


def _check_redacted(result: EvalResult, evaluator: Evaluator, ctx: Context, redaction: Redaction | None) -> EvalResult:
    """The result; errored if it failed because its expectation contains a redacted value."""
    if redaction is None or result.passed or result.error is not None:
        return result
    expectation = [plain_value(evaluator)]
    if result.evaluator in ("passfail", "exact") and ctx.scenario is not None:
        expectation += [plain_value(getattr(ctx.scenario, name)) for name in _FROM_SCENARIO]
    found: set[str] = set()
    redaction.value(expectation, found)
    names = sorted(found.intersection(ctx.redacted))
    if not names:
        return result
    error = replace(secret_in_expectation(result.evaluator, names), turn=result.turn)
    return EvalResult(passed=False, reasoning=error.message, error=error, evaluator=result.evaluator, turn=result.turn)


async def _call_built_in(evaluator: Evaluator, ctx: Any, seconds: float) -> Any:
    """The answer of our own evaluator. Slow patterns are matched in a thread, so that the run stays interruptible."""
    try:
        with only_quick_matches():
            return await evaluator.evaluate(ctx)
    except SlowMatch:
        return await _call_foreign(_evaluate_here, evaluator, ctx, timeout=seconds)


def _evaluate_here(evaluator: Evaluator, ctx: Any) -> EvalResult:
    """The answer of an evaluator that matches patterns; it waits for nothing else, so it needs no event loop."""
    try:
        evaluator.evaluate(ctx).send(None)
    except StopIteration as ended:
        result: EvalResult = ended.value
        return result
    raise AssertionError(f"{evaluator_name(evaluator)} waited")


async def _call_foreign(function: Callable[..., Any], *args: Any, timeout: float) -> Any:
    try:
        return await foreign.call(function, *args, timeout=timeout)
    except foreign.ForeignError as error:
        if isinstance(error.raised, TrialError):
            raise error.raised from None
        raise


async def _call_user_code(evaluator: Any, ctx: Any, seconds: float) -> Any:
    """The answer of a user's evaluator. It gets a copy, so that it cannot change what is stored."""
    ctx = own_copy(ctx)
    read_result = getattr(evaluator, "read_result", None)
    if read_result is not None:  # a function marked with @evaluator
        return read_result(await _call_foreign(evaluator.function, ctx, timeout=seconds))
    return await _call_foreign(evaluator.evaluate, ctx, timeout=seconds)


_MAY_BE: Mapping[str, tuple[tuple[type, ...], str, str]] = {
    "reasoning": ((str, NoneType), "a str", "wrap it in str(...)"),
    "score": ((int, float), "a number", "wrap it in float(...)"),
    "checks": ((tuple, list), "Checks", "import them from seatrial.model.results"),
    "error": ((ErrorInfo, NoneType), "an ErrorInfo", "raise an exception where there is no answer"),
    "trajectory": ((TrajectoryMatch, NoneType), "a TrajectoryMatch", "leave it out"),
    "invariant": ((InvariantCheck, NoneType), "an InvariantCheck", "leave it out"),
    "gold_calls": ((tuple, list, NoneType), "ToolCalls", "leave it out"),
    "attack": ((NoneType,), "None", "leave it out"),
    "use": ((ModelUse, NoneType), "a ModelUse", "leave it out"),
}
_INSIDE: Mapping[str, type] = {"checks": Check, "gold_calls": ToolCall}


def _find_problem(said: EvalResult) -> str | None:
    """What is wrong with a user's result: a value that cannot be stored would end the run."""
    for field, (kinds, expected, remedy) in _MAY_BE.items():
        value = getattr(said, field)
        inside = _INSIDE.get(field, object)
        values = list(value) if isinstance(value, tuple | list) else []
        if not isinstance(value, kinds) or not all(isinstance(each, inside) for each in values):
            return f"{field} must be {expected}, got {value!r:.200}; {remedy}"
    return None


@lru_cache
def _is_user_code(kind: type) -> bool:
    """Whether it runs user code: in the user's class, or in a function that our class wraps."""
    return not kind.__module__.startswith("seatrial.") or hasattr(kind, "__wrapped__")


def _broken(name: str, turn: int | None, message: str, foreign: str | None = None) -> EvalResult:
    error = ErrorInfo(kind=ErrorKind.EVALUATOR, message=f"evaluator {name!r}: {message}", turn=turn, traceback=foreign)
    return EvalResult(passed=False, reasoning=error.message, error=error, evaluator=name, turn=turn)


def _never_played(turn: int, *, by_tool: bool) -> EvalResult:
    """The result of a scripted turn that was never played: errored; failed if the agent ended the conversation."""
    if by_tool:
        detail = f"turn {turn + 1} of the script was never played: the agent ended the conversation by a tool"
        check = Check(name="script", passed=False, detail=detail)
        return EvalResult(passed=False, reasoning=detail, checks=(check,), evaluator="script", turn=turn)
    message = f"turn {turn + 1} of the script was never played, so its expectations have no answer"
    error = ErrorInfo(
        kind=ErrorKind.CONFIG,
        message=message,
        hint="run the scenario again",
        turn=turn,
    )
    return EvalResult(passed=False, reasoning=message, error=error, evaluator="script", turn=turn)


def evaluator_name(evaluator: Any) -> str:
    """Its `evaluator_name` or `name`, or else the name of its class."""
    name = getattr(evaluator, "evaluator_name", None) or getattr(evaluator, "name", None)
    return name if isinstance(name, str) and name else type(evaluator).__name__


def messages_of(turn: PlayedTurn) -> list[Message]:
    """The turn as chat messages: the user's message, the recorded calls with their results, and the reply."""
    messages: list[Message] = [{"role": "user", "content": turn.user}]
    calls = turn.tool_calls or ()
    if calls:
        asked = [_asked(call, place) for place, call in enumerate(calls)]
        messages.append({"role": "assistant", "content": None, "tool_calls": asked})
        messages += [_answered(call, place) for place, call in enumerate(calls)]
    return [*messages, {"role": "assistant", "content": turn.reply or ""}]


def _asked(call: ToolCall, place: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _as_text(call.arguments)}
    return {"id": _id(call, place), "type": "function", "function": function}


def _answered(call: ToolCall, place: int) -> Message:
    said = (call.result if call.result_known else "[not recorded]") if call.error is None else {"error": call.error}
    return {"role": "tool", "tool_call_id": _id(call, place), "name": call.name, "content": _as_text(said)}


def _id(call: ToolCall, place: int) -> str:
    return call.id or f"call-{place + 1}"


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # odd keys, or a cycle
        return repr(value)


def own_copy(ctx: Context) -> Context:
    """A copy of the context, as deep as it is mutable; the same object if nothing in it is mutable."""
    if not isinstance(ctx, TrialContext):
        if not ctx.tool_calls and not ctx.history:
            return ctx
        calls = None if ctx.tool_calls is None else tuple(map(_call, ctx.tool_calls))
        return replace(ctx, tool_calls=calls, history=tuple(map(plain_value, ctx.history)))
    transcript = ctx.transcript
    ctx = ctx if ctx.world is None else replace(ctx, world=ctx.world.own_copy())
    if not transcript.history and transcript.state is None and not any(turn.tool_calls for turn in transcript.turns):
        return ctx
    turns = tuple(map(_turn, transcript.turns))
    history = tuple(map(plain_value, transcript.history))
    transcript = replace(transcript, turns=turns, history=history, state=plain_value(transcript.state))
    return replace(ctx, transcript=transcript)


def _turn(turn: PlayedTurn) -> PlayedTurn:
    return replace(turn, tool_calls=tuple(map(_call, turn.tool_calls))) if turn.tool_calls else turn


def _call(call: ToolCall) -> ToolCall:
    return replace(call, arguments=plain_value(call.arguments), result=plain_value(call.result))

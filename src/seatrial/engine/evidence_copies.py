"""What an evaluator of the user's may change without harm: one that takes a key out of a call's arguments, to compare
the rest, must change neither what the next one sees nor what is stored."""

from msgspec.structs import replace

from seatrial.model.conversation import PlayedTurn, ToolCall
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import Context, TrialContext


def own_copy(ctx: Context) -> Context:
    """The same context with whatever can be changed in it made anew; the very same where nothing can."""
    if not isinstance(ctx, TrialContext):
        if not ctx.tool_calls and not ctx.history:
            return ctx
        calls = None if ctx.tool_calls is None else tuple(map(_call, ctx.tool_calls))
        return replace(ctx, tool_calls=calls, history=tuple(map(plain_value, ctx.history)))
    transcript = ctx.transcript
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

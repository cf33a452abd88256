"""A played turn as chat messages, tool calls and their results included: what came before the turn that is judged."""

import json
from typing import Any

from seatrial.model.conversation import Message, PlayedTurn, ToolCall


def messages_of(turn: PlayedTurn) -> list[Message]:
    """The user's message, the calls with what they returned, and the reply; calls that nobody recorded are left out."""
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
    said = call.result if call.error is None else {"error": call.error}
    return {"role": "tool", "tool_call_id": _id(call, place), "name": call.name, "content": _as_text(said)}


def _id(call: ToolCall, place: int) -> str:
    return call.id or f"call-{place + 1}"


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # odd keys, a value that holds itself
        return repr(value)

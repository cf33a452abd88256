"""The events of a transcript in order: what the user said, the calls that the agent made, what the agent said."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .conversation import Message, ToolCall, Transcript, is_blank
from .struct import Struct

BEFORE = -1
"""The turn of events in `history`, before the first turn."""


class UserSaid(Struct, frozen=True):
    turn: int
    text: str


class CallMade(Struct, frozen=True):
    turn: int
    position: int
    """Its place among the calls of the turn, from 0."""
    call: ToolCall


class AgentSaid(Struct, frozen=True):
    turn: int
    text: str


TranscriptEvent = UserSaid | CallMade | AgentSaid


def events_of(transcript: Transcript) -> Iterator[TranscriptEvent]:
    """The events of all turns. A turn is: the user's message, the known calls, the reply unless it is blank."""
    for turn in transcript.turns:
        yield UserSaid(turn.index, turn.user)
        for position, call in enumerate(turn.tool_calls or ()):
            yield CallMade(turn.index, position, call)
        if turn.reply is not None and not is_blank(turn.reply):
            yield AgentSaid(turn.index, turn.reply)


def history_events(transcript: Transcript) -> Iterator[TranscriptEvent]:
    """The events of the messages before the first turn, in the turn `BEFORE`."""
    results = {message.get("tool_call_id"): message.get("content") for message in transcript.history}
    position = 0
    for message in transcript.history:
        text = _text_of(message)
        if message.get("role") == "user":
            yield UserSaid(BEFORE, text)
        elif message.get("role") == "assistant":
            for asked in message.get("tool_calls") or ():
                yield CallMade(BEFORE, position, _call_of(asked, results))
                position += 1
            if not is_blank(text):
                yield AgentSaid(BEFORE, text)


def _text_of(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, list | tuple):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _call_of(asked: Any, results: Mapping[Any, Any]) -> ToolCall:
    """A call as in chat completions."""
    function = asked.get("function", asked) if isinstance(asked, Mapping) else {}
    arguments = function.get("arguments")
    return ToolCall(
        str(function.get("name", "")),
        decoded(arguments),
        results.get(asked.get("id")) if isinstance(asked, Mapping) else None,
    )


def decoded(value: Any) -> Any:
    """The value; a text that is a JSON object or list is decoded."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value

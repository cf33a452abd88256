"""A streamed chat completion, put together again from its pieces."""

import json
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from seatrial.model.protocols import AgentReply
from seatrial.model.trial_errors import AgentFailure

from .chat_messages import read_message
from .http_client import Incoming
from .http_errors import not_an_answer, show_body
from .replies import LACKING, has_failed, lacks_calls, parse_arguments
from .sse import Event, EventReader


@dataclass(slots=True)
class _CallPieces:
    id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    object: Any = None
    """Arguments that came as an object, which cannot come in pieces."""
    repeats: bool = False
    """It began with the name of the call before it."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing more can belong to its arguments."""
        text = "".join(self.arguments)
        return self.object is not None or (bool(text) and isinstance(parse_arguments(text), dict))

    @property
    def is_echo(self) -> bool:
        """Whether it is only the name of the call before it, said once more: that is no second call."""
        return self.repeats and not self.id and self.object is None and not "".join(self.arguments).strip()

    def whole(self) -> dict[str, Any]:
        arguments = self.object if self.object is not None else "".join(self.arguments)
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


class _MessagePieces:
    """What has come so far."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.refusal: list[str] = []
        self.calls: list[_CallPieces] = []
        self.by_index: dict[Any, _CallPieces] = {}
        self.usage: Any = None
        self.events = 0
        self.finished = False
        self.finish_reason: Any = None

    def add(self, chunk: Mapping[str, Any], raw: str) -> None:
        self.usage = chunk.get("usage") or self.usage
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, Mapping):
            return
        if has_failed(choice):
            raise not_an_answer("streamed an error", raw)
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.finished = self.finished or self.finish_reason is not None
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, Mapping):
            raise not_an_answer("streamed a delta that is no object", raw)
        if delta.get("function_call"):
            raise AgentFailure("endpoint streamed the retired function_call", final=True)
        self._add_text(delta, raw)
        for piece in delta.get("tool_calls") or ():
            if not isinstance(piece, Mapping):
                raise not_an_answer("streamed a tool call that is no object", raw)
            self._add_call(piece)

    def _add_text(self, delta: Mapping[str, Any], raw: str) -> None:
        content = delta.get("content")
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
        if isinstance(content, str):
            self.content.append(content)
        elif content is not None:
            raise not_an_answer("streamed content that is no text", raw)
        if isinstance(delta.get("refusal"), str):
            self.refusal.append(delta["refusal"])

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        name = str(function.get("name") or "")
        call = self._call_of(piece, name)
        call.id = call.id or piece.get("id")
        call.name = call.name or name
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.append(arguments)
        elif arguments is not None:
            call.object = arguments

    def _call_of(self, piece: Mapping[str, Any], name: str) -> _CallPieces:
        """The call that a piece belongs to. Some endpoints leave the index out, or give all calls the same one."""
        index = piece.get("index")
        known = self.by_index.get(index) if index is not None else (self.calls[-1] if self.calls else None)
        another = known is not None and name and _begins_another(known, piece.get("id"), name)
        if known is None or another or (index is None and name):
            known = _CallPieces(repeats=known is not None and index is not None and name == known.name)
            self.calls.append(known)
            if index is not None:
                self.by_index[index] = known
        return known

    def whole(self) -> dict[str, Any]:
        content, refusal = "".join(self.content), "".join(self.refusal)
        return {
            "role": "assistant",
            "content": content if content or not (self.calls or refusal) else None,
            "refusal": refusal or None,
            "tool_calls": [call.whole() for call in self.calls if not call.is_echo],
        }


def _begins_another(known: _CallPieces, identity: Any, name: str) -> bool:
    """Whether a piece with a name begins a call beside the one known under its index: the ids tell, else that there is
    nothing left to be said of the known one. (Some endpoints repeat the name in every piece.)"""
    return bool(identity != known.id) if identity else name != known.name or known.is_complete


async def read_stream(incoming: Incoming, *, position: int) -> AgentReply:
    """The reply at the end of a stream. A stream that ends early is a failure, never a shorter reply."""
    pieces, reader = _MessagePieces(), EventReader()
    async with aclosing(incoming.chunks()) as chunks:
        async for chunk in chunks:
            if _add_events(reader.feed(chunk), pieces):
                await incoming.drain(chunks)
                break
        else:
            _add_events(reader.finish(), pieces)
    if not pieces.events:
        raise AgentFailure("endpoint returned an empty stream", hint="it must send at least one completion chunk")
    if not pieces.finished:
        raise AgentFailure(f"the stream broke off before its end, after: {show_body(''.join(pieces.content))}")
    reply = read_message(pieces.whole(), usage=pieces.usage, position=position)
    if lacks_calls(pieces.finish_reason, reply):
        raise AgentFailure(f"endpoint streamed a completion that {LACKING}: {show_body(''.join(pieces.content))}")
    return reply


def _add_events(events: Iterable[Event], pieces: _MessagePieces) -> bool:
    """Add what came to the message; whether the sender says that it is done."""
    for event in events:
        if event.data.strip() == "[DONE]":
            pieces.finished = True
            return True
        pieces.events += 1
        pieces.add(_read_chunk(event.name, event.data), event.data)
    return False


def _read_chunk(name: str, data: str) -> Mapping[str, Any]:
    if name == "error":
        raise not_an_answer("streamed an error", data)
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        raise not_an_answer("streamed a chunk that is no JSON", data) from None
    if not isinstance(chunk, Mapping):
        raise not_an_answer("streamed a chunk that is no object", data)
    if chunk.get("error"):
        raise not_an_answer("streamed an error", data)
    return chunk

"""Agents of type `openai`: any chat-completions endpoint, with plain or streamed responses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.model.conversation import Message, ToolCall
from seatrial.model.protocols import AgentReply
from seatrial.model.results import AgentFailure

from .chat_messages import (
    NO_CALLS_NAMED,
    has_failed,
    lacks_calls,
    parse_arguments,
    read_amount,
    read_requested,
    read_usage,
    require_no_other_calls,
)
from .endpoint import EndpointAgent, Tools, broken_off, end_path
from .http_client import not_an_answer, show_body
from .message_parts import attachments_in
from .server_events import Event, read_event


@dataclass(slots=True)
class _CallPieces:
    id: str | None = None
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    object: Any = None
    """Arguments that were sent as an object, in one piece."""
    repeats: bool = False
    """It starts with the name of the call before it."""

    @property
    def is_complete(self) -> bool:
        """Whether its arguments are complete."""
        text = "".join(self.arguments)
        return self.object is not None or (bool(text) and isinstance(parse_arguments(text), dict))

    @property
    def is_echo(self) -> bool:
        """Whether it only repeats the name of the call before it: that is no second call."""
        return self.repeats and not self.id and self.object is None and not "".join(self.arguments).strip()

    def whole(self) -> dict[str, Any]:
        arguments = self.object if self.object is not None else "".join(self.arguments)
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


class _MessagePieces:
    """A message that is being streamed."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.refusal: list[str] = []
        self.calls: list[_CallPieces] = []
        self.by_index: dict[Any, _CallPieces] = {}
        self.usage: Any = None
        self.events = 0
        self.finished = False
        self.finish_reason: Any = None

    def add(self, event: Event) -> bool:
        if event.data.strip() == "[DONE]":
            self.finished = True
            return True
        self.events += 1
        self._add_chunk(read_event(event), event.data)
        return False

    def finish(self, *, position: int) -> AgentReply:
        said = "".join(self.content)
        if not self.finished or not self.events:
            raise broken_off(said, events=self.events)
        reply = read_message(self.whole(), usage=self.usage, position=position)
        if lacks_calls(self.finish_reason, reply):
            raise AgentFailure(f"endpoint streamed a completion that {NO_CALLS_NAMED}: {show_body(said)}")
        return reply

    def _add_chunk(self, chunk: Mapping[str, Any], raw: str) -> None:
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
        """The call that a piece belongs to. Some endpoints send no index, or the same one for all calls."""
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
    """Whether a piece with a name starts another call than the known one of its index. The ids decide; without ids, a
    new name or complete arguments. (Some endpoints repeat the name in every piece.)"""
    return bool(identity != known.id) if identity else name != known.name or known.is_complete


def read_completion(completion: Mapping[str, Any], body: bytes, *, position: int) -> AgentReply:
    """The reply in a completion."""
    choices = completion.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if completion.get("error") or (isinstance(first, Mapping) and has_failed(first)):
        raise not_an_answer("returned an error", body)
    message = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(message, Mapping):
        raise not_an_answer("returned a completion without choices[0].message", body)
    reply = read_message(message, usage=completion.get("usage"), position=position)
    if isinstance(first, Mapping) and lacks_calls(first.get("finish_reason"), reply):
        raise not_an_answer(f"returned a completion that {NO_CALLS_NAMED}", body)
    return reply


def read_message(message: Mapping[str, Any], *, usage: Any, position: int) -> AgentReply:
    """The reply in an assistant message."""
    if message.get("function_call"):
        raise AgentFailure(
            "endpoint returned the retired function_call", hint="it must answer with tool_calls", final=True
        )
    calls = read_requested(message.get("tool_calls"), position=position)
    if not calls:
        require_no_other_calls(message)
    content = _read_content(message)
    return AgentReply(
        reply=None if calls else content,
        tool_calls=(),
        requested=calls,
        messages=(_to_append(message, content, calls),),
        attachments=attachments_in([*_parts(message.get("content")), *_parts(message.get("images"))]),
        usage=read_usage(usage),
        cost_usd=read_amount(usage.get("cost")) if isinstance(usage, Mapping) else None,
    )


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else []


def _read_content(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if content is None:
        refused = message.get("refusal")
        return refused if isinstance(refused, str) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise not_an_answer("returned a message whose content is no text", repr(content))
    return "".join(_read_part(part) for part in content)


def _read_part(part: Any) -> str:
    """The text in a part of the content; images and reasoning have none that the user sees."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        for key in ("text", "refusal"):
            if isinstance(part.get(key), str) and part.get("type") not in ("thinking", "reasoning"):
                return str(part[key])
        return ""
    raise not_an_answer("returned a message whose content has a part that is no object", repr(part))


def _to_append(message: Mapping[str, Any], content: str | None, calls: Sequence[ToolCall]) -> Message:
    """The agent's message in a form that can be sent back: with ids, without empty fields."""
    kept = {key: value for key, value in message.items() if value not in (None, [])}
    appended: Message = {**kept, "role": "assistant", "content": kept.get("content", content)}
    if calls:
        appended["tool_calls"] = [
            _call_to_append(raw, call) for raw, call in zip(message["tool_calls"], calls, strict=True)
        ]
    return appended


def _call_to_append(raw: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    function = raw.get("function", raw)
    arguments = function.get("arguments")
    written = {"name": call.name, "arguments": "{}" if arguments in (None, "") else arguments}
    return {"id": call.id, "type": "function", "function": written}


class ChatCompletions:
    """The form of the Chat Completions API, which is also that of Seatrial's messages."""

    reserved: Mapping[str, str] = {
        "messages": "history or system in the scenario",
        "stream": "stream beside body",
        "tools": "tools beside body",
    }

    def path(self, path: str, *, model: str | None) -> str:
        return end_path(path, "/chat/completions")

    def key_header(self, api_key: str) -> tuple[str, str]:
        return "authorization", f"Bearer {api_key}"

    def fixed(self, *, model: str | None, stream: bool) -> dict[str, Any]:
        fields: dict[str, Any] = {} if model is None else {"model": model}
        return fields | ({"stream": True, "stream_options": {"include_usage": True}} if stream else {})

    def request(self, messages: Sequence[Message], tools: Tools) -> dict[str, Any]:
        return {"messages": list(messages)} | ({"tools": list(tools.values())} if tools else {})

    def read(self, answer: Mapping[str, Any], body: bytes, *, position: int) -> AgentReply:
        return read_completion(answer, body, position=position)

    def open_stream(self) -> _MessagePieces:
        return _MessagePieces()


@dataclass(kw_only=True, eq=False)
class OpenAIChatAgent(EndpointAgent):
    """A chat-completions endpoint."""

    form = ChatCompletions()
    name: str = "openai"

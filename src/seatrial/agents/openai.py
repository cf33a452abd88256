"""Agents of type `openai`: any chat-completions endpoint, with plain or streamed responses."""

import codecs
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from seatrial.errors import UsageError
from seatrial.model.conversation import Message, ToolCall
from seatrial.model.protocols import AgentReply, AgentSession, TrialStart
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
from .http_client import (
    HttpConnections,
    HttpRequest,
    HttpResponse,
    check_headers,
    check_url,
    not_an_answer,
    not_json,
    show_body,
)

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    name: str
    data: str


class EventReader:
    """Server-sent events from the bytes of a body."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._line: list[str] = []
        """Pieces of a line that has not ended yet."""
        self._held = ""
        """A carriage return whose line feed may follow: both are one line end."""
        self._name = "message"
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that end within this chunk."""
        return self._take(self._decoder.decode(chunk))

    def finish(self) -> list[Event]:
        """The last event, if the blank line after it is missing."""
        return [*self._take(self._decoder.decode(b"", final=True) + "\n"), *self._take("\n")]

    def _take(self, text: str) -> list[Event]:
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        first, *rest = _LINE_END.split(text.removesuffix("\r"))
        self._line.append(first)
        events = []
        for piece in rest:
            event = self._end_line("".join(self._line))
            self._line = [piece]
            if event is not None:
                events.append(event)
        return events

    def _end_line(self, line: str) -> Event | None:
        if line:
            key, _, value = line.partition(":")
            if key == "data":
                self._data.append(value.removeprefix(" "))
            elif key == "event":
                self._name = value.removeprefix(" ")
            return None
        event = Event(self._name, "\n".join(self._data)) if self._data else None
        self._name, self._data = "message", []
        return event


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


async def read_stream(response: HttpResponse, *, position: int) -> AgentReply:
    """The reply of a stream. A stream that ends early is a failure, never a shorter reply."""
    pieces, reader = _MessagePieces(), EventReader()
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            if _add_events(reader.feed(chunk), pieces):
                await response.drain(chunks)
                break
        else:
            _add_events(reader.finish(), pieces)
    if not pieces.events:
        raise AgentFailure("endpoint returned an empty stream", hint="it must send at least one completion chunk")
    if not pieces.finished:
        raise AgentFailure(f"the stream broke off before its end, after: {show_body(''.join(pieces.content))}")
    reply = read_message(pieces.whole(), usage=pieces.usage, position=position)
    if lacks_calls(pieces.finish_reason, reply):
        raise AgentFailure(
            f"endpoint streamed a completion that {NO_CALLS_NAMED}: {show_body(''.join(pieces.content))}"
        )
    return reply


def _add_events(events: Iterable[Event], pieces: _MessagePieces) -> bool:
    """Add events to the message. True if the sender says that the stream is complete."""
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


def read_completion(body: bytes, *, media_type: str, position: int) -> AgentReply:
    """The reply in the JSON body of a completion."""
    try:
        completion = json.loads(body)
    except (ValueError, RecursionError):
        raise not_json(media_type, body) from None
    if not isinstance(completion, Mapping):
        raise not_an_answer("returned JSON that is no object", body)
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
        usage=read_usage(usage),
        cost_usd=read_amount(usage.get("cost")) if isinstance(usage, Mapping) else None,
    )


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


_PATH = "/chat/completions"
_RESERVED = {
    "messages": "history or system in the scenario",
    "stream": "stream beside body",
    "tools": "tools beside body",
}


@dataclass(kw_only=True, eq=False)
class OpenAIChatAgent:
    """A chat-completions endpoint. The fields are the keys of the settings."""

    answers_own_tools: bool = field(default=False, init=False)
    keeps_conversation: bool = field(default=True, init=False)

    base_url: str
    model: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    body: Mapping[str, Any] | None = None
    """Further fields of every request."""
    stream: bool = False
    tools: Sequence[Mapping[str, Any]] = ()
    api_key: str | None = field(default=None, repr=False)
    """Sent as `Authorization: Bearer …`."""
    name: str = "openai"

    def __post_init__(self) -> None:
        where = f"agent {self.name!r}"
        self._url = _completions_url(check_url(self.base_url, where=f"{where}.base_url"))
        self._headers = _complete_headers(check_headers(self.headers, where=f"{where}.headers"), self.api_key, where)
        self._body = _check_body(self.model, self.body, self.stream, where=where)
        self._tools = define_tools(self.tools, where=f"{where}.tools")
        self._connections = HttpConnections(self._url)

    @property
    def offered_tools(self) -> frozenset[str]:
        """The names of its own `tools`."""
        return frozenset(self._tools)

    def open(self, start: TrialStart) -> AgentSession:
        return _ChatSession(self, define_tools(start.tool_schemas, where="tools"))

    async def close(self) -> None:
        await self._connections.close()

    async def complete(
        self, messages: Sequence[Message], tools: Mapping[str, dict[str, Any]], *, timeout: float
    ) -> AgentReply:
        """The endpoint's reply to a conversation. The scenario's tools replace the agent's of the same name."""
        payload = {**self._body, "messages": list(messages)}
        definitions = [*{**self._tools, **tools}.values()]
        if definitions:
            payload["tools"] = definitions
        request = HttpRequest(method="POST", url=self._url, headers=self._headers, content=json.dumps(payload).encode())
        async with self._connections.exchange(request, timeout=timeout) as response:
            # Some endpoints always stream, some never: read what the response says it is.
            if response.media_type == "text/event-stream":
                return await read_stream(response, position=len(messages))
            body = await response.read()
        if not body.strip():
            raise not_an_answer(f"returned {response.status}", body)
        return read_completion(body, media_type=response.media_type, position=len(messages))


class _ChatSession:
    """One trial. The endpoint gets the whole conversation each time, so nothing is kept."""

    reachable_tools = None

    def __init__(self, agent: OpenAIChatAgent, tools: Mapping[str, dict[str, Any]]) -> None:
        self._agent = agent
        self._tools = tools

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        return await self._agent.complete(messages, self._tools, timeout=timeout)

    async def close(self) -> None:
        """Connections belong to the agent."""


def define_tools(tools: Any, *, where: str) -> dict[str, dict[str, Any]]:
    """Tool definitions of chat completions by name; from plain or wrapped definitions."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise UsageError(f"{where}: expected a list of tool definitions, got {tools!r}")
    return dict(_define_tool(tool, f"{where}[{index}]") for index, tool in enumerate(tools))


def _define_tool(tool: Any, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(tool, Mapping):
        raise UsageError(f"{where}: expected a mapping {{name, description, parameters}}, got {tool!r}")
    kind = tool.get("type", "function")
    if kind != "function":  # a tool of the provider, such as web_search
        return json.dumps(tool, sort_keys=True), dict(tool)
    function = tool.get("function", tool)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"{where}: expected the name of the tool, got {name!r}")
    kept = {key: value for key, value in function.items() if key not in ("type", "output_schema")}
    parameters = kept.pop("parameters", None) or {"type": "object", "properties": {}}
    return name, {"type": "function", "function": {**kept, "parameters": parameters}}


def _completions_url(base_url: str) -> str:
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(_PATH) else path + _PATH, fragment=""))


def _complete_headers(headers: dict[str, str], api_key: Any, where: str) -> dict[str, str]:
    given = {name.lower() for name in headers}
    if api_key is not None:
        if "authorization" in given:
            raise UsageError(f"{where}: api_key and headers.Authorization are both given; keep one")
        if not isinstance(api_key, str):
            raise UsageError(f"{where}.api_key: expected a text, got a value of type {type(api_key).__name__}")
        headers |= check_headers({"authorization": f"Bearer {api_key}"}, where=f"{where}.api_key")
    defaults = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    return {**{name: value for name, value in defaults.items() if name not in given}, **headers}


def _check_body(model: Any, body: Any, stream: Any, *, where: str) -> dict[str, Any]:
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise UsageError(f"{where}.model: expected the name of a model, got {model!r}")
    if not isinstance(stream, bool):
        raise UsageError(f"{where}.stream: expected true or false, got {stream!r}")
    if body is not None and not isinstance(body, Mapping):
        raise UsageError(f"{where}.body: expected a mapping, got {body!r}")
    for key, instead in _RESERVED.items():
        if body and key in body:
            raise UsageError(f"{where}.body.{key}: cannot be set here; use {instead}")
    payload: dict[str, Any] = {} if model is None else {"model": model}
    if stream:
        payload |= {"stream": True, "stream_options": {"include_usage": True}}
    payload |= body or {}
    try:
        json.dumps(payload, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}.body: cannot be sent as JSON: {error}") from None
    return {key: value for key, value in payload.items() if key != "stream_options" or value is not None}

"""Agents behind an API of a model provider. Seatrial runs the tool loop; each API has its own form of messages."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol
from urllib.parse import urlsplit, urlunsplit

from seatrial.errors import UsageError
from seatrial.model.conversation import Message
from seatrial.model.protocols import AgentReply, AgentSession, TrialStart
from seatrial.model.results import AgentFailure

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
from .server_events import Event, EventReader

Tools = Mapping[str, dict[str, Any]]
"""Tool definitions of chat completions by name, and definitions of the provider's own tools as they are."""


class StreamedReply(Protocol):
    """A reply that is being streamed."""

    def add(self, event: Event) -> bool:
        """Add an event. True if it says that the stream is complete."""
        ...

    def finish(self, *, position: int) -> AgentReply:
        """The reply. A stream that ended early is a failure, never a shorter reply."""
        ...


class ApiForm(Protocol):
    """How one API writes requests and replies."""

    reserved: Mapping[str, str]
    """Fields that `body` must not have, and the setting to use instead."""

    def path(self, path: str, *, model: str | None) -> str:
        """The path of requests, from the path of `base_url`."""
        ...

    def key_header(self, api_key: str) -> tuple[str, str]: ...

    def fixed(self, *, model: str | None, stream: bool) -> dict[str, Any]:
        """The fields that all requests have."""
        ...

    def request(self, messages: Sequence[Message], tools: Tools) -> dict[str, Any]:
        """The fields with the conversation and the tools."""
        ...

    def read(self, answer: Mapping[str, Any], body: bytes, *, position: int) -> AgentReply:
        """The reply in a JSON body."""
        ...

    def open_stream(self) -> StreamedReply: ...


@dataclass(kw_only=True, eq=False)
class EndpointAgent:
    """An endpoint. The fields are the keys of the settings."""

    form: ClassVar[ApiForm]
    default_headers: ClassVar[Mapping[str, str]] = {}

    answers_own_tools: bool = field(default=False, init=False)
    keeps_conversation: bool = field(default=True, init=False)
    takes_attachments: bool = field(default=True, init=False)
    continues: bool = field(default=True, init=False)

    base_url: str
    model: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    body: Mapping[str, Any] | None = None
    """Further fields of every request."""
    stream: bool = False
    tools: Sequence[Mapping[str, Any]] = ()
    api_key: str | None = field(default=None, repr=False)
    name: str = "endpoint"

    def __post_init__(self) -> None:
        where = f"agent {self.name!r}"
        parts = urlsplit(check_url(self.base_url, where=f"{where}.base_url"))
        if self.model is not None and (not isinstance(self.model, str) or not self.model.strip()):
            raise UsageError(f"{where}.model: expected the name of a model, got {self.model!r}")
        path = self.form.path(parts.path.rstrip("/"), model=self.model)
        self._url = urlunsplit(parts._replace(path=path, fragment=""))
        self._headers = self._complete_headers(check_headers(self.headers, where=f"{where}.headers"), where)
        self._body = self._check_body(where)
        self._tools = define_tools(self.tools, where=f"{where}.tools")
        self._connections = HttpConnections(self._url)

    @property
    def offered_tools(self) -> frozenset[str]:
        """The names of its own `tools`."""
        return frozenset(self._tools)

    def open(self, start: TrialStart) -> AgentSession:
        return _EndpointSession(self, define_tools(start.tool_schemas, where="tools"))

    async def close(self) -> None:
        await self._connections.close()

    async def complete(self, messages: Sequence[Message], tools: Tools, *, timeout: float) -> AgentReply:
        """The endpoint's reply to a conversation. The scenario's tools replace the agent's of the same name."""
        payload = {**self._body, **self.form.request(messages, {**self._tools, **tools})}
        request = HttpRequest(method="POST", url=self._url, headers=self._headers, content=json.dumps(payload).encode())
        async with self._connections.exchange(request, timeout=timeout) as response:
            # Some endpoints always stream, some never: read what the response says it is.
            if response.media_type == "text/event-stream":
                return await _read_stream(response, self.form.open_stream(), position=len(messages))
            body = await response.read()
        if not body.strip():
            raise not_an_answer(f"returned {response.status}", body)
        return self.form.read(read_object(body, media_type=response.media_type), body, position=len(messages))

    def _complete_headers(self, headers: dict[str, str], where: str) -> dict[str, str]:
        given = {name.lower() for name in headers}
        api_key: Any = self.api_key
        if api_key is not None:
            if not isinstance(api_key, str):
                raise UsageError(f"{where}.api_key: expected a text, got a value of type {type(api_key).__name__}")
            name, value = self.form.key_header(api_key)
            if name in given:
                raise UsageError(f"{where}: api_key and headers.{name.title()} are both given; keep one")
            headers |= check_headers({name: value}, where=f"{where}.api_key")
        defaults = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        defaults |= self.default_headers
        return {**{name: value for name, value in defaults.items() if name not in given}, **headers}

    def _check_body(self, where: str) -> dict[str, Any]:
        if not isinstance(self.stream, bool):
            raise UsageError(f"{where}.stream: expected true or false, got {self.stream!r}")
        if self.body is not None and not isinstance(self.body, Mapping):
            raise UsageError(f"{where}.body: expected a mapping, got {self.body!r}")
        for key, instead in self.form.reserved.items():
            if self.body and key in self.body:
                raise UsageError(f"{where}.body.{key}: cannot be set here; use {instead}")
        payload = self.form.fixed(model=self.model, stream=self.stream) | dict(self.body or {})
        try:
            json.dumps(payload, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{where}.body: cannot be sent as JSON: {error}") from None
        return {key: value for key, value in payload.items() if key != "stream_options" or value is not None}


class _EndpointSession:
    """One trial. The endpoint gets the whole conversation each time, so nothing is kept."""

    reachable_tools = None

    def __init__(self, agent: EndpointAgent, tools: Tools) -> None:
        self._agent = agent
        self._tools = tools

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        return await self._agent.complete(messages, self._tools, timeout=timeout)

    async def close(self) -> None:
        """Connections belong to the agent."""


async def _read_stream(response: HttpResponse, streamed: StreamedReply, *, position: int) -> AgentReply:
    reader = EventReader()
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            if any(streamed.add(event) for event in reader.feed(chunk)):
                await response.drain(chunks)
                break
        else:
            any(streamed.add(event) for event in reader.finish())
    return streamed.finish(position=position)


def broken_off(streamed: str, *, events: int) -> AgentFailure:
    """The failure for a stream that has no end, or nothing before it."""
    if not events:
        return AgentFailure("endpoint returned an empty stream", hint="it must send at least one event")
    return AgentFailure(f"the stream broke off before its end, after: {show_body(streamed)}")


def read_object(body: bytes, *, media_type: str) -> Mapping[str, Any]:
    """The JSON object of a body."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise not_json(media_type, body) from None
    if not isinstance(answer, Mapping):
        raise not_an_answer("returned JSON that is no object", body)
    return answer


def end_path(path: str, end: str) -> str:
    """The path with this end, unless it has it already."""
    return path if path.endswith(end) else path + end


def define_tools(tools: Any, *, where: str) -> dict[str, dict[str, Any]]:
    """Tool definitions of chat completions by name; from plain or wrapped definitions."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise UsageError(f"{where}: expected a list of tool definitions, got {tools!r}")
    return dict(_define_tool(tool, f"{where}[{index}]") for index, tool in enumerate(tools))


def _define_tool(tool: Any, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(tool, Mapping):
        raise UsageError(f"{where}: expected a mapping {{name, description, parameters}}, got {tool!r}")
    if tool.get("type", "function") != "function" and "input_schema" not in tool:  # the provider's, such as web_search
        return json.dumps(tool, sort_keys=True), dict(tool)
    function = tool.get("function", tool)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f"{where}: expected the name of the tool, got {name!r}")
    kept = {key: value for key, value in function.items() if key not in ("type", "output_schema", "input_schema")}
    parameters = kept.pop("parameters", None) or function.get("input_schema") or {"type": "object", "properties": {}}
    return name, {"type": "function", "function": {**kept, "parameters": parameters}}


def is_function(tool: Mapping[str, Any]) -> bool:
    """Whether a definition is one of chat completions, not of a provider's own tool."""
    return tool.get("type") == "function" and isinstance(tool.get("function"), Mapping)


def is_system(message: Message) -> bool:
    return message.get("role") in ("system", "developer")


def merge_roles(
    messages: Sequence[Message], write_blocks: Callable[[Message], Iterable[Any]]
) -> Iterator[dict[str, Any]]:
    """The conversation in blocks, without system messages. Messages of one role that follow each other become one: the
    results of all calls belong into the message after the calls."""
    role, blocks = "", list[Any]()
    for message in messages:
        if is_system(message):
            continue
        said_by = "assistant" if message.get("role") == "assistant" else "user"
        if said_by != role and blocks:
            yield {"role": role, "content": blocks}
            blocks = []
        role = said_by
        blocks.extend(write_blocks(message))
    if blocks:
        yield {"role": role, "content": blocks}

"""Agents behind a chat-completions endpoint. Seatrial owns the tool loop and answers the calls from the mocks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from seatrial.errors import UsageError
from seatrial.model.conversation import Message
from seatrial.model.protocols import AgentReply, AgentSession, TrialStart

from .chat_messages import read_completion
from .chat_stream import read_stream
from .http_client import Outgoing, Wire
from .http_errors import not_an_answer
from .urls import check_headers, check_url

_PATH = "/chat/completions"
_RESERVED = {
    "messages": "history or system in the scenario",
    "stream": "stream beside body",
    "tools": "tools beside body",
}


@dataclass(kw_only=True, eq=False)
class OpenAIChatAgent:
    """Any endpoint that speaks chat completions, plain or streaming. Its fields are the keys of its spec."""

    answers_own_tools: bool = field(default=False, init=False)
    keeps_conversation: bool = field(default=True, init=False)

    base_url: str
    model: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    body: Mapping[str, Any] | None = None
    """Sent with every request, beside model, messages and tools."""
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
        self._wire = Wire(self._url)

    @property
    def offered_tools(self) -> frozenset[str]:
        """The names of its own `tools`."""
        return frozenset(self._tools)

    def open(self, start: TrialStart) -> AgentSession:
        return _ChatSession(self, define_tools(start.tool_schemas, where="tools"))

    async def close(self) -> None:
        await self._wire.close()

    async def complete(
        self, messages: Sequence[Message], tools: Mapping[str, dict[str, Any]], *, timeout: float
    ) -> AgentReply:
        """What the endpoint answers to a conversation. The scenario's tools replace the agent's of the same name."""
        payload = {**self._body, "messages": list(messages)}
        definitions = [*{**self._tools, **tools}.values()]
        if definitions:
            payload["tools"] = definitions
        request = Outgoing(method="POST", url=self._url, headers=self._headers, content=json.dumps(payload).encode())
        async with self._wire.exchange(request, timeout=timeout) as incoming:
            # By what came, not by what was asked for: some endpoints stream always, some never.
            if incoming.media_type == "text/event-stream":
                return await read_stream(incoming, position=len(messages))
            body = await incoming.read()
        if not body.strip():
            raise not_an_answer(f"returned {incoming.status}", body)
        return read_completion(body, media_type=incoming.media_type, position=len(messages))


class _ChatSession:
    """A trial's conversation: the endpoint is given all of it each time, so nothing is kept here."""

    reaches = None

    def __init__(self, agent: OpenAIChatAgent, tools: Mapping[str, dict[str, Any]]) -> None:
        self._agent = agent
        self._tools = tools

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        return await self._agent.complete(messages, self._tools, timeout=timeout)

    async def close(self) -> None:
        """Nothing to end: connections belong to the agent."""


def define_tools(tools: Any, *, where: str) -> dict[str, dict[str, Any]]:
    """Tool definitions by name, in the form that chat completions want; accepts them plain and wrapped."""
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise UsageError(f"{where}: expected a list of tool definitions, got {tools!r}")
    return dict(_define_tool(tool, f"{where}[{index}]") for index, tool in enumerate(tools))


def _define_tool(tool: Any, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(tool, Mapping):
        raise UsageError(f"{where}: expected a mapping {{name, description, parameters}}, got {tool!r}")
    kind = tool.get("type", "function")
    if kind != "function":  # a tool of the provider's own, such as web_search
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

"""Agents of type `anthropic`: any endpoint of the Messages API, with plain or streamed responses."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from seatrial.model.conversation import Message, ToolCall, Usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentReply
from seatrial.model.results import AgentFailure
from seatrial.traces.anthropic import is_call, is_result, result_in

from .chat_messages import parse_arguments, parse_json, read_calls, read_requested, text_of
from .endpoint import EndpointAgent, Tools, broken_off, end_path, is_function, is_system, merge_roles
from .http_client import not_an_answer
from .message_parts import anthropic_blocks
from .server_events import Event, read_event

MAX_TOKENS = 4096
"""The API requires a limit; `body: {max_tokens: …}` sets another."""


class MessagesApi:
    """The form of the Messages API: content in blocks, tool results in user messages, `system` beside them."""

    reserved: Mapping[str, str] = {
        "messages": "history in the scenario",
        "system": "system in the scenario",
        "stream": "stream beside body",
        "tools": "tools beside body",
    }

    def path(self, path: str, *, model: str | None) -> str:
        if path.endswith("/messages"):
            return path
        return end_path(path, "/v1") + "/messages"

    def key_header(self, api_key: str) -> tuple[str, str]:
        return "x-api-key", api_key

    def fixed(self, *, model: str | None, stream: bool) -> dict[str, Any]:
        fields: dict[str, Any] = {"max_tokens": MAX_TOKENS}
        return fields | ({} if model is None else {"model": model}) | ({"stream": True} if stream else {})

    def request(self, messages: Sequence[Message], tools: Tools) -> dict[str, Any]:
        system = "\n\n".join(text_of(message) for message in messages if is_system(message))
        fields: dict[str, Any] = {"messages": list(merge_roles(messages, _write_blocks))}
        if system:
            fields["system"] = system
        if tools:
            fields["tools"] = [_write_tool(tool) for tool in tools.values()]
        return fields

    def read(self, answer: Mapping[str, Any], body: bytes, *, position: int) -> AgentReply:
        if answer.get("type") == "error" or answer.get("error"):
            raise not_an_answer("returned an error", body)
        content = answer.get("content")
        if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
            raise not_an_answer("returned a message without a list of content blocks", body)
        stop_reason, usage = answer.get("stop_reason"), read_tokens(answer.get("usage"))
        return read_blocks(content, stop_reason=stop_reason, usage=usage, position=position)

    def open_stream(self) -> "_StreamedMessage":
        return _StreamedMessage()


def _write_blocks(message: Message) -> Iterator[Any]:
    content = message.get("content")
    if message.get("role") == "tool":
        yield _write_result(message)
        return
    if isinstance(content, list):
        yield from anthropic_blocks(content)
    elif text_of(message).strip():  # the API refuses empty texts
        yield {"type": "text", "text": content}
    for call in read_calls(message.get("tool_calls") or ()):
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": _write_input(call.arguments)}


def _write_input(arguments: Any) -> Any:
    """The API takes objects only; its documentation says how to send back a broken one."""
    return arguments if isinstance(arguments, Mapping) else {"INVALID_JSON": str(arguments)}


def _write_result(message: Message) -> dict[str, Any]:
    text = text_of(message)
    result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": text}
    parsed = parse_json(text)
    is_error = isinstance(parsed, Mapping) and parsed.keys() == {"error"}
    return result | ({"is_error": True} if is_error else {})


def _write_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if not is_function(tool):
        return tool
    function = dict(tool["function"])
    function.pop("strict", None)
    return {**function, "input_schema": function.pop("parameters")}


def read_blocks(
    content: Sequence[Mapping[str, Any]], *, stop_reason: Any, usage: Usage | None, position: int
) -> AgentReply:
    """The reply in the content of an assistant message."""
    if stop_reason == "pause_turn":
        raise AgentFailure(
            "endpoint paused its turn (stop_reason 'pause_turn'), and Seatrial does not continue it",
            hint="limit the provider's own tools, for example with max_uses",
        )
    asked = [block for block in content if block.get("type") == "tool_use"]
    named = [{"id": block.get("id"), "name": block.get("name"), "arguments": block.get("input")} for block in asked]
    requested = read_requested(named, position=position)
    if stop_reason == "tool_use" and not requested:
        raise AgentFailure("endpoint asks for tools (stop_reason 'tool_use'), but its content has no tool_use block")
    ids = iter(requested)
    kept = [{**block, "id": next(ids).id} if block.get("type") == "tool_use" else dict(block) for block in content]
    text = "".join(str(block.get("text", "")) for block in content if block.get("type") == "text")
    return AgentReply(
        reply=None if requested else text,
        tool_calls=tuple(_read_made(content)),
        requested=requested,
        messages=({"role": "assistant", "content": [_sendable(block) for block in kept if not _is_empty(block)]},),
        usage=usage,
    )


def _sendable(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, "input": _write_input(block.get("input") or {})} if block.get("type") == "tool_use" else block


def _is_empty(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def _read_made(content: Sequence[Mapping[str, Any]]) -> Iterator[ToolCall]:
    """The calls of tools that the provider ran itself, such as web_search, with their results."""
    results = {found.call_id: found for found in map(result_in, filter(is_result, content))}
    for block in content:
        if is_call(block) and block.get("type") != "tool_use":
            found = results.get(block.get("id"))
            result, error = (plain_value(found.result), found.error) if found else (None, None)
            yield ToolCall(
                str(block.get("name")), parse_arguments(block.get("input")), result, error, str(block.get("id"))
            )


def read_tokens(usage: Any) -> Usage | None:
    """The tokens. `input_tokens` of the API are only those that no cache has."""
    if not isinstance(usage, Mapping):
        return None
    cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
    inputs = [_count(usage.get("input_tokens")), *(_count(usage.get(name)) or 0 for name in cached)]
    outputs = _count(usage.get("output_tokens"))
    known = None if inputs[0] is None else sum(filter(None, inputs))
    return None if known is None and outputs is None else Usage(input_tokens=known, output_tokens=outputs)


def _count(tokens: Any) -> int | None:
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None


class _StreamedMessage:
    """A message that is being streamed, block by block."""

    def __init__(self) -> None:
        self._blocks: dict[Any, dict[str, Any]] = {}
        self._pieces: dict[Any, list[str]] = {}
        """The JSON of a tool's input, by block."""
        self._usage: dict[str, Any] = {}
        self._stop_reason: Any = None
        self._events = 0
        self._finished = False

    def add(self, event: Event) -> bool:
        chunk = read_event(event)
        self._events += 1
        match chunk.get("type"):
            case "error":
                raise not_an_answer("streamed an error", event.data)
            case "message_start":
                self._add_usage(_mapping(chunk.get("message")).get("usage"))
            case "content_block_start":
                self._blocks[chunk.get("index")] = dict(_mapping(chunk.get("content_block")))
            case "content_block_delta":
                self._add_delta(chunk.get("index"), _mapping(chunk.get("delta")))
            case "message_delta":
                self._stop_reason = _mapping(chunk.get("delta")).get("stop_reason") or self._stop_reason
                self._add_usage(chunk.get("usage"))
            case "message_stop":
                self._finished = True
                return True
        return False

    def _add_usage(self, usage: Any) -> None:
        self._usage |= {name: count for name, count in _mapping(usage).items() if count is not None}

    def _add_delta(self, index: Any, delta: Mapping[str, Any]) -> None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):
            case "input_json_delta":
                self._pieces.setdefault(index, []).append(str(delta.get("partial_json") or ""))
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
            case _:  # text_delta, thinking_delta, signature_delta: a piece of the field of that name
                for name, piece in delta.items():
                    if name != "type" and isinstance(piece, str):
                        block[name] = str(block.get(name) or "") + piece

    def finish(self, *, position: int) -> AgentReply:
        blocks = [{**block, **self._input_of(index)} for index, block in self._blocks.items()]
        if not self._finished:
            said = "".join(str(block.get("text", "")) for block in blocks)
            raise broken_off(said, events=self._events)
        usage = read_tokens(self._usage)
        return read_blocks(blocks, stop_reason=self._stop_reason, usage=usage, position=position)

    def _input_of(self, index: Any) -> dict[str, Any]:
        text = "".join(self._pieces.get(index, ()))
        if not text.strip():
            return {}
        try:
            return {"input": json.loads(text)}
        except (ValueError, RecursionError):
            return {"input": text}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@dataclass(kw_only=True, eq=False)
class AnthropicAgent(EndpointAgent):
    """An endpoint of the Messages API."""

    form = MessagesApi()
    default_headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}
    name: str = "anthropic"

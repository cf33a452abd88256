"""Agents of type `openai` with `api: responses`: any endpoint of the Responses API, plain or streamed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.model.conversation import Message, ToolCall
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentReply
from seatrial.model.results import AgentFailure

from .chat_messages import parse_arguments, read_calls, read_requested, read_usage, text_of
from .endpoint import EndpointAgent, Tools, broken_off, end_path, is_function
from .http_client import not_an_answer
from .message_parts import responses_parts
from .server_events import Event, read_event

_RUN_BY_US = (
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_approval_request",
)
"""Requests to the program that asked. Seatrial answers function calls only."""


class ResponsesApi:
    """The form of the Responses API: a list of items. Every request has all of them, so the endpoint keeps nothing."""

    reserved: Mapping[str, str] = {
        "input": "history or system in the scenario",
        "previous_response_id": "history in the scenario",
        "conversation": "history in the scenario",
        "stream": "stream beside body",
        "tools": "tools beside body",
    }

    def path(self, path: str, *, model: str | None) -> str:
        return end_path(path, "/responses")

    def key_header(self, api_key: str) -> tuple[str, str]:
        return "authorization", f"Bearer {api_key}"

    def fixed(self, *, model: str | None, stream: bool) -> dict[str, Any]:
        fields: dict[str, Any] = {} if model is None else {"model": model}
        return fields | ({"stream": True} if stream else {})

    def request(self, messages: Sequence[Message], tools: Tools) -> dict[str, Any]:
        fields: dict[str, Any] = {"input": list(write_items(messages))}
        if tools:
            fields["tools"] = [
                {"type": "function", **tool["function"]} if is_function(tool) else tool for tool in tools.values()
            ]
        return fields

    def read(self, answer: Mapping[str, Any], body: bytes, *, position: int) -> AgentReply:
        if answer.get("error") or answer.get("status") in ("failed", "cancelled"):
            raise not_an_answer("returned an error", body)
        if answer.get("status") in ("queued", "in_progress"):
            raise not_an_answer("returned a response that is not complete", body)
        if not isinstance(answer.get("output"), list):
            raise not_an_answer("returned a response without a list of output items", body)
        return read_response(answer, position=position)

    def open_stream(self) -> "_StreamedResponse":
        return _StreamedResponse()


def write_items(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """The conversation as items. The endpoint's own items go back as they came."""
    for message in messages:
        if isinstance(message.get("items"), list):
            yield from message["items"]
            continue
        text = text_of(message)
        if message.get("role") == "tool":
            yield {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": text}
            continue
        content = message.get("content")
        if isinstance(content, list) and message.get("role") == "user":
            yield {"role": "user", "content": list(responses_parts(content))}
        elif text:
            yield {"role": message.get("role", "user"), "content": text}
        for call in read_calls(message.get("tool_calls") or ()):
            arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def read_response(response: Mapping[str, Any], *, position: int) -> AgentReply:
    """The reply in a response."""
    items = [dict(item) for item in response["output"] if isinstance(item, Mapping)]
    for item in items:
        if item.get("type") in _RUN_BY_US:
            raise AgentFailure(
                f"the agent asks for a {item['type']}, which Seatrial cannot answer: it answers function calls only",
                final=True,
            )
    asked = [item for item in items if item.get("type") == "function_call"]
    named = [
        {"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments")} for item in asked
    ]
    requested = read_requested(named, position=position)
    for item, call in zip(asked, requested, strict=True):
        item["call_id"] = call.id
    text = "".join(_texts(items))
    return AgentReply(
        reply=None if requested else text,
        tool_calls=tuple(_read_made(item) for item in items if _is_made(item)),
        requested=requested,
        messages=({"role": "assistant", "content": text, "items": items},),
        usage=read_usage(response.get("usage")),
    )


def _texts(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for item in items:
        content = item.get("content") if item.get("type", "message") == "message" else ()
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping):
                yield str(part.get("text") or part.get("refusal") or "")


def _is_made(item: Mapping[str, Any]) -> bool:
    """Whether it is a call of a tool that the provider ran itself, such as web search."""
    kind = item.get("type")
    return isinstance(kind, str) and kind.endswith("_call") and kind != "function_call"


def _read_made(item: Mapping[str, Any]) -> ToolCall:
    given = next((item[key] for key in ("arguments", "action", "queries", "code") if item.get(key) is not None), None)
    result = next((item[key] for key in ("output", "results", "outputs", "result") if item.get(key) is not None), None)
    error = item.get("error") or ("the call failed" if item.get("status") == "failed" else None)
    name = item.get("name") or str(item["type"]).removesuffix("_call")
    arguments = {"queries": given} if isinstance(given, list) else {"code": given} if "code" in item else given
    text = None if error is None else error if isinstance(error, str) else json.dumps(plain_value(error))
    return ToolCall(str(name), parse_arguments(arguments), plain_value(result), text, item.get("id"))


class _StreamedResponse:
    """A response that is being streamed. Its last event has all of it."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._said: list[str] = []
        self._whole: Mapping[str, Any] | None = None
        self._events = 0

    def add(self, event: Event) -> bool:
        if event.data.strip() == "[DONE]":
            return True
        chunk = read_event(event)
        self._events += 1
        match chunk.get("type"):
            case "response.failed" | "error":
                raise not_an_answer("streamed an error", event.data)
            case "response.output_text.delta":
                self._said.append(str(chunk.get("delta") or ""))
            case "response.output_item.done":
                self._items.append(chunk.get("item"))
            case "response.completed" | "response.incomplete":
                response = chunk.get("response")
                self._whole = response if isinstance(response, Mapping) else {}
                return True
        return False

    def finish(self, *, position: int) -> AgentReply:
        if self._whole is None:
            raise broken_off("".join(self._said), events=self._events)
        output = self._whole.get("output")
        whole = {**self._whole, "output": output if isinstance(output, list) and output else self._items}
        return read_response(whole, position=position)


@dataclass(kw_only=True, eq=False)
class OpenAIResponsesAgent(EndpointAgent):
    """An endpoint of the Responses API."""

    form = ResponsesApi()
    name: str = "openai"

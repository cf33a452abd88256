"""Agents of type `bedrock`: endpoints with the form of Amazon Bedrock's Converse API."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from seatrial.errors import UsageError
from seatrial.model.conversation import Message
from seatrial.model.protocols import AgentReply
from seatrial.model.results import AgentFailure

from .chat_messages import parse_json, read_calls, read_requested, read_usage, text_of
from .endpoint import EndpointAgent, StreamedReply, Tools, is_function, is_system, merge_roles
from .http_client import not_an_answer
from .message_parts import converse_blocks_of


class ConverseApi:
    """The form of the Converse API: blocks without a type, tool results in user messages."""

    reserved: Mapping[str, str] = {
        "messages": "history in the scenario",
        "system": "system in the scenario",
        "toolConfig": "tools beside body",
    }

    def path(self, path: str, *, model: str | None) -> str:
        if path.endswith("/converse"):
            return path
        if model is None:
            raise UsageError("an agent of type 'bedrock' needs 'model', the id of a model or inference profile")
        return f"{path}/model/{quote(model, safe='')}/converse"

    def key_header(self, api_key: str) -> tuple[str, str]:
        return "authorization", f"Bearer {api_key}"

    def fixed(self, *, model: str | None, stream: bool) -> dict[str, Any]:
        if stream:
            raise UsageError("an agent of type 'bedrock' cannot stream: ConverseStream has a binary form of its own")
        return {}

    def request(self, messages: Sequence[Message], tools: Tools) -> dict[str, Any]:
        system = [{"text": text_of(message)} for message in messages if is_system(message)]
        fields: dict[str, Any] = {"messages": list(merge_roles(messages, _write_blocks))}
        if system:
            fields["system"] = system
        if tools:
            fields["toolConfig"] = {"tools": [_write_tool(tool) for tool in tools.values()]}
        return fields

    def read(self, answer: Mapping[str, Any], body: bytes, *, position: int) -> AgentReply:
        blocks = converse_blocks(answer)
        if blocks is None:
            raise not_an_answer("returned an answer without output.message.content", body)
        asked = [block["toolUse"] for block in blocks if isinstance(block.get("toolUse"), Mapping)]
        named = [{"id": use.get("toolUseId"), "name": use.get("name"), "arguments": use.get("input")} for use in asked]
        requested = read_requested(named, position=position)
        if answer.get("stopReason") == "tool_use" and not requested:
            raise AgentFailure("endpoint asks for tools (stopReason 'tool_use'), but its content has no toolUse")
        ids = iter(requested)
        kept = [
            {"toolUse": {**block["toolUse"], "toolUseId": next(ids).id}} if "toolUse" in block else dict(block)
            for block in blocks
        ]
        return AgentReply(
            reply=None if requested else "".join(str(block.get("text", "")) for block in blocks),
            tool_calls=(),
            requested=requested,
            messages=({"role": "assistant", "content": [block for block in kept if block.get("text") != ""]},),
            usage=read_usage(answer.get("usage")),
        )

    def open_stream(self) -> StreamedReply:
        raise AgentFailure("endpoint returned server-sent events, which the Converse API does not have", final=True)


def converse_blocks(answer: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The content of the message in an answer of the Converse API; None if it is no such answer."""
    output = answer.get("output")
    message = output.get("message") if isinstance(output, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
        return None
    return content


def _write_blocks(message: Message) -> Iterator[Any]:
    content = message.get("content")
    if message.get("role") == "tool":
        yield _write_result(message)
        return
    if isinstance(content, list):
        yield from converse_blocks_of(content)
    elif text_of(message).strip():  # the API refuses empty texts
        yield {"text": text_of(message)}
    for call in read_calls(message.get("tool_calls") or ()):
        yield {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments or {}}}


def _write_result(message: Message) -> dict[str, Any]:
    text = text_of(message)
    parsed = parse_json(text)
    content = {"json": parsed} if isinstance(parsed, Mapping) else {"text": text}
    failed = isinstance(parsed, Mapping) and parsed.keys() == {"error"}
    status = {"status": "error"} if failed else {}
    return {"toolResult": {"toolUseId": message.get("tool_call_id"), "content": [content], **status}}


def _write_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if not is_function(tool):
        return tool
    function = tool["function"]
    described = {"description": function["description"]} if function.get("description") else {}
    return {"toolSpec": {"name": function["name"], **described, "inputSchema": {"json": function["parameters"]}}}


@dataclass(kw_only=True, eq=False)
class BedrockAgent(EndpointAgent):
    """An endpoint of the Converse API."""

    form = ConverseApi()
    name: str = "bedrock"

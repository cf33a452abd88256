"""Messages of Anthropic's API: content in blocks, tool results inside the user's messages."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .parsing import (
    SILENT,
    as_text,
    join_texts,
    kind_of,
    mapping,
    parts_of,
    read_arguments,
    read_result,
    read_usage,
    text,
    words_in,
)
from .transcript_builder import TranscriptBuilder


def recognises(message: Mapping[str, Any]) -> bool:
    """Whether only Anthropic writes messages like this one."""
    if "stop_reason" in message and message.get("type") == "message":
        return True
    return message.get("role") in ("user", "assistant") and any(
        is_call(part) or is_result(part) or part.get("type") in ("thinking", "redacted_thinking")
        for part in parts_of(message.get("content"))
    )


def add_message(message: Mapping[str, Any], builder: TranscriptBuilder, *, with_usage: bool = True) -> None:
    """Add one message, block by block."""
    role = message.get("role")
    words: list[str] = []
    for block in parts_of(message.get("content")):
        said = words_in(block)
        if is_result(block):
            found = result_in(block)
            builder.add_result(found.call_id, found.result, error=found.error)
        elif is_call(block):
            if words:
                builder.add_text(role, "".join(words))
            words = []
            builder.add_call(block.get("name"), read_arguments(block.get("input")), call_id=block.get("id"))
        elif said is not None:
            words.append(said)
        elif block.get("type") not in SILENT:
            builder.omissions.add("part", f"of unknown type {kind_of(block)!r}")
    if words:
        builder.add_text(role, "".join(words))
    if role == "assistant" and with_usage:
        builder.add_usage(read_usage(message.get("usage")))


def is_call(block: Mapping[str, Any]) -> bool:
    """Whether a block is a tool call: of the agent's own tools, or of the provider's."""
    return block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use")


def is_result(block: Mapping[str, Any]) -> bool:
    """Whether a block is the result of a tool call."""
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith("tool_result")


class Result(NamedTuple):
    """The result of a tool call."""

    call_id: Any
    result: Any = None
    error: str | None = None


def result_in(block: Mapping[str, Any]) -> Result:
    """The result that a block holds."""
    content = join_texts(block.get("content"))
    error_code = text(mapping(content).get("error_code"))
    call_id = block.get("tool_use_id")
    if block.get("is_error") is True or error_code is not None:
        return Result(call_id, error=as_text(error_code or content or "the tool failed"))
    return Result(call_id, read_result(content))

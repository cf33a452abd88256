"""LangChain's messages, in its three forms: `messages_to_dict`, `dumpd` and `model_dump`."""

from collections.abc import Mapping
from typing import Any

from .parsing import as_text, kind_of, listed, mapping, read_arguments, read_result, read_usage, read_words, text
from .transcript_builder import TranscriptBuilder

_KINDS = {"human": "human", "ai": "ai", "system": "system", "tool": "tool", "function": "tool", "developer": "system"}
_BLOCKS = ("tool_use", "tool_call", "tool_call_chunk", "function_call", "server_tool_call", "invalid_tool_call")
"""Parts of the content that are repeated in tool_calls."""


def recognises(message: Mapping[str, Any]) -> bool:
    """Whether only LangChain writes messages like this one."""
    if "lc" in message and isinstance(message.get("kwargs"), Mapping):
        return True
    return "role" not in message and _kind(message) in _KINDS and ("content" in message or "data" in message)


def _kind(message: Mapping[str, Any]) -> str:
    """`human`, `ai` and so on; chunks of a stream count as messages."""
    kind = message.get("type")
    names = {"HumanMessageChunk": "human", "AIMessageChunk": "ai", "ToolMessageChunk": "tool"}
    return names.get(kind, kind) if isinstance(kind, str) else ""


def add_message(message: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    """Add one message."""
    if isinstance(message.get("kwargs"), Mapping) and "lc" in message:
        inner = message["kwargs"]
        class_name = str((listed(message.get("id")) or [""])[-1])
        kind = _kind(inner) or class_name.removesuffix("Chunk").removesuffix("Message").lower()
    elif isinstance(message.get("data"), Mapping):
        inner, kind = message["data"], _kind(message)
    else:
        inner, kind = message, _kind(message)
    role = _KINDS.get(kind)
    if role is None:
        builder.omissions.add("message", f"of unknown kind {kind or kind_of(message)!r}")
        return
    _ADDERS[role](inner, builder)


def _add_human(message: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    builder.add_user(_words(message, builder) or "")


def _add_system(message: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    if words := _words(message, builder):
        builder.add_system(words)


def _add_ai(message: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    if words := _words(message, builder):
        builder.add_reply(words)
    for call in (*listed(message.get("tool_calls")), *listed(message.get("invalid_tool_calls"))):
        given = mapping(call)
        builder.add_call(given.get("name"), read_arguments(given.get("args")), call_id=given.get("id"))
        if text(given.get("error")):
            builder.add_result(given.get("id"), error=given["error"], name=given.get("name"))
    builder.add_usage(read_usage(message.get("usage_metadata")))


def _add_tool(message: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    content = message.get("content")
    said = _words(message, builder) if isinstance(content, list) else content
    failed = message.get("status") == "error"
    builder.add_result(
        message.get("tool_call_id"),
        None if failed else read_result(said if said is not None else content),
        error=as_text(said or "the tool failed") if failed else None,
        name=message.get("name"),
    )


def _words(message: Mapping[str, Any], builder: TranscriptBuilder) -> str | None:
    content = message.get("content")
    if isinstance(content, list):
        content = [part for part in content if mapping(part).get("type") not in _BLOCKS]
    return read_words({"content": content}, builder.omissions)


_ADDERS = {"human": _add_human, "system": _add_system, "ai": _add_ai, "tool": _add_tool}

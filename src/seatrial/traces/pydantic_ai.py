"""pydantic-ai's messages, as `result.all_messages_json()` gives them."""

from collections.abc import Mapping
from typing import Any

from .parsing import (
    as_text,
    kind_of,
    listed,
    mapping,
    read_arguments,
    read_result,
    read_time,
    read_usage,
    read_words,
    text,
)
from .transcript_builder import TranscriptBuilder

_FINAL = "Final result processed."
"""The result that the library gives to a call that is the agent's structured output."""
_FAILED = ("failed", "retried", "denied", "interrupted")
_QUIET = ("thinking", "compaction")


def recognises(message: Mapping[str, Any]) -> bool:
    """Whether only pydantic-ai writes messages like this one."""
    return message.get("kind") in ("request", "response") and isinstance(message.get("parts"), list)


def add_message(message: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    """Add one message, part by part."""
    at = read_time(message.get("timestamp"))
    instructions = text(message.get("instructions"))
    if instructions:
        builder.add_system(instructions)
    for given in listed(message.get("parts")):
        part = mapping(given)
        _add_part(part, read_time(part.get("timestamp")) or at, builder)
    if message.get("kind") == "response":
        usage = read_usage(message.get("usage"))
        # The library writes zeros where the provider gave no numbers.
        builder.add_usage(usage if usage is not None and usage.total_tokens else None)


def _add_part(part: Mapping[str, Any], at: float | None, builder: TranscriptBuilder) -> None:
    kind = str(part.get("part_kind"))
    if kind == "system-prompt":
        builder.add_system(as_text(part.get("content")))
    elif kind == "user-prompt":
        builder.add_user(read_words(part, builder.omissions) or "", at=at)
    elif kind == "text":
        if words := text(part.get("content")):
            builder.add_reply(words, at=at)
    elif kind in ("tool-call", "builtin-tool-call", "native-tool-call"):
        builder.add_call(
            part.get("tool_name"), read_arguments(part.get("args")), call_id=part.get("tool_call_id"), at=at
        )
    elif kind in ("tool-return", "builtin-tool-return", "native-tool-return"):
        _add_return(part, at, builder)
    elif kind == "retry-prompt":
        _add_retry(part, at, builder)
    elif kind not in _QUIET:
        builder.omissions.add("part", f"of unknown type {kind_of(part)!r}")


def _add_return(part: Mapping[str, Any], at: float | None, builder: TranscriptBuilder) -> None:
    content, call_id, name = part.get("content"), part.get("tool_call_id"), part.get("tool_name")
    if content == _FINAL:
        builder.turn_call_into_reply(call_id, at=at)
    elif part.get("outcome") in _FAILED:
        builder.add_result(call_id, error=as_text(content or part["outcome"]), name=name, at=at)
    else:
        builder.add_result(call_id, read_result(content), name=name, at=at)


def _add_retry(part: Mapping[str, Any], at: float | None, builder: TranscriptBuilder) -> None:
    """The agent was told to try again: after a call that failed, or because of its reply."""
    if part.get("tool_name"):
        error = as_text(part.get("content") or "the tool asked to try again")
        builder.add_result(part.get("tool_call_id"), error=error, name=part.get("tool_name"), at=at)
    else:
        builder.retract_reply()

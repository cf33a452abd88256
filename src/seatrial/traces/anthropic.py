"""Messages of Anthropic's API: content in blocks, tool results inside the user's messages."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .parsing import SILENT, as_text, kind_of, parts_of, read_arguments, read_result, read_usage, text, words_in
from .transcript_builder import Scribe


def recognises(message: Mapping[str, Any]) -> bool:
    """Whether only Anthropic writes messages like this one."""
    if "stop_reason" in message and message.get("type") == "message":
        return True
    return message.get("role") in ("user", "assistant") and any(
        is_call(part) or is_result(part) or part.get("type") in ("thinking", "redacted_thinking")
        for part in parts_of(message.get("content"))
    )


def write(message: Mapping[str, Any], scribe: Scribe) -> None:
    """Dictate one message, block by block."""
    role = message.get("role")
    words: list[str] = []
    for block in parts_of(message.get("content")):
        said = words_in(block)
        if is_result(block):
            found = result_in(block)
            scribe.answer(found.call_id, found.result, error=found.error)
        elif is_call(block):
            _say(role, words, scribe)
            words = []
            scribe.call(block.get("name"), read_arguments(block.get("input")), call_id=block.get("id"))
        elif said is not None:
            words.append(said)
        elif block.get("type") not in SILENT:
            scribe.notes.leave_out("part", f"of unknown type {kind_of(block)!r}")
    _say(role, words, scribe)
    if role == "assistant":
        scribe.use(read_usage(message.get("usage")))


def is_call(block: Mapping[str, Any]) -> bool:
    """Whether a block of content is a call, of a tool on whichever side."""
    return block.get("type") in ("tool_use", "server_tool_use", "mcp_tool_use")


def is_result(block: Mapping[str, Any]) -> bool:
    """Whether a block of content is what a tool gave back."""
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith("tool_result")


class Result(NamedTuple):
    """What a tool gave back, and for which call."""

    call_id: Any
    result: Any = None
    error: str | None = None


def result_in(block: Mapping[str, Any]) -> Result:
    """The result that a block tells of."""
    content = block.get("content")
    parts = list(parts_of(content)) if isinstance(content, list) else []
    words = [words_in(part) for part in parts]
    plain = "".join(word or "" for word in words) if parts and all(word is not None for word in words) else content
    inner = content if isinstance(content, Mapping) else {}
    failed = block.get("is_error") is True or text(inner.get("error_code")) is not None
    call_id = block.get("tool_use_id")
    if failed:
        return Result(call_id, error=as_text(inner.get("error_code") or plain or "the tool failed"))
    return Result(call_id, read_result(plain))


def _say(role: Any, words: list[str], scribe: Scribe) -> None:
    if not words:
        return
    said = "".join(words)
    if role == "user":
        scribe.user(said)
    elif role in ("system", "developer"):
        scribe.system(said)
    elif role == "assistant":
        scribe.say(said)
    else:
        scribe.notes.leave_out("message", f"of unknown kind {role!r}")

"""pydantic-ai's messages, as `result.all_messages_json()` gives them."""

from collections.abc import Mapping
from typing import Any

from .openai_chat import read_words
from .parsing import as_text, kind_of, listed, mapping, read_arguments, read_result, read_time, read_usage, text
from .transcript_builder import Scribe

_FINAL = "Final result processed."
"""What the library answers to a call that is in truth the agent's structured output."""
_FAILED = ("failed", "retried", "denied", "interrupted")
_QUIET = ("thinking", "compaction")


def recognises(message: Mapping[str, Any]) -> bool:
    """Whether only pydantic-ai writes messages like this one."""
    return message.get("kind") in ("request", "response") and isinstance(message.get("parts"), list)


def write(message: Mapping[str, Any], scribe: Scribe) -> None:
    """Dictate one message, part by part."""
    at = read_time(message.get("timestamp"))
    instructions = text(message.get("instructions"))
    if instructions:
        scribe.system(instructions)
    for given in listed(message.get("parts")):
        part = mapping(given)
        _write_part(part, read_time(part.get("timestamp")) or at, scribe)
    if message.get("kind") == "response":
        usage = read_usage(message.get("usage"))
        # The library writes zeros where the provider did not tell.
        scribe.use(usage if usage is not None and usage.total_tokens else None)


def _write_part(part: Mapping[str, Any], at: float | None, scribe: Scribe) -> None:
    kind = str(part.get("part_kind"))
    if kind == "system-prompt":
        scribe.system(as_text(part.get("content")))
    elif kind == "user-prompt":
        scribe.user(read_words(part, scribe) or "", at=at)
    elif kind == "text":
        if words := text(part.get("content")):
            scribe.say(words, at=at)
    elif kind in ("tool-call", "builtin-tool-call", "native-tool-call"):
        scribe.call(part.get("tool_name"), read_arguments(part.get("args")), call_id=part.get("tool_call_id"), at=at)
    elif kind in ("tool-return", "builtin-tool-return", "native-tool-return"):
        _write_return(part, at, scribe)
    elif kind == "retry-prompt":
        _write_retry(part, at, scribe)
    elif kind not in _QUIET:
        scribe.notes.leave_out("part", f"of unknown type {kind_of(part)!r}")


def _write_return(part: Mapping[str, Any], at: float | None, scribe: Scribe) -> None:
    content, call_id, name = part.get("content"), part.get("tool_call_id"), part.get("tool_name")
    if content == _FINAL:
        scribe.take_as_reply(call_id, at=at)
    elif part.get("outcome") in _FAILED:
        scribe.answer(call_id, error=as_text(content or part["outcome"]), name=name, at=at)
    else:
        scribe.answer(call_id, read_result(content), name=name, at=at)


def _write_retry(part: Mapping[str, Any], at: float | None, scribe: Scribe) -> None:
    """The agent was told to try again: after a call that failed, or because of its reply."""
    if part.get("tool_name"):
        error = as_text(part.get("content") or "the tool asked to try again")
        scribe.answer(part.get("tool_call_id"), error=error, name=part.get("tool_name"), at=at)
    else:
        scribe.retract()

"""Messages of chat completions: requests, responses, and logs of both."""

from collections.abc import Mapping
from typing import Any

from .parsing import SILENT, kind_of, listed, mapping, parts_of, read_arguments, read_result, read_usage, text, words_in
from .transcript_builder import Scribe


def recognises(message: Mapping[str, Any]) -> bool:
    """Whether only chat completions write messages like this one."""
    if "type" in message and "role" not in message:
        return False
    return isinstance(message.get("tool_calls"), list) or message.get("role") in ("tool", "function", "developer")


def write(message: Mapping[str, Any], scribe: Scribe) -> None:
    """Dictate one message."""
    role = message.get("role")
    words = read_words(message, scribe)
    if role in ("system", "developer"):
        if words:
            scribe.system(words)
    elif role == "user":
        scribe.user(words or "")
    elif role in ("tool", "function"):
        content = message.get("content")
        result = read_result(words if isinstance(content, list) and words is not None else content)
        scribe.answer(message.get("tool_call_id"), result, name=message.get("name"))
    elif role == "assistant" or "tool_calls" in message:
        _write_assistant(message, words, scribe)
    else:
        scribe.notes.leave_out("message", f"of unknown kind {kind_of(message)!r}")


def _write_assistant(message: Mapping[str, Any], words: str | None, scribe: Scribe) -> None:
    if words:
        scribe.say(words)
    calls = listed(message.get("tool_calls"))
    if isinstance(message.get("function_call"), Mapping):
        calls = [*calls, {"function": message["function_call"]}]
    for call in calls:
        function = mapping(mapping(call).get("function") or mapping(call).get("custom") or call)
        given = function.get("arguments", function.get("input"))
        scribe.call(function.get("name"), read_arguments(given), call_id=mapping(call).get("id"))
    scribe.use(read_usage(message.get("usage")))


def read_words(message: Mapping[str, Any], scribe: Scribe) -> str | None:
    """The words of a message; parts that have none are noted, apart from what a model says to itself."""
    found: list[str] = []
    for part in parts_of(message.get("content")):
        words = words_in(part)
        if words is not None:
            found.append(words)
        elif part.get("type") not in SILENT:
            scribe.notes.leave_out("part", f"of unknown type {kind_of(part)!r}")
    if not found:
        return text(message.get("refusal"))
    return "".join(found)

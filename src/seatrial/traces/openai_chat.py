"""Messages of chat completions: requests, responses, and logs of both."""

from collections.abc import Mapping
from typing import Any

from .parsing import listed, mapping, read_arguments, read_result, read_usage, read_words
from .transcript_builder import TranscriptBuilder


def recognises(message: Mapping[str, Any]) -> bool:
    """Whether only chat completions write messages like this one."""
    if "type" in message and "role" not in message:
        return False
    return isinstance(message.get("tool_calls"), list) or message.get("role") in ("tool", "function", "developer")


def add_message(message: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    """Add one message."""
    role = message.get("role")
    words = read_words(message, builder.omissions)
    if role in ("tool", "function"):
        content = message.get("content")
        result = read_result(words if isinstance(content, list) and words is not None else content)
        builder.add_result(message.get("tool_call_id"), result, name=message.get("name"))
        return
    is_assistant = role == "assistant" or (role not in ("user", "system", "developer") and "tool_calls" in message)
    builder.add_text("assistant" if is_assistant else role, words)
    if is_assistant:
        _add_calls(message, builder)
        builder.add_usage(read_usage(message.get("usage")))


def _add_calls(message: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    calls = listed(message.get("tool_calls"))
    if isinstance(message.get("function_call"), Mapping):
        calls = [*calls, {"function": message["function_call"]}]
    for call in calls:
        function = mapping(mapping(call).get("function") or mapping(call).get("custom") or call)
        given = function.get("arguments", function.get("input"))
        builder.add_call(function.get("name"), read_arguments(given), call_id=mapping(call).get("id"))

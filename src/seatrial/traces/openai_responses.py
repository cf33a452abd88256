"""Items of the Responses API, as the Agents SDK hands them on with `result.to_input_list()`."""

from collections.abc import Mapping
from typing import Any

from .openai_chat import read_words
from .parsing import as_text, kind_of, parts_of, read_arguments, read_result, read_usage, words_in
from .transcript_builder import Scribe

_OUTPUTS = (
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "computer_call_output",
)
_QUIET = (
    "reasoning",
    "compaction",
    "item_reference",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
)


def recognises(item: Mapping[str, Any]) -> bool:
    """Whether only the Responses API writes items like this one."""
    kind = item.get("type")
    if isinstance(kind, str) and (kind.endswith("_call") or kind in _OUTPUTS or kind in _QUIET):
        return True
    return any(part.get("type") in ("input_text", "output_text") for part in parts_of(item.get("content")))


def write(item: Mapping[str, Any], scribe: Scribe) -> None:
    """Dictate one item."""
    kind = item.get("type")
    if kind in _OUTPUTS:
        scribe.answer(item.get("call_id"), _read_output(item.get("output")))
    elif isinstance(kind, str) and kind.endswith("_call"):
        _write_call(item, kind, scribe)
    elif item.get("role") is not None:
        _write_message(item, scribe)
    elif kind not in _QUIET:
        scribe.notes.leave_out("item", f"of unknown type {kind_of(item)!r}")


def _write_call(item: Mapping[str, Any], kind: str, scribe: Scribe) -> None:
    """A call of a function, of an MCP server's tool, or of a tool of the provider's own, such as web_search."""
    call_id = item.get("call_id") or item.get("id")
    name = item.get("name") or kind.removesuffix("_call")
    given = next((item[key] for key in ("arguments", "input", "action", "queries", "code") if key in item), None)
    scribe.call(name, read_arguments(given), call_id=call_id)
    scribe.use(read_usage(item.get("usage")))
    if kind in ("function_call", "custom_tool_call") or (kind == "mcp_call" and not _has_ended(item)):
        return
    error = item.get("error") or (f"the call is {item['status']}" if item.get("status") == "failed" else None)
    result = next((item[key] for key in ("output", "results", "outputs", "result") if item.get(key) is not None), None)
    scribe.answer(call_id, read_result(result), error=None if error is None else _read_error(error))


def _has_ended(item: Mapping[str, Any]) -> bool:
    return item.get("output") is not None or item.get("error") is not None


def _read_error(error: Any) -> str:
    if isinstance(error, Mapping):
        return as_text(error.get("message") or error.get("content") or error)
    return as_text(error)


def _read_output(output: Any) -> Any:
    """A text, or a list of parts whose words are the result."""
    parts = list(parts_of(output)) if isinstance(output, list) else []
    words = [words_in(part) for part in parts]
    if parts and all(word is not None for word in words):
        return read_result("".join(word or "" for word in words))
    return read_result(output)


def _write_message(item: Mapping[str, Any], scribe: Scribe) -> None:
    words = read_words(item, scribe)
    role = item.get("role")
    if role in ("system", "developer"):
        if words:
            scribe.system(words)
    elif role == "user":
        scribe.user(words or "")
    elif role == "assistant":
        if words:
            scribe.say(words)
        scribe.use(read_usage(item.get("usage")))
    else:
        scribe.notes.leave_out("message", f"of unknown kind {kind_of(item)!r}")

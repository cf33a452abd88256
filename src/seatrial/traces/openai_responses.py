"""Items of the Responses API, as the Agents SDK hands them on with `result.to_input_list()`."""

from collections.abc import Mapping
from typing import Any

from .parsing import as_text, join_texts, kind_of, parts_of, read_arguments, read_result, read_usage, read_words
from .transcript_builder import TranscriptBuilder

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


def add_message(item: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    """Add one item."""
    kind = item.get("type")
    if kind in _OUTPUTS:
        builder.add_result(item.get("call_id"), read_result(join_texts(item.get("output"))))
    elif isinstance(kind, str) and kind.endswith("_call"):
        _add_call(item, kind, builder)
    elif item.get("role") is not None:
        _add_text(item, builder)
    elif kind not in _QUIET:
        builder.omissions.add("item", f"of unknown type {kind_of(item)!r}")


def _add_call(item: Mapping[str, Any], kind: str, builder: TranscriptBuilder) -> None:
    """A call of a function, of an MCP server's tool, or of a provider's tool such as web_search."""
    call_id = item.get("call_id") or item.get("id")
    name = item.get("name") or kind.removesuffix("_call")
    given = next((item[key] for key in ("arguments", "input", "action", "queries", "code") if key in item), None)
    builder.add_call(name, read_arguments(given), call_id=call_id)
    builder.add_usage(read_usage(item.get("usage")))
    if kind in ("function_call", "custom_tool_call") or (kind == "mcp_call" and not _has_ended(item)):
        return
    error = item.get("error") or (f"the call is {item['status']}" if item.get("status") == "failed" else None)
    result = next((item[key] for key in ("output", "results", "outputs", "result") if item.get(key) is not None), None)
    if result is None and error is None:
        builder.end_call(call_id)
        return
    builder.add_result(call_id, read_result(result), error=None if error is None else _read_error(error))


def _has_ended(item: Mapping[str, Any]) -> bool:
    return item.get("output") is not None or item.get("error") is not None


def _read_error(error: Any) -> str:
    if isinstance(error, Mapping):
        return as_text(error.get("message") or error.get("content") or error)
    return as_text(error)


def _add_text(item: Mapping[str, Any], builder: TranscriptBuilder) -> None:
    role = item.get("role")
    builder.add_text(role, read_words(item, builder.omissions))
    if role == "assistant":
        builder.add_usage(read_usage(item.get("usage")))

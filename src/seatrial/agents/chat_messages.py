"""Parts of chat messages in the forms that APIs, frameworks and people write: text, tool calls, results, usage."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from seatrial.model.conversation import Message, ToolCall, Usage
from seatrial.model.json_values import plain_arguments, plain_value
from seatrial.model.protocols import AgentReply
from seatrial.model.results import AgentFailure
from seatrial.traces.anthropic import is_call, is_result, result_in
from seatrial.traces.parsing import parts_of

NO_CALLS_NAMED = "asks for tools (finish_reason 'tool_calls'), but names none in choices[0].message"
OTHER_ROLES = ("user", "tool", "function", "system", "developer")
_CALL_KEYS = re.compile(r"tool|(?<![a-z])(function)?call(s|ed)?(?![a-z])")
"""Keys that name calls, such as `tools_called`, `toolUse`, `function_call`; but not `recall` or `callback`."""


def show_value(value: Any) -> str:
    """The value and its type, for an error text."""
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def parse_json(text: str) -> Any:
    """The value of a JSON text; any other text as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# Text.


def read_text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(plain_value(value))
    raise AgentFailure(f"{where} must be a str, got {show_value(value)}", final=True)


def read_content(content: Any) -> str | None:
    """The text of a message's content, which may be a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text", "") if isinstance(part, Mapping) else part for part in content]
        return str(plain_value("".join(part for part in parts if isinstance(part, str))))
    return read_text(content, "content")


def text_of(message: Message) -> str:
    """The text of a message; empty when it has none."""
    return read_content(message.get("content")) or ""


def latest_user_text(messages: Sequence[Message]) -> str:
    """The text of the last user message; empty when there is none."""
    return next((text_of(message) for message in reversed(messages) if message.get("role") == "user"), "")


# Tool calls.


def parse_arguments(arguments: Any) -> Any:
    """The arguments of a chat-completions call; nothing at all means no arguments."""
    return {} if arguments is None or arguments == "" else plain_arguments(arguments)


def read_calls(calls: Any) -> tuple[ToolCall, ...]:
    """Tool calls from names, ToolCalls, mappings with a name, or chat-completions calls."""
    if type(calls) is not list and (isinstance(calls, str | Mapping) or not isinstance(calls, Iterable)):
        raise AgentFailure(f"tool calls must be a list of names or ToolCalls, got {show_value(calls)}", final=True)
    return tuple([_read_call(call, place) for place, call in enumerate(calls, start=1)])


def _read_call(call: Any, place: int) -> ToolCall:
    if isinstance(call, str):
        return ToolCall(plain_value(call), result_known=False)
    if isinstance(call, ToolCall) and isinstance(call.name, str):
        return ToolCall(
            plain_value(call.name),
            plain_arguments(call.arguments),
            plain_value(call.result),
            _optional_text(call.error),
            _optional_text(call.id),
            _milliseconds(call.started_ms),
            _milliseconds(call.duration_ms),
            result_known=call.result_known,
        )
    if isinstance(call, Mapping):
        function = call.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            identity = _optional_text(call.get("id") or f"call_{place}")
            arguments = parse_arguments(function.get("arguments"))
            return ToolCall(plain_value(function["name"]), arguments, id=identity, result_known=False)
        if isinstance(call.get("name"), str):
            return ToolCall(
                plain_value(call["name"]),
                plain_arguments(call.get("arguments", call.get("args"))),
                plain_value(call.get("result")),
                _optional_text(call.get("error")),
                _optional_text(call.get("id")),
                result_known="result" in call or call.get("error") is not None,
            )
    found = show_value(call)
    raise AgentFailure(f"a tool call must be a name, a ToolCall or a dict with a name, got {found}", final=True)


def _optional_text(value: Any) -> str | None:
    plain = plain_value(value)
    return plain if plain is None or isinstance(plain, str) else str(plain)


def _milliseconds(value: Any) -> float | None:
    plain = plain_value(value)
    return plain if isinstance(plain, int | float) and not isinstance(plain, bool) else None


def read_reported(calls: Any) -> tuple[ToolCall, ...]:
    """Calls that an agent made by itself and reports; arguments in JSON text become values."""
    return tuple(
        replace(call, arguments=parse_arguments(call.arguments)) if isinstance(call.arguments, str) else call
        for call in read_calls(calls)
    )


def read_requested(calls: Any, *, position: int) -> tuple[ToolCall, ...]:
    """Calls that Seatrial must answer, each with an id. Arguments that are no JSON object stay as they are.

    `position` is the length of the conversation. It makes ids unique where they are missing or used twice.
    """
    if calls is None:
        return ()
    if not isinstance(calls, list):
        raise AgentFailure(f"the agent returned tool_calls that are no list: {show_value(calls)}")
    read: list[ToolCall] = []
    taken: set[str] = set()
    for index, call in enumerate(calls):
        function = call.get("function", call) if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str) or not name.strip():
            raise AgentFailure(f"the agent returned a tool call without a name: {show_value(call)}")
        identity = "" if call.get("id") is None else str(call["id"])
        if not identity or identity in taken:
            identity = f"call_{position}_{index}"
        taken.add(identity)
        read.append(ToolCall(name, parse_arguments(function.get("arguments")), id=identity))
    return tuple(read)


def calls_in(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The calls of a message, under `tool_calls` or in content blocks as in Anthropic's API."""
    calls = read_calls(message.get("tool_calls") or ())
    if isinstance(message.get("content"), list):
        known = {call.id for call in calls}
        calls += tuple(call for call in _calls_in_blocks(message["content"]) if call.id is None or call.id not in known)
    if not calls:
        require_no_other_calls(message)
    return calls


def _calls_in_blocks(content: Sequence[Any]) -> Iterator[ToolCall]:
    for block in filter(is_call, parts_of(content)):
        arguments = parse_arguments(block.get("input"))
        yield from read_calls([{"id": block.get("id"), "name": block.get("name"), "arguments": arguments}])


def results_in(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, tuple[Any, str | None]]]:
    """What tools returned: the call's id, and its result or error."""
    for message in messages:
        content = message.get("content")
        if message.get("role") == "tool":
            result = parse_json(content) if isinstance(content, str) else content
            yield _optional_text(message.get("tool_call_id")), (plain_value(result), None)
        elif isinstance(content, list):
            for block in filter(is_result, parts_of(content)):
                found = result_in(block)
                yield found.call_id, (plain_value(found.result), found.error)


def require_no_other_calls(message: Mapping[str, Any]) -> None:
    """Refuse an assistant message with calls in a place that is not read: they would count as not made."""
    if message.get("role") in OTHER_ROLES:
        return
    parts = message.get("content")
    blocks = [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    kinds = [block["type"] if isinstance(block.get("type"), str) else key for block in blocks for key in block]
    for key in (*[key for key, value in message.items() if value], *kinds):
        if _CALL_KEYS.search(str(key).lower()):
            raise AgentFailure(
                f"the agent returned a message with {key!r}, where no tool calls are read; put them under "
                "'tool_calls', or return AgentResult(output, tool_calls=[...])",
                final=True,
            )


# Completions.


def has_failed(choice: Mapping[str, Any]) -> bool:
    """Whether the model failed while it wrote this choice, as OpenRouter reports it: its text is no reply."""
    return bool(choice.get("error")) or choice.get("finish_reason") == "error"


def lacks_calls(finish_reason: Any, reply: AgentReply) -> bool:
    """Whether announced calls are missing: some endpoints put them into a second choice."""
    return finish_reason == "tool_calls" and not reply.requested and not reply.tool_calls


INPUT_TOKENS = ("prompt_tokens", "input_tokens", "promptTokens", "inputTokens", "promptTokenCount")
OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "completionTokens", "outputTokens", "candidatesTokenCount")


def read_usage(usage: Any) -> Usage | None:
    """Tokens by the names of chat completions, ours or those in camelCase; None when they are not known."""
    if not isinstance(usage, Mapping):
        return None
    inputs = _count(usage, *INPUT_TOKENS)
    outputs = _count(usage, *OUTPUT_TOKENS)
    return None if inputs is None and outputs is None else Usage(input_tokens=inputs, output_tokens=outputs)


def _count(usage: Mapping[str, Any], *names: str) -> int | None:
    counts = (usage.get(name) for name in names)
    return next((n for n in counts if isinstance(n, int) and not isinstance(n, bool) and n >= 0), None)


def read_amount(cost: Any) -> float | None:
    """US dollars; None (unknown) for a value that is no amount."""
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9 else None

"""Chat messages, read: the assistant's as a reply or as tool calls to be answered, the user's as its words."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from seatrial.model.conversation import Message, ToolCall, Usage
from seatrial.model.protocols import AgentReply
from seatrial.model.results import AgentFailure

from .http_client import not_an_answer, not_json
from .replies import LACKING, has_failed, lacks_calls, parse_arguments, read_calls, read_content, require_no_other_calls


def read_completion(body: bytes, *, media_type: str, position: int) -> AgentReply:
    """The reply in the JSON body of a completion. `position` is the length of the conversation, for ids."""
    try:
        completion = json.loads(body)
    except (ValueError, RecursionError):
        raise not_json(media_type, body) from None
    if not isinstance(completion, Mapping):
        raise not_an_answer("returned JSON that is no object", body)
    choices = completion.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if completion.get("error") or (isinstance(first, Mapping) and has_failed(first)):
        raise not_an_answer("returned an error", body)
    message = first.get("message") if isinstance(first, Mapping) else None
    if not isinstance(message, Mapping):
        raise not_an_answer("returned a completion without choices[0].message", body)
    reply = read_message(message, usage=completion.get("usage"), position=position)
    if isinstance(first, Mapping) and lacks_calls(first.get("finish_reason"), reply):
        raise not_an_answer(f"returned a completion that {LACKING}", body)
    return reply


def read_message(message: Mapping[str, Any], *, usage: Any, position: int) -> AgentReply:
    """The reply in an assistant's message, whole or put together from a stream."""
    if message.get("function_call"):
        raise AgentFailure(
            "endpoint returned the retired function_call", hint="it must answer with tool_calls", final=True
        )
    calls = read_requested(message.get("tool_calls"), position=position)
    if not calls:
        require_no_other_calls(message)
    content = _read_content(message)
    return AgentReply(
        reply=None if calls else content,
        tool_calls=(),
        requested=calls,
        messages=(_to_append(message, content, calls),),
        usage=read_usage(usage),
        cost_usd=read_cost(usage),
    )


def read_requested(calls: Any, *, position: int) -> tuple[ToolCall, ...]:
    """Tool calls with an id each. Arguments that are no JSON object stay as they came."""
    if calls is None:
        return ()
    if not isinstance(calls, list):
        raise not_an_answer("returned tool_calls that are no list", repr(calls))
    taken: set[str] = set()
    read = []
    for index, call in enumerate(calls):
        function = call.get("function", call) if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name, str) or not name.strip():
            raise not_an_answer("returned a tool call without a name", repr(call))
        given = call.get("id")
        # Ids are made where they are missing or taken; the place in the conversation keeps them apart and stable.
        own = f"call_{position}_{index}"
        identity = str(given) if given not in (None, "") and str(given) not in taken else own
        taken.add(identity)
        read.append(ToolCall(name, parse_arguments(function.get("arguments")), id=identity))
    return tuple(read)


def read_reported(calls: Any) -> tuple[ToolCall, ...]:
    """Calls that an agent made by itself and tells us about; arguments in JSON text become what they say."""
    return tuple(
        replace(call, arguments=parse_arguments(call.arguments)) if isinstance(call.arguments, str) else call
        for call in read_calls(calls)
    )


def latest_user_text(messages: Sequence[Message]) -> str:
    """The words of the last user message; empty when there is none."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return read_content(message.get("content")) or ""
    return ""


def read_usage(usage: Any) -> Usage | None:
    """Tokens as chat completions or we name them; None where nobody counted."""
    if not isinstance(usage, Mapping):
        return None
    taken = _count(usage, "prompt_tokens", "input_tokens")
    given = _count(usage, "completion_tokens", "output_tokens")
    return None if taken is None and given is None else Usage(input_tokens=taken, output_tokens=given)


def read_cost(usage: Any) -> float | None:
    """US dollars where the endpoint says, as OpenRouter and LiteLLM do in `usage.cost`."""
    return read_amount(usage.get("cost")) if isinstance(usage, Mapping) else None


def read_amount(cost: Any) -> float | None:
    """US dollars; None for what cannot be an amount, which is then unknown and not free."""
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9 else None


def _count(usage: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _read_content(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if content is None:
        refused = message.get("refusal")
        return refused if isinstance(refused, str) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise not_an_answer("returned a message whose content is no text", repr(content))
    return "".join(_read_part(part) for part in content)


def _read_part(part: Any) -> str:
    """The words in a part of the content; pictures and reasoning have none that the user sees."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        for key in ("text", "refusal"):
            if isinstance(part.get(key), str) and part.get("type") not in ("thinking", "reasoning"):
                return str(part[key])
        return ""
    raise not_an_answer("returned a message whose content has a part that is no object", repr(part))


def _to_append(message: Mapping[str, Any], content: str | None, calls: Sequence[ToolCall]) -> Message:
    """The message as the agent wrote it, in a form that can be sent back: with ids, without empty fields."""
    kept = {key: value for key, value in message.items() if value not in (None, [])}
    appended: Message = {**kept, "role": "assistant", "content": kept.get("content", content)}
    if calls:
        appended["tool_calls"] = [
            _call_to_append(raw, call) for raw, call in zip(message["tool_calls"], calls, strict=True)
        ]
    return appended


def _call_to_append(raw: Mapping[str, Any], call: ToolCall) -> dict[str, Any]:
    function = raw.get("function", raw)
    arguments = function.get("arguments")
    written = {"name": call.name, "arguments": "{}" if arguments in (None, "") else arguments}
    return {"id": call.id, "type": "function", "function": written}

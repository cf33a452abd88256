"""What a Python agent returns, read as a reply: text, AgentResult, tuple, message or list of messages."""

from collections.abc import Mapping, Sequence
from math import inf
from operator import index
from typing import Any

from msgspec.structs import replace

from seatrial.model.conversation import AgentResult, Message, ToolCall, Usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentReply
from seatrial.model.results import AgentFailure

from .chat_messages import (
    NO_CALLS_NAMED,
    OTHER_ROLES,
    calls_in,
    has_failed,
    lacks_calls,
    read_calls,
    read_content,
    read_text,
    results_in,
    show_value,
)
from .message_parts import attachments_in, read_attachments, read_contexts
from .sdk_results import read_sdk_result

_FORMS = (
    "return a str, an AgentResult(output, tool_calls=[...]), a tuple (reply, [tool calls]), "
    "a chat message dict, a list of messages, or the result object of an SDK"
)
_OTHER_TYPES = ("human", "tool", "function", "system")
"""The `type` of LangChain's messages that are not the agent's; they have no role."""
_PLAIN_MESSAGE = frozenset(("role", "content", "tool_calls"))
"""The keys of a message that people write. Those of providers and frameworks have more."""


def read_reply(value: Any) -> AgentReply:
    """The reply in any accepted form. Raises AgentFailure for any other value."""
    if value is None:
        return AgentReply()
    if isinstance(value, str):
        return AgentReply(reply=plain_value(value))
    if isinstance(value, AgentResult):
        return _from_result(value)
    if isinstance(value, AgentReply):
        return plain_reply(value)
    if isinstance(value, tuple):
        return _from_tuple(value)
    found = read_sdk_result(value)
    if found is not None:
        return found
    if isinstance(value, Mapping):
        return _from_mapping(value, plain=type(value) is dict)
    if isinstance(value, list):
        return _from_messages(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump()
        if isinstance(dumped, Mapping):
            return _from_mapping(dumped, plain=False)
        if isinstance(dumped, list):
            return _from_messages(dumped)
    raise AgentFailure(f"the agent returned {show_value(value)}; {_FORMS}", final=True)


def plain_reply(reply: AgentReply) -> AgentReply:
    """The same reply with nothing but JSON values in it."""
    return replace(
        reply,
        reply=read_text(reply.reply, "AgentReply.reply"),
        tool_calls=None if reply.tool_calls is None else read_calls(reply.tool_calls),
        requested=read_calls(reply.requested),
        messages=tuple(map(plain_value, reply.messages)),
        usage=_read_usage(reply.usage),
        cost_usd=_read_cost(reply.cost_usd),
        attachments=read_attachments(reply.attachments),
        contexts=read_contexts(reply.contexts),
    )


def _from_result(result: AgentResult) -> AgentReply:
    return AgentReply(
        reply=read_text(result.output, "AgentResult.output"),
        tool_calls=None if result.tool_calls is None else read_calls(result.tool_calls),
        usage=_read_usage(result.usage),
        cost_usd=_read_cost(result.cost_usd),
        attachments=read_attachments(result.attachments),
        contexts=read_contexts(result.contexts),
    )


def _from_tuple(value: tuple[Any, ...]) -> AgentReply:
    if len(value) != 2:
        raise AgentFailure(f"the agent returned a tuple of {len(value)}; {_FORMS}", final=True)
    reply, calls = value
    return AgentReply(
        reply=read_text(reply, "the first of the tuple"), tool_calls=None if calls is None else read_calls(calls)
    )


def _from_mapping(value: Mapping[str, Any], *, plain: bool) -> AgentReply:
    """`plain`: the agent wrote a dict; it is not an object of a library."""
    if "choices" in value:
        choice = _first_choice(value)
        reply = _from_message(choice["message"], plain=False, usage=_read_usage(value.get("usage")))
        if lacks_calls(choice.get("finish_reason"), reply):
            raise AgentFailure("the agent returned a completion that " + NO_CALLS_NAMED, final=True)
        return reply
    if "role" in value or "content" in value:
        return _from_message(value, plain=plain)
    if "output" in value:
        return _from_result(AgentResult(**_own_fields(value)))
    raise AgentFailure(f"the agent returned a dict with the keys {sorted(map(str, value))}; {_FORMS}", final=True)


def _own_fields(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping, if it has only fields of AgentResult: other fields may mean something else."""
    unknown = sorted(map(str, set(value) - {"output", "tool_calls", "usage", "cost_usd"}))
    if unknown:
        raise AgentFailure(
            f"the agent returned a result with {', '.join(unknown)}, which is not one of Seatrial's; "
            "return seatrial.AgentResult(output, tool_calls=[...], usage=..., cost_usd=...)",
            final=True,
        )
    return value


def _first_choice(value: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = value["choices"]
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        message = choices[0].get("message")
        if has_failed(choices[0]):
            raise AgentFailure(f"the agent returned a completion that ended in an error: {show_value(choices[0])}")
        if isinstance(message, Mapping):
            return choices[0]
    raise AgentFailure("the agent returned a completion without choices[0].message", final=True)


def _from_message(message: Mapping[str, Any], *, plain: bool, usage: Usage | None = None) -> AgentReply:
    """A single message. It is mostly the last one of a loop, and says nothing about earlier calls.

    Only a plain dict with `tool_calls: []` states that there were none.
    """
    _require_assistant(message)
    calls = tuple(
        call if call.id else replace(call, id=f"call_{place}") for place, call in enumerate(calls_in(message), 1)
    )
    answered, requested = _sort_by_answer(calls, [message])
    states = plain and message.get("tool_calls") == [] and _PLAIN_MESSAGE.issuperset(message)
    return AgentReply(
        reply=read_content(message.get("content")),
        tool_calls=answered if states or answered else None,
        hides_calls=bool(answered) and not states,
        requested=requested,
        messages=(plain_value(_with_ids(message, calls) if message.get("tool_calls") else message),),
        attachments=attachments_in(message.get("content")),
        usage=usage,
    )


def _require_assistant(message: Mapping[str, Any]) -> None:
    """Refuse a message of the user, the system or a tool: it is no reply."""
    role = message.get("role")
    if role is None and message.get("type") in _OTHER_TYPES:
        role = message["type"]
    if role in (*OTHER_ROLES, *_OTHER_TYPES):
        raise AgentFailure(
            f"the agent returned a message with the role {role!r}, which is no reply of the agent; {_FORMS}", final=True
        )


def _from_messages(messages: Sequence[Any]) -> AgentReply:
    """The new messages of a turn: calls with their results, and the last assistant text as the reply."""
    if not messages:
        return AgentReply(tool_calls=())
    for message in messages:
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise AgentFailure(
                f"the agent returned a list that is not one of messages: {show_value(message)} has no role; {_FORMS}",
                final=True,
            )
    calls = [call for message in messages for call in calls_in(message)]
    answered, requested = _sort_by_answer(calls, messages)
    last = messages[-1]
    reply = read_content(last.get("content")) if last.get("role") == "assistant" else None
    return AgentReply(
        reply=reply,
        tool_calls=answered,
        requested=requested,
        messages=tuple(map(plain_value, messages)),
        attachments=attachments_in(last.get("content")) if last.get("role") == "assistant" else (),
    )


def _sort_by_answer(
    calls: Sequence[ToolCall], messages: Sequence[Mapping[str, Any]]
) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
    """The calls with a result in the messages, and those without one."""
    # Some models use the same id for several calls: each call takes the next result of its id.
    results: dict[Any, list[tuple[Any, str | None]]] = {}
    for call_id, result in results_in(messages):
        results.setdefault(call_id, []).append(result)
    answered, waiting = [], []
    for call in calls:
        if results.get(call.id):
            answered.append(ToolCall(call.name, call.arguments, *results[call.id].pop(0), call.id))
        else:
            waiting.append(call)
    return tuple(answered), tuple(waiting)


def _with_ids(message: Mapping[str, Any], calls: Sequence[ToolCall]) -> Message:
    """The message with an id on every call, so that the results can name them."""
    given = [dict(call) if isinstance(call, Mapping) else call for call in message["tool_calls"]]
    for raw, call in zip(given, calls, strict=False):
        if isinstance(raw, dict) and not raw.get("id"):
            raw["id"] = call.id
    return {**message, "tool_calls": given}


def _read_usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    if isinstance(usage, Usage):
        taken, given = usage.input_tokens, usage.output_tokens
    elif isinstance(usage, Mapping):
        taken = usage.get("input_tokens", usage.get("prompt_tokens"))
        given = usage.get("output_tokens", usage.get("completion_tokens"))
    else:
        raise AgentFailure(f"usage must be a Usage or a dict, got {show_value(usage)}", final=True)
    return Usage(input_tokens=_read_tokens(taken), output_tokens=_read_tokens(given))


def _read_tokens(tokens: Any) -> int | None:
    if tokens is None:
        return None
    if isinstance(tokens, bool) or not hasattr(tokens, "__index__") or tokens < 0:
        raise AgentFailure(f"tokens in usage must be a whole number, got {show_value(tokens)}", final=True)
    return int(index(tokens))


def _read_cost(cost_usd: Any) -> float | None:
    if cost_usd is None:
        return None
    known = float(cost_usd) if hasattr(cost_usd, "__float__") and not isinstance(cost_usd, bool) else inf
    if not 0 <= known < inf:
        raise AgentFailure(f"cost_usd must be a number of US dollars, got {show_value(cost_usd)}", final=True)
    return known


def only_new(value: Any, said: Sequence[Message]) -> Any:
    """The messages after the user's latest one, if the agent returns the whole conversation.

    The list may contain the agent's own system prompt and examples. Calls of earlier turns must not count again, so a
    list in which the start of this turn cannot be found is refused.
    """
    if not isinstance(value, list):
        return value
    spoken = [place for place, message in enumerate(said) if _is_users(message)]
    if not spoken or not any(map(_is_users, value)):
        return value
    latest = _words(said[spoken[-1]])
    places = [place for place, message in enumerate(value) if _is_users(message) and _words(message) == latest]
    if places:
        new = value[places[-1] + 1 :]
        known = list(said[spoken[-1] + 1 :])
        return new[len(known) :] if new[: len(known)] == known else new
    if len(spoken) == 1:
        return value
    raise AgentFailure(
        f"the agent returned a list with messages of the user, but without the latest one, {latest!r:.200}, "
        "so new tool calls cannot be told from old ones; return only the new messages",
        final=True,
    )


def _is_users(message: Any) -> bool:
    """Whether it has text of the user. In Anthropic's API tool results have the user's role, too."""
    return isinstance(message, Mapping) and message.get("role") == "user" and _words(message) is not None


def _words(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, str):
        return content.strip()
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    words = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "".join(words).strip() if words else None

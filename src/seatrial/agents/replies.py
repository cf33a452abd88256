"""Tool calls and results that stand as blocks in the content of a message, as Anthropic's API has them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import index
from typing import Any

from msgspec.structs import replace

from seatrial.model.conversation import AgentResult, Message, ToolCall, Usage
from seatrial.model.json_values import plain_arguments, plain_value
from seatrial.model.protocols import AgentReply
from seatrial.model.results import AgentFailure
from seatrial.traces.anthropic import is_call, is_result, result_in
from seatrial.traces.parsing import parts_of


def calls_of(content: Sequence[Any]) -> Iterator[ToolCall]:
    """The calls among the blocks."""
    for block in filter(is_call, parts_of(content)):
        arguments = parse_arguments(block.get("input"))
        yield from read_calls([{"id": block.get("id"), "name": block.get("name"), "arguments": arguments}])


def results_of(content: Sequence[Any]) -> Iterator[tuple[Any, tuple[Any, str | None]]]:
    """What tools gave back among the blocks: the call's id, and its result or error."""
    for block in filter(is_result, parts_of(content)):
        found = result_in(block)
        yield found.call_id, (plain_value(found.result), found.error)


_FORMS = (
    "return a str, an AgentResult(output, tool_calls=[...]), a tuple (reply, [tool calls]), "
    "a chat message dict, or a list of messages"
)
_OTHER_ROLES = ("user", "tool", "function", "system", "developer")
_OTHER_TYPES = ("human", "tool", "function", "system")
"""What LangChain's messages of other roles say in their `type`; they have no role."""
_PLAIN_MESSAGE = frozenset(("role", "content", "tool_calls"))
"""The keys of a message as people write one. Those of providers and frameworks have more."""
_ABOUT_CALLS = re.compile(r"tool|(?<![a-z])(function)?call(s|ed)?(?![a-z])")
"""Names that speak of calls: `tools_called`, `toolUse`, `function_call`; but not `recall` or `callback`."""

LACKING = "asks for tools (finish_reason 'tool_calls'), but names none in choices[0].message"


def read_reply(value: Any) -> AgentReply:
    """The reply in whatever form the agent gave it. Raises AgentFailure for what cannot be one."""
    if value is None:
        return AgentReply()
    if isinstance(value, str):
        return AgentReply(reply=plain_value(value))
    if isinstance(value, AgentResult):
        return _from_result(value)
    if isinstance(value, tuple):
        return _from_tuple(value)
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
    raise AgentFailure(f"the agent returned {_brief(value)}; {_FORMS}", final=True)


def plain_reply(reply: AgentReply) -> AgentReply:
    """The same reply with nothing but JSON values in it."""
    return replace(
        reply,
        reply=_text(reply.reply, "AgentReply.reply"),
        tool_calls=None if reply.tool_calls is None else read_calls(reply.tool_calls),
        requested=read_calls(reply.requested),
        messages=tuple(map(plain_value, reply.messages)),
        usage=_read_usage(reply.usage),
        cost_usd=_read_cost(reply.cost_usd),
    )


def _from_result(result: AgentResult) -> AgentReply:
    return AgentReply(
        reply=_text(result.output, "AgentResult.output"),
        tool_calls=None if result.tool_calls is None else read_calls(result.tool_calls),
        usage=_read_usage(result.usage),
        cost_usd=_read_cost(result.cost_usd),
    )


def _from_tuple(value: tuple[Any, ...]) -> AgentReply:
    if len(value) != 2:
        raise AgentFailure(f"the agent returned a tuple of {len(value)}; {_FORMS}", final=True)
    reply, calls = value
    return AgentReply(
        reply=_text(reply, "the first of the tuple"), tool_calls=None if calls is None else read_calls(calls)
    )


def _from_mapping(value: Mapping[str, Any], *, plain: bool) -> AgentReply:
    """`plain`: a dict that the agent wrote, and no object of a library that looks like one."""
    if "choices" in value:
        choice = _first_choice(value)
        reply = _from_message(choice["message"], plain=False, usage=_read_usage(value.get("usage")))
        if lacks_calls(choice.get("finish_reason"), reply):
            raise AgentFailure("the agent returned a completion that " + LACKING, final=True)
        return reply
    if "role" in value or "content" in value:
        return _from_message(value, plain=plain)
    if "output" in value:
        return _from_result(AgentResult(**_own_fields(value)))
    raise AgentFailure(f"the agent returned a dict with the keys {sorted(map(str, value))}; {_FORMS}", final=True)


def _own_fields(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping, where it has no other fields than a result of ours; another tool's may mean something else."""
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
            raise AgentFailure(f"the agent returned a completion that ended in an error: {_brief(choices[0])}")
        if isinstance(message, Mapping):
            return choices[0]
    raise AgentFailure("the agent returned a completion without choices[0].message", final=True)


def has_failed(choice: Mapping[str, Any]) -> bool:
    """Whether the model broke down in the middle of this choice, as OpenRouter tells it: what it said is no reply."""
    return bool(choice.get("error")) or choice.get("finish_reason") == "error"


def lacks_calls(finish_reason: Any, reply: AgentReply) -> bool:
    """Whether calls were announced that are not there: some endpoints put them into a second choice."""
    return finish_reason == "tool_calls" and not reply.requested and not reply.tool_calls


def _from_message(message: Mapping[str, Any], *, plain: bool, usage: Usage | None = None) -> AgentReply:
    """A single message, mostly the last of a loop: of the calls before it, it says nothing.

    Only a plain mapping in which the agent itself wrote `tool_calls: []` states that it made none.
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
        usage=usage,
    )


def _require_assistant(message: Mapping[str, Any]) -> None:
    """Refuse a message of the user, the system or a tool: nobody said it as the agent."""
    role = message.get("role")
    if role is None and message.get("type") in _OTHER_TYPES:
        role = message["type"]
    if role in (*_OTHER_ROLES, *_OTHER_TYPES):
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
                f"the agent returned a list that is not one of messages: {_brief(message)} has no role; {_FORMS}",
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
    )


def calls_in(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The calls of a message, under `tool_calls` or as blocks of its content, as Anthropic's API has them."""
    calls = read_calls(message.get("tool_calls") or ())
    if isinstance(message.get("content"), list):
        known = {call.id for call in calls}
        calls += tuple(call for call in calls_of(message["content"]) if call.id is None or call.id not in known)
    if not calls:
        require_no_other_calls(message)
    return calls


def require_no_other_calls(message: Mapping[str, Any]) -> None:
    """Refuse a message of the agent's with calls where nobody reads them: they would count as not made."""
    if message.get("role") in _OTHER_ROLES:
        return
    parts = message.get("content")
    blocks = [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    kinds = [block["type"] if isinstance(block.get("type"), str) else key for block in blocks for key in block]
    for key in (*[key for key, value in message.items() if value], *kinds):
        if _ABOUT_CALLS.search(str(key).lower()):
            raise AgentFailure(
                f"the agent returned a message with {key!r}, where no tool calls are read; put them under "
                "'tool_calls', or return AgentResult(output, tool_calls=[...])",
                final=True,
            )


def _sort_by_answer(
    calls: Sequence[ToolCall], messages: Sequence[Mapping[str, Any]]
) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
    """The calls that the messages hold a result for, with it, and those that wait for one."""
    # Some models give the same id to calls one after the other: each takes the next result of its id.
    results: dict[Any, list[tuple[Any, str | None]]] = {}
    for call_id, result in _results_in(messages):
        results.setdefault(call_id, []).append(result)
    answered, waiting = [], []
    for call in calls:
        if results.get(call.id):
            answered.append(ToolCall(call.name, call.arguments, *results[call.id].pop(0), call.id))
        else:
            waiting.append(call)
    return tuple(answered), tuple(waiting)


def _results_in(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, tuple[Any, str | None]]]:
    """What tools gave back: the call's id, and its result or error."""
    for message in messages:
        content = message.get("content")
        if message.get("role") == "tool":
            result = parse_json(content) if isinstance(content, str) else content
            yield _optional_text(message.get("tool_call_id")), (plain_value(result), None)
        elif isinstance(content, list):
            yield from results_of(content)


def read_calls(calls: Any) -> tuple[ToolCall, ...]:
    """Tool calls from names, ToolCalls, mappings with a name, or chat-completions calls."""
    if type(calls) is not list and (isinstance(calls, str | Mapping) or not isinstance(calls, Iterable)):
        raise AgentFailure(f"tool calls must be a list of names or ToolCalls, got {_brief(calls)}", final=True)
    return tuple([_read_call(call, place) for place, call in enumerate(calls, start=1)])


def _read_call(call: Any, place: int) -> ToolCall:
    if isinstance(call, ToolCall) and isinstance(call.name, str):
        return ToolCall(
            plain_value(call.name),
            plain_arguments(call.arguments),
            plain_value(call.result),
            _optional_text(call.error),
            _optional_text(call.id),
            _milliseconds(call.started_ms),
            _milliseconds(call.duration_ms),
        )
    if isinstance(call, str):
        return ToolCall(plain_value(call))
    if isinstance(call, Mapping):
        function = call.get("function")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            arguments = parse_arguments(function.get("arguments"))
            return ToolCall(
                plain_value(function["name"]), arguments, id=_optional_text(call.get("id") or f"call_{place}")
            )
        if isinstance(call.get("name"), str):
            return ToolCall(
                plain_value(call["name"]),
                plain_arguments(call.get("arguments", call.get("args"))),
                plain_value(call.get("result")),
                _optional_text(call.get("error")),
                _optional_text(call.get("id")),
            )
    raise AgentFailure(f"a tool call must be a name, a ToolCall or a dict with a name, got {_brief(call)}", final=True)


def parse_arguments(arguments: Any) -> Any:
    """Arguments as chat completions send them: nothing at all means that there are none."""
    return {} if arguments is None or arguments == "" else plain_arguments(arguments)


def _optional_text(value: Any) -> str | None:
    plain = plain_value(value)
    return plain if plain is None or isinstance(plain, str) else str(plain)


def _milliseconds(value: Any) -> float | None:
    plain = plain_value(value)
    return plain if isinstance(plain, int | float) and not isinstance(plain, bool) else None


def parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_content(content: Any) -> str | None:
    """The text of a message's content, which may be a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text", "") if isinstance(part, Mapping) else part for part in content]
        return str(plain_value("".join(part for part in parts if isinstance(part, str))))
    return _text(content, "content")


def _with_ids(message: Mapping[str, Any], calls: Sequence[ToolCall]) -> Message:
    """The message with an id on every call, so that the results can name them."""
    given = [dict(call) if isinstance(call, Mapping) else call for call in message["tool_calls"]]
    for raw, call in zip(given, calls, strict=False):
        if isinstance(raw, dict) and not raw.get("id"):
            raw["id"] = call.id
    return {**message, "tool_calls": given}


def _text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else str(plain_value(value))
    raise AgentFailure(f"{where} must be a str, got {_brief(value)}", final=True)


def _read_usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    if isinstance(usage, Usage):
        taken, given = usage.input_tokens, usage.output_tokens
    elif isinstance(usage, Mapping):
        taken = usage.get("input_tokens", usage.get("prompt_tokens"))
        given = usage.get("output_tokens", usage.get("completion_tokens"))
    else:
        raise AgentFailure(f"usage must be a Usage or a dict, got {_brief(usage)}", final=True)
    return Usage(input_tokens=_read_tokens(taken), output_tokens=_read_tokens(given))


def _read_tokens(tokens: Any) -> int | None:
    if tokens is None:
        return None
    if isinstance(tokens, bool) or not hasattr(tokens, "__index__") or tokens < 0:
        raise AgentFailure(f"tokens in usage must be a whole number, got {_brief(tokens)}", final=True)
    return int(index(tokens))


def _read_cost(cost_usd: Any) -> float | None:
    if cost_usd is None:
        return None
    known = float(cost_usd) if hasattr(cost_usd, "__float__") and not isinstance(cost_usd, bool) else inf
    if not 0 <= known < inf:
        raise AgentFailure(f"cost_usd must be a number of US dollars, got {_brief(cost_usd)}", final=True)
    return known


def _brief(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"

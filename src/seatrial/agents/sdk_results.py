"""What SDKs of agents return, read as a reply: run results, lists of messages, states of graphs, objects with data.

Objects are recognised by the names of their classes, so no SDK is imported. Messages are read with the readers of
recordings in `traces`.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from seatrial.model.conversation import PlayedTurn, Usage, total_usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentReply
from seatrial.model.results import AgentFailure
from seatrial.traces import anthropic, langchain, openai_responses, pydantic_ai
from seatrial.traces.parsing import Omissions
from seatrial.traces.transcript_builder import TranscriptBuilder

from .chat_messages import read_amount, read_usage

_BLOCKS = {
    "TextBlock": "text",
    "ThinkingBlock": "thinking",
    "ToolUseBlock": "tool_use",
    "ToolResultBlock": "tool_result",
    "ServerToolUseBlock": "server_tool_use",
    "ServerToolResultBlock": "server_tool_result",
}
"""Blocks of the Claude Agent SDK -> the type of the same block in Anthropic's API."""


def read_sdk_result(value: Any) -> AgentReply | None:
    """The reply in an object of an SDK, or in data that an agent returns; None if it is neither."""
    package = type(value).__module__.partition(".")[0]
    name = type(value).__name__
    if package == "agents" and hasattr(value, "new_items"):
        return _read_openai(value)
    if package == "pydantic_ai" and hasattr(value, "new_messages"):
        return _read_pydantic_ai(value)
    if package == "strands" and name == "AgentResult":
        return _read_strands(value)
    if package == "agent_framework" and name == "AgentResponse":
        return _read_agent_framework(value)
    if package == "claude_agent_sdk" and hasattr(value, "session_id"):
        return read_claude_messages([value])
    if isinstance(value, list) and value and is_sdk_message(value[0]):
        return _read_list(value)
    if isinstance(value, Mapping):
        return _read_state(value) or _read_converse(value)
    return _read_data(value)


def is_sdk_message(value: Any) -> bool:
    """Whether it is a message object of LangChain, pydantic-ai or the Claude Agent SDK."""
    package = type(value).__module__.partition(".")[0]
    if package == "claude_agent_sdk":
        return type(value).__name__.endswith("Message") or type(value).__name__ == "StreamEvent"
    if package == "pydantic_ai":
        return getattr(value, "kind", None) in ("request", "response")
    return package.startswith("langchain") and hasattr(value, "content") and hasattr(value, "type")


def join_sdk_pieces(pieces: Sequence[Any]) -> Any:
    """What the pieces of an SDK's stream say together; None if they are no such pieces."""
    if all(map(is_sdk_message, pieces)):
        return list(pieces)
    if all(isinstance(piece, Mapping) for piece in pieces):
        result = pieces[-1].get("result")  # the last event of a Strands agent
        return result if type(result).__module__.partition(".")[0] == "strands" else None
    if all(type(piece).__name__ == "AgentResponseUpdate" for piece in pieces):
        from agent_framework import AgentResponse

        return AgentResponse.from_updates(list(pieces))
    return None


def as_json_text(value: Any) -> str | None:
    """An agent's output as text: a text as it is, any other value as JSON."""
    plain = plain_value(value)
    return plain if plain is None or isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _read_messages(messages: Iterable[Any], reader: Any) -> PlayedTurn:
    """What follows the user's latest message, as a turn."""
    builder = TranscriptBuilder(Omissions())
    builder.add_user("-")
    for message in messages:
        if isinstance(message, Mapping):
            reader.add_message(message, builder)
    recording = builder.build("", recorded=None)
    assert recording is not None  # it has at least our message
    return recording.transcript.turns[-1]


def _as_reply(turn: PlayedTurn, *, output: Any = None, usage: Usage | None = None) -> AgentReply:
    return AgentReply(
        reply=as_json_text(output) if output is not None else turn.reply,
        tool_calls=turn.tool_calls or (),
        usage=usage or turn.usage,
        cost_usd=turn.cost_usd,
    )


def _waits(names: Iterable[Any]) -> AgentFailure:
    shown = ", ".join(sorted({str(name) for name in names}))
    return AgentFailure(
        f"the agent returned a result that waits for a person to approve {shown}",
        hint="give the agent itself with its type, and approve the calls in a turn: {approve: [...]}",
        final=True,
    )


def _read_openai(result: Any) -> AgentReply:
    if not getattr(result, "is_complete", True):
        raise AgentFailure(
            "the agent returned a streamed result before its end",
            hint="read the stream first: `async for event in result.stream_events(): ...`",
            final=True,
        )
    if getattr(result, "interruptions", None):
        raise _waits(item.name for item in result.interruptions)
    turn = _read_messages([plain_value(item.to_input_item()) for item in result.new_items], openai_responses)
    taken = [each.usage for each in result.raw_responses]
    known = [
        Usage(input_tokens=each.input_tokens, output_tokens=each.output_tokens) if each.total_tokens else None
        for each in taken
    ]
    return _as_reply(turn, output=result.final_output, usage=total_usage(known))


def _read_pydantic_ai(result: Any) -> AgentReply:
    if type(result.output).__name__ == "DeferredToolRequests":
        raise _waits(call.tool_name for call in (*result.output.calls, *result.output.approvals))
    return _as_reply(_read_messages(json.loads(result.new_messages_json()), pydantic_ai), output=result.output)


def _read_strands(result: Any) -> AgentReply:
    """The last message, which says nothing about tools, and the tokens of all requests of the agent's life."""
    if result.interrupts:
        raise _waits(interrupt.name for interrupt in result.interrupts)
    blocks = result.message.get("content") or []
    text = "".join(str(block.get("text", "")) for block in blocks if isinstance(block, Mapping))
    return AgentReply(reply=text if result.structured_output is None else as_json_text(result.structured_output))


def _read_agent_framework(response: Any) -> AgentReply:
    """The response of Microsoft's Agent Framework: its new messages, with calls and results as contents."""
    if getattr(response, "user_input_requests", None):
        raise _waits((each.function_call or each).name for each in response.user_input_requests)
    from .chat_messages import parse_arguments, read_reported

    contents = [content for message in response.messages for content in message.contents]
    results = {each.call_id: each for each in contents if each.type == "function_result"}
    calls = []
    for each in contents:
        if each.type == "function_call":
            found = results.get(each.call_id)
            failed = getattr(found, "exception", None)
            calls.append(
                {
                    "id": each.call_id,
                    "name": each.name,
                    "arguments": parse_arguments(each.arguments),
                    "result": None if found is None or failed else plain_value(found.result),
                    "error": None if failed is None else str(failed),
                }
            )
    usage = getattr(response, "usage_details", None)
    return AgentReply(reply=str(response.text), tool_calls=read_reported(calls), usage=_read_counts(usage))


def _read_counts(usage: Any) -> Usage | None:
    counts = usage if isinstance(usage, Mapping) else vars(usage) if usage is not None else {}
    return read_usage(
        {"input_tokens": counts.get("input_token_count"), "output_tokens": counts.get("output_token_count")}
    )


def _read_list(messages: Sequence[Any]) -> AgentReply:
    package = type(messages[0]).__module__.partition(".")[0]
    if package == "claude_agent_sdk":
        return read_claude_messages(messages)
    if package == "pydantic_ai":
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        return _as_reply(_read_messages(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"), pydantic_ai))
    return _as_reply(_read_messages([_dump(message) for message in _join_chunks(messages)], langchain))


def _join_chunks(messages: Sequence[Any]) -> list[Any]:
    """The messages; the pieces of a message that LangChain streamed are one message."""
    joined: list[Any] = []
    for message in messages:
        known: Any = joined[-1] if joined else None
        if type(message).__name__ == "AIMessageChunk" and type(known) is type(message) and known.id == message.id:
            joined[-1] = known + message
        else:
            joined.append(message)
    return joined


def _dump(message: Any) -> Any:
    return plain_value(message.model_dump()) if hasattr(message, "model_dump") else plain_value(message)


def _read_state(state: Mapping[str, Any]) -> AgentReply | None:
    """The state of a LangGraph graph. Its messages may be those of the whole conversation."""
    messages = state.get("messages")
    if not isinstance(messages, list) or not messages or not is_sdk_message(messages[-1]):
        return None
    if state.get("__interrupt__"):
        raise AgentFailure(
            "the agent returned the state of an interrupted graph",
            hint="give the graph itself: {type: langgraph, target: ...}",
            final=True,
        )
    turn = _read_messages([_dump(message) for message in messages if is_sdk_message(message)], langchain)
    return _as_reply(turn, output=state.get("structured_response"))


def _read_converse(answer: Mapping[str, Any]) -> AgentReply | None:
    """An answer of Bedrock's Converse API: a single message, which says nothing about earlier calls."""
    from .bedrock import ConverseApi, converse_blocks

    if "stopReason" not in answer or converse_blocks(answer) is None:
        return None
    reply = ConverseApi().read(answer, b"", position=0)
    return replace(reply, tool_calls=None, messages=(_chat_message(reply),) if reply.requested else ())


def _chat_message(reply: AgentReply) -> dict[str, Any]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in reply.requested
    ]
    return {"role": "assistant", "content": reply.reply, "tool_calls": calls}


def read_claude_messages(messages: Sequence[Any]) -> AgentReply:
    """The messages of one turn of the Claude Agent SDK. Without a ResultMessage, tokens and cost are not known."""
    results = [message for message in messages if type(message).__name__ == "ResultMessage"]
    for result in results:
        if result.is_error:
            said = result.result or "; ".join(result.errors or ()) or result.subtype
            raise AgentFailure(f"the agent's run ended with an error: {said}")
    listed = [_claude_message(message) for message in messages if type(message).__name__ in _ROLES]
    turn = _read_messages(listed, anthropic)
    last = results[-1] if results else None
    complete = bool(listed)
    reply = turn.reply
    if last is not None:
        reply = as_json_text(last.structured_output) if last.structured_output is not None else last.result
    return AgentReply(
        reply=reply,
        tool_calls=(turn.tool_calls or ()) if complete else None,
        usage=total_usage(_claude_usage(result.usage) for result in results) if results else None,
        cost_usd=None if last is None else read_amount(last.total_cost_usd),
    )


_ROLES = {"UserMessage": "user", "AssistantMessage": "assistant"}


def _claude_message(message: Any) -> dict[str, Any]:
    blocks = [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
    content = [
        block if isinstance(block, dict) else {"type": _BLOCKS.get(type(block).__name__, ""), **plain_value(block)}
        for block in blocks
    ]
    # A prompt of the user would start another turn. What tools return is also a message of the user.
    kept = (
        [block for block in content if block["type"] != "text"] if _ROLES[type(message).__name__] == "user" else content
    )
    return {"role": _ROLES[type(message).__name__], "content": kept}


def _claude_usage(usage: Any) -> Usage | None:
    from .anthropic import read_tokens

    return read_tokens(usage)


def _read_data(value: Any) -> AgentReply | None:
    """A pydantic model or a dataclass with data: its JSON is the reply."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        dumped = dump()
        if not isinstance(dumped, Mapping) or not {"role", "content", "choices", "output"}.isdisjoint(dumped):
            return None  # a message, a completion, or a result in our own form
        return AgentReply(reply=as_json_text(dumped))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return AgentReply(reply=as_json_text(value))
    return None

"""What a worker process and its parent write to each other, one JSON object per line.

It is the command protocol of docs/command-protocol.md and a little more, so that a Python agent in a worker is given
and gives exactly what it would in the parent: tool results as values, requested calls, foreign tracebacks.
"""

import json
from collections.abc import Mapping
from typing import Any

from seatrial.model.conversation import ErrorKind, ToolCall, Usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentReply, ToolAnswer, TrialStart
from seatrial.model.trial_errors import AgentFailure, TrialError

_CALL = ("name", "arguments", "result", "error", "id", "started_ms", "duration_ms", "real")


def write_line(message: Mapping[str, Any]) -> bytes:
    """The message, of plain values, on a line of its own."""
    return json.dumps(message).encode() + b"\n"


def write_trial(start: TrialStart) -> dict[str, Any]:
    """What a worker is told when a trial begins."""
    return {
        "type": "trial",
        "trial_id": start.trial_id,
        "scenario": start.scenario,
        "index": start.index,
        "seed": start.seed,
        "tools": list(start.tool_schemas),
        "elapsed_ms": start.elapsed_ms(),
        "mcp_url": start.mcp_url,
    }


def write_call(call: ToolCall) -> dict[str, Any]:
    return {name: getattr(call, name) for name in _CALL}


def read_call(written: Mapping[str, Any]) -> ToolCall:
    parts: dict[str, Any] = {part: written.get(part) for part in _CALL}
    return ToolCall(**{**parts, "name": str(parts["name"]), "real": bool(parts["real"])})


def write_answer(answer: ToolAnswer) -> dict[str, Any]:
    """What a tool gave back."""
    return {"result": plain_value(answer.result), "error": answer.error}


def read_answer(written: Mapping[str, Any]) -> ToolAnswer:
    """The answer; raises the TrialError that came in its place."""
    if written.get("trial_error") is not None:
        raise read_error(written["trial_error"])
    return ToolAnswer(result=written.get("result"), error=written.get("error"))


def write_error(error: TrialError) -> dict[str, Any]:
    info = error.info
    return {
        "type": "error",
        "kind": info.kind.value,
        "message": info.message,
        "hint": info.hint,
        "traceback": info.traceback,
        "final": isinstance(error, AgentFailure) and error.final,
        "counts_as_failed": info.counts_as_failed,
    }


def read_error(written: Mapping[str, Any]) -> TrialError:
    kind, message = ErrorKind(written["kind"]), str(written["message"])
    hint, traceback = written.get("hint"), written.get("traceback")
    if kind is ErrorKind.AGENT:
        return AgentFailure(message, hint=hint, traceback=traceback, final=bool(written.get("final")))
    counts = bool(written.get("counts_as_failed"))
    return TrialError(kind, message, hint=hint, traceback=traceback, counts_as_failed=counts)


def write_reply(reply: AgentReply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "type": "reply",
        "content": reply.reply,
        "tool_calls": None if reply.tool_calls is None else [write_call(call) for call in reply.tool_calls],
        "hides_calls": reply.hides_calls,
        "requested": [write_call(call) for call in reply.requested],
        "messages": list(reply.messages),
        "usage": None if usage is None else [usage.input_tokens, usage.output_tokens],
        "cost_usd": reply.cost_usd,
    }


def read_reply(written: Mapping[str, Any]) -> AgentReply:
    calls, usage = written["tool_calls"], written["usage"]
    return AgentReply(
        reply=written["content"],
        tool_calls=None if calls is None else tuple(map(read_call, calls)),
        hides_calls=written["hides_calls"],
        requested=tuple(map(read_call, written["requested"])),
        messages=tuple(written["messages"]),
        usage=None if usage is None else Usage(input_tokens=usage[0], output_tokens=usage[1]),
        cost_usd=written["cost_usd"],
    )

"""Agents of type `command`: a program in any language, one process per trial, one JSON object per line.

The protocol, with its schema, is in docs/command-protocol.md.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.errors import UsageError
from seatrial.foreign.jsonl_process import JsonLinesProcess
from seatrial.model.conversation import Message, ToolCall, Usage
from seatrial.model.protocols import AgentReply, AgentSession, TrialStart
from seatrial.model.results import AgentFailure, agent_timed_out

from .chat_messages import latest_user_text, parse_json, read_amount, read_reported, read_requested, read_usage
from .placeholders import fill_address

_CLOSE_SECONDS = 2.0
MCP_VARIABLE = "SEATRIAL_MCP_URL"
"""The variable with the address of the tools, for a program with `mcp: true`."""


@dataclass(kw_only=True, eq=False)
class CommandAgent:
    """A program. The fields are the keys of the settings."""

    answers_own_tools: bool = field(default=False, init=False)
    keeps_conversation: bool = field(default=True, init=False)
    takes_attachments: bool = field(default=True, init=False)

    argv: Sequence[str]
    env: Mapping[str, str] | None = field(default=None, repr=False)
    """Added to Seatrial's own environment."""
    cwd: str | None = None
    close_seconds: float = _CLOSE_SECONDS
    """How long the program may run after its stdin was closed, before it is killed."""
    name: str = "command"

    def __post_init__(self) -> None:
        where = f"agent {self.name!r}"
        if not _is_list_of_texts(self.argv) or not self.argv or not self.argv[0].strip():
            meant = (
                f". Write [{', '.join(self.argv.split())}]" if isinstance(self.argv, str) and self.argv.strip() else ""
            )
            raise UsageError(f"{where}.argv: expected a program and its arguments as a list, got {self.argv!r}{meant}")
        if self.env is not None and not _is_map_of_texts(self.env):
            raise UsageError(f"{where}.env: expected a mapping of names to texts")
        if self.cwd is not None and not isinstance(self.cwd, str):
            raise UsageError(f"{where}.cwd: expected a folder, got {self.cwd!r}")

    def open(self, start: TrialStart) -> AgentSession:
        return _CommandSession(self, start)

    async def close(self) -> None:
        """Every process belongs to a trial."""


class _CommandSession:
    """The process of one trial. It starts with the first turn, and again after a failure."""

    reachable_tools = None

    def __init__(self, agent: CommandAgent, start: TrialStart) -> None:
        self._agent = agent
        self._start = start
        self._process: JsonLinesProcess | None = None
        self._requested: tuple[ToolCall, ...] = ()
        """Calls whose results the process waits for."""

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        try:
            async with asyncio.timeout(timeout):
                return await self._exchange(messages)
        except TimeoutError:
            await self._stop(grace_seconds=0)
            raise agent_timed_out(timeout) from None
        except BaseException:
            # After a failure it is not known what the process waits for, so it cannot be used again.
            await self._stop(grace_seconds=0)
            raise

    async def close(self) -> None:
        _require_no_more_answers(await self._stop(grace_seconds=self._agent.close_seconds))

    async def _exchange(self, messages: Sequence[Message]) -> AgentReply:
        if self._process is None:
            agent, url = self._agent, self._start.mcp_url
            argv = agent.argv if url is None else [fill_address(part, url) for part in agent.argv]
            env = agent.env if url is None else _with_address(agent.env or {}, url)
            self._process = await JsonLinesProcess.start(argv, cwd=agent.cwd, env=env)
        asked, self._requested = self._requested, ()
        await self._process.send(_tool_results(asked, messages) if asked else self._turn(messages))
        reply = _read_answer(await self._process.receive(), position=len(messages))
        self._requested = reply.requested
        return reply

    def _turn(self, messages: Sequence[Message]) -> dict[str, Any]:
        return {
            "type": "turn",
            "trial_id": self._start.trial_id,
            "input": latest_user_text(messages),
            "messages": list(messages),
            "tools": list(self._start.tool_schemas),
        }

    async def _stop(self, *, grace_seconds: float) -> bytes:
        """End the process. Returns what it wrote and was not read."""
        process, self._process, self._requested = self._process, None, ()
        return b"" if process is None else await process.stop(grace_seconds=grace_seconds)


def _require_no_more_answers(unread: bytes) -> None:
    """Refuse an answer without a question: the answers that were read may then belong to other turns."""
    for line in unread.splitlines():
        answer = parse_json(line.decode("utf-8", "replace"))
        if isinstance(answer, Mapping) and answer.get("type") in ("reply", "tool_calls", "error"):
            raise AgentFailure(
                "the process wrote more answers than it was asked for, so they cannot be assigned to turns; "
                f"not read: {line.decode('utf-8', 'replace'):.500}",
                hint="answer each turn, and each tool_results, with one line",
                final=True,
            )


def _with_address(env: Mapping[str, str], url: str) -> dict[str, str]:
    return {MCP_VARIABLE: url, **{name: fill_address(value, url) for name, value in env.items()}}


def _tool_results(asked: Sequence[ToolCall], messages: Sequence[Message]) -> dict[str, Any]:
    """The results of the requested calls, in their order."""
    contents = {message.get("tool_call_id"): message.get("content") for message in messages[-len(asked) :]}
    return {
        "type": "tool_results",
        "results": [{"id": call.id, "name": call.name, "content": contents.get(call.id)} for call in asked],
    }


_KEYS = {
    "reply": ("type", "content", "tool_calls", "usage", "cost_usd"),
    "tool_calls": ("type", "tool_calls", "content", "usage"),
}
"""Keys of an answer, by its type."""


def _read_answer(answer: Mapping[str, Any], *, position: int) -> AgentReply:
    _refuse_unknown_keys(answer)
    match answer.get("type"):
        case "reply":
            return _read_reply(answer)
        case "tool_calls":
            return _read_tool_calls(answer, position)
        case "error":
            raise AgentFailure(f"the process reported an error: {str(answer.get('message'))[:500]}")
    known = "'reply', 'tool_calls' or 'error'"
    raise AgentFailure(f"the process wrote a message of type {answer.get('type')!r}; expected {known}", final=True)


def _refuse_unknown_keys(answer: Mapping[str, Any]) -> None:
    """Refuse unknown keys: a misspelt `tool_calls` would say that there were none."""
    kind = answer.get("type")
    known = _KEYS.get(kind, ()) if isinstance(kind, str) else ()
    unknown = [key for key in answer if known and key not in known]
    if unknown:
        from difflib import get_close_matches

        close = get_close_matches(unknown[0], known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        message = f"the process wrote {kind!r} with the unknown key {unknown[0]!r}.{hint} Known: {', '.join(known)}."
        raise AgentFailure(message, final=True)


def _read_reply(answer: Mapping[str, Any]) -> AgentReply:
    content = answer.get("content")
    if not isinstance(content, str):
        raise AgentFailure(f"the process replied with content that is no text: {content!r:.500}", final=True)
    # Absent: Seatrial answered every call, so there are no others. Null: not known.
    own = answer.get("tool_calls", ())
    return AgentReply(
        reply=content,
        tool_calls=None if own is None else read_reported(own),
        hides_calls=own is None,
        usage=read_usage(answer.get("usage")),
        cost_usd=read_amount(answer.get("cost_usd")),
    )


def _read_tool_calls(answer: Mapping[str, Any], position: int) -> AgentReply:
    calls = read_requested(answer.get("tool_calls"), position=position)
    if not calls:
        raise AgentFailure("the process asked for tool calls but named none", final=True)
    return AgentReply(
        tool_calls=(),
        requested=calls,
        messages=(_to_append(calls, answer),),
        # The reply has the usage of the turn. Usage that is reported here is added to it.
        usage=read_usage(answer.get("usage")) or Usage(input_tokens=0, output_tokens=0),
        cost_usd=0.0,
    )


def _to_append(calls: Sequence[ToolCall], answer: Mapping[str, Any]) -> Message:
    content = answer.get("content")
    return {
        "role": "assistant",
        "content": content if isinstance(content, str) else None,
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _as_json(call.arguments)}}
            for call in calls
        ],
    }


def _as_json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(part, str) and "\0" not in part for part in value)


def _is_map_of_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair)

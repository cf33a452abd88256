"""Agents of Microsoft's Agent Framework.

An agent keeps its conversation in a session; each trial has its own. Every call of a function tool goes through
`FunctionTool.invoke`, also in nested agents. We replace it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from agent_framework import AgentSession, BaseAgent, Content, FunctionTool, MiddlewareFailure
from agent_framework import Message as FrameworkMessage

from seatrial.agents.chat_messages import parse_arguments, read_calls, text_of
from seatrial.agents.context import AgentContext, current_trial
from seatrial.agents.message_parts import attachments_in
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, Message, Usage, total_usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentReply, ToolAnswer
from seatrial.model.results import TrialError
from seatrial.model.scenario import Decision

from .tool_recorder import (
    MISSING,
    as_text,
    decide,
    decision_in,
    missing_input,
    record_call,
    replace_method,
    seatrial_answers,
    waiting_reply,
)


class Adapter:
    """One trial with an agent of the framework."""

    def __init__(self, target: Any, *, function_invocation_kwargs: Any = MISSING) -> None:
        if not isinstance(target, BaseAgent):
            raise UsageError(f"type 'agent_framework' needs an Agent, got {type(target).__name__}")
        replace_method(FunctionTool, "invoke", _watched)
        self.tool_names = _names_of(target)
        given = function_invocation_kwargs
        if given is not MISSING and not isinstance(given, Mapping):
            raise UsageError(f"function_invocation_kwargs must be a mapping, got {type(given).__name__}")
        self._given = {} if given is MISSING else {"function_invocation_kwargs": dict(given)}
        self._agent: Any = target
        self._session: AgentSession | None = None
        self._waiting: Sequence[Content] = ()
        """What a person must decide before the agent goes on."""

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentReply:
        decision = decision_in(messages)
        said = None if decision is None else self._answer(decision, ctx)
        session, self._session = self._session, None
        # After an error the session ends in the middle of a turn: a repeated turn starts with a new one.
        said = said or list(_write(messages[-1:] if session is not None else messages))
        session = session or self._agent.create_session()
        usages: list[Usage | None] = []
        response = await self._ask(said, session, ctx, usages)
        while self._waiting and not ctx.decides and all(map(partial(_is_mocked, ctx), self._waiting)):
            # Mocked tools need no approval in a scenario without decisions.
            said = self._answer(Decision(approve=tuple(map(_name_of, self._waiting))), ctx)
            response = await self._ask(said, session, ctx, usages)
        self._session = session
        names = tuple(map(_name_of, self._waiting))
        reply = waiting_reply(names) if names else str(response.text)
        return AgentReply(reply=reply, tool_calls=(), usage=total_usage(usages), awaits=names)

    async def _ask(
        self, said: list[FrameworkMessage], session: AgentSession, ctx: AgentContext, usages: list[Usage | None]
    ) -> Any:
        """The response of one run, whose calls and tokens are recorded."""
        seen: dict[str, Any] = {"calls": set(), "nested": False, "given": bool(self._given)}
        _seen_by_trial[id(ctx)] = seen
        try:
            response = await self._agent.run(said, session=session, **self._given)
        finally:
            del _seen_by_trial[id(ctx)]
        self._waiting = tuple(response.user_input_requests)
        _record_others(response, ctx, seen["calls"])
        usages.append(None if seen["nested"] else _read_usage(response.usage_details))
        return response

    def _answer(self, decision: Decision, ctx: AgentContext) -> list[FrameworkMessage]:
        """A person's answers: approvals, and with `resume: {tool: result}` the results of calls of other programs."""
        given = decision.resume if isinstance(decision.resume, Mapping) else {}
        external = [each for each in self._waiting if each.type != _APPROVAL]
        missing = next((each for each in external if _name_of(each) not in given), None)
        if missing is not None:
            raise TrialError(
                ErrorKind.CONFIG,
                f"the agent waits for the result of {_name_of(missing)!r} from another program",
                hint=f"write the turn as {{resume: {{{_name_of(missing)}: ...}}}}",
            )
        asked = [each for each in self._waiting if each.type == _APPROVAL]
        verdicts = decide(list(map(_name_of, asked)), decision)
        answers = [each.to_function_approval_response(approved) for each, approved in zip(asked, verdicts, strict=True)]
        for each, approved in zip(asked, verdicts, strict=True):
            if not approved:
                call = each.function_call
                rejected = ToolAnswer(error="rejected by the user")
                ctx.record(call.name, parse_arguments(call.arguments), rejected, ctx.elapsed_ms())
        results = [Content.from_function_result(each.call_id, result=given[each.name]) for each in external]
        for each in external:
            answer = ToolAnswer(result=plain_value(given[each.name]))
            ctx.record(each.name, parse_arguments(each.arguments), answer, ctx.elapsed_ms())
        messages = [FrameworkMessage(role="user", contents=answers)] if answers else []
        return [*messages, *([FrameworkMessage(role="tool", contents=results)] if results else [])]


_APPROVAL = "function_approval_request"


def _name_of(waiting: Content) -> str:
    """The tool that waits: for an approval, or for a result from another program."""
    return str((waiting.function_call or waiting).name)


def _is_mocked(ctx: AgentContext, waiting: Content) -> bool:
    return waiting.type == _APPROVAL and seatrial_answers(ctx, _name_of(waiting))


_seen_by_trial: dict[int, dict[str, Any]] = {}
"""By the id of a trial's context: the ids of recorded calls, whether an agent ran behind a tool, and whether the
settings have values for tools."""


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    async def invoke(self: Any, *, arguments: Any = None, tool_call_id: str | None = None, **more: Any) -> Any:
        ctx = current_trial.get()
        if ctx is None:
            return await original(self, arguments=arguments, tool_call_id=tool_call_id, **more)
        seen = _seen_by_trial.get(id(ctx), {"calls": set()})
        seen["calls"].add(tool_call_id)
        nested = _is_agent(self)
        seen["nested"] = seen.get("nested", False) or nested
        given = arguments.model_dump() if hasattr(arguments, "model_dump") else arguments
        try:
            answer = await record_call(
                ctx,
                self.name,
                given,
                lambda: original(self, arguments=arguments, tool_call_id=tool_call_id, **more),
                read=_read_answer,
                control=nested,
            )
        except KeyError as error:
            if self._context_parameter_name is not None and not seen.get("given"):
                what = "the agent's tools get function_invocation_kwargs"
                ctx.note_failure(error, missing=missing_input("function_invocation_kwargs", what, "agent_framework"))
            raise
        except TrialError as error:
            # The framework would report any other exception to the model, and go on.
            raise MiddlewareFailure(str(error)) from error
        return answer if _is_contents(answer) else [Content.from_text(as_text(answer) or "")]

    return invoke


def _is_agent(tool: FunctionTool) -> bool:
    """Whether it is an agent as a tool: it needs no mock, since its own tools are recorded."""
    return getattr(tool.func, "__qualname__", "").endswith("as_tool.<locals>._agent_wrapper")


def _is_contents(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Content) for each in value)


def _read_answer(value: Any) -> ToolAnswer:
    if not _is_contents(value):
        return ToolAnswer(result=plain_value(value))
    return ToolAnswer(result="".join(each.text or "" for each in value))


def _record_others(response: Any, ctx: AgentContext, recorded: set[str]) -> None:
    """Record calls that no function tool of ours answered: of unknown tools, and of tools that the provider runs."""
    contents = [content for message in response.messages for content in message.contents]
    results = {each.call_id: each for each in contents if each.type == "function_result"}
    for each in contents:
        found = results.get(each.call_id)
        if found is None and response.user_input_requests:
            continue  # it waits for a person, or runs beside a call that does
        if each.type == "function_call" and each.call_id not in recorded:
            failed = getattr(found, "exception", None)
            result = None if found is None or failed else plain_value(found.result)
            answer = ToolAnswer(result=result, error=None if failed is None else str(failed))
            ctx.record(each.name, parse_arguments(each.arguments), answer, ctx.elapsed_ms())


def _names_of(agent: Any) -> frozenset[str] | None:
    """The names of all tools of the agent; None if servers or context providers add tools at run time."""
    tools = (getattr(agent, "default_options", None) or {}).get("tools") or []
    if getattr(agent, "mcp_tools", None) or getattr(agent, "context_providers", None):
        return None
    if not all(isinstance(tool, FunctionTool) and not _is_agent(tool) for tool in tools):
        return None
    return frozenset(tool.name for tool in tools)


def _read_usage(details: Any) -> Usage | None:
    counts = details or {}
    taken, given = counts.get("input_token_count"), counts.get("output_token_count")
    return None if taken is None or given is None else Usage(input_tokens=taken, output_tokens=given)


def _write(messages: Sequence[Message]) -> Iterator[FrameworkMessage]:
    """The scenario's messages in the framework's form."""
    for message in messages:
        if message["role"] == "tool":
            result = Content.from_function_result(str(message.get("tool_call_id")), result=text_of(message))
            yield FrameworkMessage(role="tool", contents=[result])
            continue
        calls = [
            Content.from_function_call(str(call.id), call.name, arguments=dict(call.arguments or {}))
            for call in read_calls(message.get("tool_calls") or ())
        ]
        text = text_of(message)
        texts = [Content.from_text(text)] if text else []
        files = [
            Content.from_data(each.content, each.media_type, name=each.name)
            for each in attachments_in(message.get("content"))
        ]
        yield FrameworkMessage(role=message["role"], contents=[*texts, *files, *calls])

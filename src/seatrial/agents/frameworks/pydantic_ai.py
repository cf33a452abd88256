"""Agents of pydantic-ai.

Every run of an agent, also of a nested one, starts in `Agent.iter`. In a trial we add a capability there. Its hooks see
each tool call and may answer it.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability, ReinjectSystemPrompt
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.toolsets import CombinedToolset, FunctionToolset

from seatrial.agents.chat_messages import read_calls, text_of
from seatrial.agents.context import AgentContext, current_trial
from seatrial.agents.message_parts import attachments_in
from seatrial.errors import ToolError, UsageError
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
    noting_failures,
    record_call,
    replace_method,
    seatrial_answers,
    split_messages,
    waiting_reply,
)

_spent: ContextVar[list[Usage | None] | None] = ContextVar("spent", default=None)
"""The usage of all models in this turn, including those of nested agents."""


_decided: ContextVar[frozenset[str]] = ContextVar("decided", default=frozenset())
"""The ids of the calls that waited for a person until this turn."""


class Adapter:
    """One trial with a pydantic-ai agent."""

    def __init__(self, target: Any, *, deps: Any = MISSING) -> None:
        if not isinstance(target, AbstractAgent):
            raise UsageError(f"type 'pydantic_ai' needs a pydantic_ai.Agent, got {type(target).__name__}")
        replace_method(Agent, "iter", _with_recorder)
        self.tool_names = _names_of(target)
        self._agent: AbstractAgent[Any, Any] = target
        self._deps = deps
        self._history: list[ModelMessage] | None = None
        self._waiting: DeferredToolRequests | None = None

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentReply:
        earlier, latest = split_messages(messages)
        restored = self._history is None and any(message.get("role") == "user" for message in earlier)
        if self._history is None:
            self._history = list(_read_history(earlier))
        spent: list[Usage | None] = []
        _spent.set(spent)
        deps = self._find_deps(ctx)
        decision = decision_in(messages)
        with noting_failures(ctx):
            if decision is None:
                # With earlier messages, pydantic-ai adds the agent's own system prompt only if asked.
                prompt = [ReinjectSystemPrompt()] if restored else None
                said = None if latest is None else _write_prompt(latest)
                result = await self._agent.run(said, message_history=self._history, deps=deps, capabilities=prompt)
            else:
                waiting = self._waiting or DeferredToolRequests()
                results = _answer_requests(waiting, decision)
                _decided.set(frozenset(call.tool_call_id for call in (*waiting.calls, *waiting.approvals)))
                result = await self._agent.run(message_history=self._history, deferred_tool_results=results, deps=deps)
        self._history = result.all_messages()
        self._waiting = result.output if isinstance(result.output, DeferredToolRequests) else None
        if self._waiting is not None:
            names = tuple(call.tool_name for call in (*self._waiting.calls, *self._waiting.approvals))
            reply = waiting_reply(names)
            return AgentReply(reply=reply, tool_calls=(), usage=total_usage(spent), awaits=names)
        return AgentReply(reply=as_text(result.output), tool_calls=(), usage=total_usage(spent))

    def _find_deps(self, ctx: AgentContext) -> Any:
        """The dependencies. A mapping from a file becomes an object of the agent's `deps_type`."""
        kind = getattr(self._agent, "deps_type", type(None))
        if self._deps is MISSING:
            needed = missing_input("deps", f"the agent needs deps of type {_name_of(kind)}", "pydantic_ai")
            if inspect.isclass(kind) and kind not in (type(None), object):
                raise needed
            ctx.missing_input = needed
            return None
        if isinstance(self._deps, Mapping) and inspect.isclass(kind) and not issubclass(kind, Mapping | type(None)):
            try:
                return kind(**self._deps)
            except (TypeError, ValueError) as problem:
                raise TrialError(ErrorKind.CONFIG, f"deps are no {_name_of(kind)}: {problem}") from None
        return self._deps


def _name_of(kind: Any) -> str:
    return getattr(kind, "__qualname__", None) or str(kind)


def _answer_requests(waiting: DeferredToolRequests, decision: Decision) -> DeferredToolResults:
    """The results of waiting calls: a person's approvals, and values for calls that another program runs."""
    given = decision.resume if isinstance(decision.resume, Mapping) else {}
    external = [call for call in waiting.calls if call.tool_name not in given]
    verdicts = decide([call.tool_name for call in (*waiting.approvals, *external)], decision)
    if external:
        raise TrialError(
            ErrorKind.CONFIG,
            f"the agent waits for the result of {external[0].tool_name!r} from another program",
            hint=f"write the turn as {{resume: {{{external[0].tool_name}: ...}}}}, or mock the tool",
        )
    approvals: dict[str, Any] = {
        call.tool_call_id: True if approved else ToolDenied("rejected by the user")
        for call, approved in zip(waiting.approvals, verdicts, strict=True)
    }
    return DeferredToolResults(
        approvals=approvals, calls={call.tool_call_id: given[call.tool_name] for call in waiting.calls}
    )


def _with_recorder(original: Callable[..., Any]) -> Callable[..., Any]:
    def iter_recorded(self: Any, *args: Any, capabilities: Sequence[Any] | None = None, **options: Any) -> Any:
        ctx = current_trial.get()
        if ctx is not None:
            capabilities = [*(capabilities or ()), _Watcher(ctx)]
        return original(self, *args, capabilities=capabilities, **options)

    return iter_recorded


class _Watcher(AbstractCapability[Any]):
    """Sees the tool calls of one run of an agent."""

    def __init__(self, ctx: AgentContext) -> None:
        self._ctx = ctx
        self._recorded: set[str] = set()
        self._outputs: set[str] = set()
        """Tools that are only the form of the agent's answer."""

    async def prepare_tools(self, ctx: Any, tool_defs: list[Any]) -> list[Any]:
        """Tools that Seatrial answers need no approval and no other program, unless the scenario has decisions."""
        if self._ctx.decides:
            return tool_defs
        return [
            replace(tool, kind="function")
            if seatrial_answers(self._ctx, tool.name, control=_is_control(tool))
            else tool
            for tool in tool_defs
        ]

    async def prepare_output_tools(self, ctx: Any, tool_defs: list[Any]) -> list[Any]:
        self._outputs.update(tool.name for tool in tool_defs)
        return tool_defs

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        spent = _spent.get()
        if spent is not None:
            spent.append(_read_usage(response.usage))
        self._record_native(response.parts)
        return response

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        if tool_def.kind == "output":
            return await handler(args)
        self._recorded.add(call.tool_call_id)
        try:
            return await record_call(
                self._ctx,
                call.tool_name,
                _arguments(call),
                lambda: handler(args),
                unless=(ApprovalRequired, CallDeferred),
                control=_is_control(tool_def),
            )
        except ToolError as error:
            raise ToolFailed(str(error)) from None

    async def after_node_run(self, ctx: Any, *, node: Any, result: Any) -> Any:
        """Record the calls that reached no tool: an unknown tool, or wrong arguments."""
        response, request = getattr(node, "model_response", None), getattr(result, "request", None)
        if response is not None and request is not None:
            answers = {getattr(part, "tool_call_id", None): part for part in request.parts}
            asked = [part for part in response.parts if isinstance(part, ToolCallPart)]
            # Of a response whose calls waited, the other calls were recorded in the turn before.
            waited = [call for call in asked if call.tool_call_id in _decided.get()]
            for call in waited or asked:
                if self._reached_no_tool(call):
                    self._record(call, ToolAnswer(error=_error_text(answers.get(call.tool_call_id))))
            # Some models use the same ids again in each response.
            self._recorded.clear()
        return result

    def _reached_no_tool(self, call: ToolCallPart) -> bool:
        return call.tool_call_id not in self._recorded and call.tool_name not in self._outputs

    def _record_native(self, parts: Sequence[Any]) -> None:
        """Record the calls that the model's provider made and answered itself."""
        results = {part.tool_call_id: part.content for part in parts if isinstance(part, NativeToolReturnPart)}
        for call in parts:
            if isinstance(call, NativeToolCallPart):
                self._record(call, ToolAnswer(result=plain_value(results.get(call.tool_call_id))))

    def _record(self, call: Any, answer: ToolAnswer) -> None:
        self._ctx.record(call.tool_name, _arguments(call), answer, self._ctx.elapsed_ms())


def _is_control(tool_def: Any) -> bool:
    """Whether it is a tool of pydantic-ai that loads other tools."""
    return getattr(tool_def, "tool_kind", None) in ("tool-search", "capability-load")


def _names_of(agent: AbstractAgent[Any, Any]) -> frozenset[str] | None:
    """The names of the agent's functions; None if it has tools that are known only at run time."""
    names: set[str] = set()
    for toolset in agent.toolsets:
        if isinstance(toolset, CombinedToolset) and not toolset.toolsets:
            continue
        if not isinstance(toolset, FunctionToolset):
            return None
        names.update(toolset.tools)
    native = getattr(agent, "_cap_native_tools", ())
    known = all(getattr(tool, "kind", None) == "tool_search" for tool in native)
    return frozenset(names) if known else None


def _read_usage(taken: Any) -> Usage | None:
    """The tokens of a request; None if the provider does not report them, which older versions show as zeros."""
    if getattr(taken, "unmeasured_requests", 0) or not (taken.input_tokens or taken.output_tokens):
        return None
    return Usage(input_tokens=taken.input_tokens, output_tokens=taken.output_tokens)


def _arguments(call: Any) -> Any:
    """The arguments as the model gave them; a text that is no JSON object stays a text."""
    return read_calls([{"function": {"name": call.tool_name, "arguments": call.args}}])[0].arguments


def _error_text(answer: Any) -> str:
    """What the model gets instead of a result: a text, or pydantic's list of errors."""
    return "not answered" if answer is None else as_text(answer.content) or ""


def _write_prompt(message: Message) -> str | list[UserContent]:
    """The user's message: a text, or its parts if something is attached."""
    files = [BinaryContent(each.content, media_type=each.media_type) for each in attachments_in(message.get("content"))]
    return [text_of(message), *files] if files else text_of(message)


def _read_history(messages: Sequence[Message]) -> Iterator[ModelMessage]:
    """The scenario's `system` and `history` as messages of pydantic-ai."""
    names: dict[Any, str] = {}
    for message in messages:
        text = text_of(message)
        match message.get("role"):
            case "system" | "developer":
                yield ModelRequest(parts=[SystemPromptPart(text)])
            case "assistant":
                calls = read_calls(message.get("tool_calls") or ())
                names.update({call.id: call.name for call in calls})
                parts = [ToolCallPart(call.name, call.arguments, tool_call_id=str(call.id)) for call in calls]
                yield ModelResponse(parts=[*([TextPart(text)] if text else []), *parts])
            case "tool":
                call_id = message.get("tool_call_id")
                yield ModelRequest(parts=[ToolReturnPart(names.get(call_id, ""), text, tool_call_id=str(call_id))])
            case _:
                yield ModelRequest(parts=[UserPromptPart(_write_prompt(message))])

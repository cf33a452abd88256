"""Agents of pydantic-ai.

Every run of an agent, also of a nested one, starts in `Agent.iter`. In a trial we add a capability there. Its hooks see
each tool call and may answer it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.toolsets import CombinedToolset, FunctionToolset

from seatrial.agents.chat_messages import read_calls, text_of
from seatrial.agents.context import AgentContext, current_trial
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import AgentResult, ErrorKind, Message, Usage, total_usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError

from .tool_recorder import as_text, record_call, replace_method, seatrial_answers

_spent: ContextVar[list[Usage | None] | None] = ContextVar("spent", default=None)
"""The usage of all models in this turn, including those of nested agents."""


class Adapter:
    """One trial with a pydantic-ai agent."""

    def __init__(self, target: Any) -> None:
        if not isinstance(target, AbstractAgent):
            raise UsageError(f"type 'pydantic_ai' needs a pydantic_ai.Agent, got {type(target).__name__}")
        replace_method(Agent, "iter", _with_recorder)
        self.tool_names = _names_of(target)
        self._agent: AbstractAgent[Any, Any] = target
        self._history: list[ModelMessage] | None = None

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentResult:
        if self._history is None:
            self._history = list(_read_history(messages[:-1]))
        spent: list[Usage | None] = []
        _spent.set(spent)
        result = await self._agent.run(ctx.input, message_history=self._history)
        if isinstance(result.output, DeferredToolRequests):
            raise _unanswered_requests(result.output)
        self._history = result.all_messages()
        return AgentResult(as_text(result.output), [], total_usage(spent))


def _unanswered_requests(waiting: DeferredToolRequests) -> TrialError:
    names = sorted({call.tool_name for call in (*waiting.calls, *waiting.approvals)})
    return TrialError(
        ErrorKind.CONFIG,
        f"the agent waits for a person to approve, or for another program to run, {', '.join(names)}, "
        "which Seatrial cannot do",
        hint="mock the tool, or make it without requires_approval for the trial",
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
        """Tools that Seatrial answers need no approval and no other program."""
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
                self._ctx, call.tool_name, _arguments(call), lambda: handler(args), control=_is_control(tool_def)
            )
        except ToolError as error:
            raise ToolFailed(str(error)) from None

    async def after_node_run(self, ctx: Any, *, node: Any, result: Any) -> Any:
        """Record the calls that reached no tool: an unknown tool, or wrong arguments."""
        response, request = getattr(node, "model_response", None), getattr(result, "request", None)
        if response is not None and request is not None:
            answers = {getattr(part, "tool_call_id", None): part for part in request.parts}
            for call in response.parts:
                if isinstance(call, ToolCallPart) and self._reached_no_tool(call):
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
                yield ModelRequest(parts=[UserPromptPart(text)])

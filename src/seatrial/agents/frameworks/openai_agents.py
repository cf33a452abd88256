"""Agents of the OpenAI Agents SDK.

Before each request the SDK asks an agent for its tools with `get_all_tools`, also nested agents and those after a
handoff. In a trial it returns copies that record their calls. The user's tools do not change.
"""

import copy
import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from agents import Agent, FunctionTool, Handoff, Runner
from agents import tool as agents_tool
from agents.agent import AgentBase
from agents.items import HandoffCallItem, ToolCallItem, ToolCallOutputItem

from seatrial.agents.chat_messages import parse_arguments
from seatrial.agents.context import AgentContext, current_trial
from seatrial.agents.openai_responses import write_items
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import AgentResult, ErrorKind, Message, ToolCall, Usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError

from .tool_recorder import as_text, record_call, replace_method, seatrial_answers

_failures: ContextVar[list[BaseException] | None] = ContextVar("failures", default=None)
"""What the running tool raised: the SDK only returns a text for it."""


class Adapter:
    """One trial. It continues with the agent that answered last, as after a handoff."""

    def __init__(self, target: Any) -> None:
        if not isinstance(target, Agent):
            raise UsageError(f"type 'openai_agents' needs an agents.Agent, got {type(target).__name__}")
        replace_method(AgentBase, "get_all_tools", _with_recording_tools)
        replace_method(agents_tool, "maybe_invoke_function_tool_failure_error_function", _noting_failure)
        self.tool_names = _names_of(target, set())
        self._agent: Agent[Any] = target
        self._said: list[Any] | None = None

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentResult:
        said = list(write_items(messages[:-1])) if self._said is None else self._said
        result = await Runner.run(self._agent, [*said, {"role": "user", "content": ctx.input}])
        if result.interruptions:
            names = sorted({str(item.name) for item in result.interruptions})
            raise TrialError(
                ErrorKind.CONFIG,
                f"the agent waits for a person to approve {', '.join(names)}, which Seatrial cannot do",
                hint="mock the tool, or make it without needs_approval for the trial",
            )
        self._said = result.to_input_list()
        self._agent = result.last_agent
        return AgentResult(as_text(result.final_output), _read_calls(result.new_items), _read_usage(result))


def _read_usage(result: Any) -> Usage | None:
    """The tokens of the models; None if one of them does not report them, which the SDK shows as zeros."""
    if any(not (each.usage.input_tokens or each.usage.output_tokens) for each in result.raw_responses):
        return None
    taken = result.context_wrapper.usage
    return Usage(input_tokens=taken.input_tokens, output_tokens=taken.output_tokens)


def _with_recording_tools(original: Callable[..., Any]) -> Callable[..., Any]:
    async def get_all_tools(self: Any, *args: Any, **options: Any) -> list[Any]:
        tools: list[Any] = await original(self, *args, **options)
        ctx = current_trial.get()
        return tools if ctx is None else [_recording(tool, ctx) for tool in tools]

    return get_all_tools


def _recording(tool: Any, ctx: AgentContext) -> Any:
    if not isinstance(tool, FunctionTool):
        if ctx.knows_tool(tool.name):
            ctx.fatal = TrialError(
                ErrorKind.CONFIG,
                f"the tool {tool.name!r} is mocked, but it is a {type(tool).__name__}: only function tools can be",
                hint="take the mock out, or give the agent a function tool of that name for the trial",
            )
            raise ctx.fatal
        if type(tool).__name__ not in _RUN_BY_OPENAI and not ctx.lets_tool_run(tool.name):
            ctx.fatal = TrialError(
                ErrorKind.CONFIG,
                f"the tool {tool.name!r} is a {type(tool).__name__}, which Seatrial can neither mock nor "
                "stop, and unmocked_tools is 'error'",
                hint="take the tool out for the trial, or set unmocked_tools: passthrough to let real tools run",
            )
            raise ctx.fatal
        return tool
    real, copied = tool.on_invoke_tool, copy.copy(tool)

    @functools.wraps(real)
    async def invoke(context: Any, arguments: str) -> Any:
        failures: list[BaseException] = []
        _failures.set(failures)

        def read(value: Any) -> ToolAnswer:
            failed = "; ".join(f"{type(failure).__name__}: {failure}" for failure in failures)
            return ToolAnswer(error=failed) if failed else ToolAnswer(result=plain_value(value))

        try:
            return await record_call(
                ctx,
                tool.name,
                parse_arguments(arguments),
                lambda: real(context, arguments),
                read=read,
                control=_is_agent(tool),
            )
        except ToolError as error:
            return str(error)

    copied.on_invoke_tool = invoke
    if seatrial_answers(ctx, tool.name, control=_is_agent(tool)):
        copied.needs_approval = False
    return copied


_NAMED_AS_CALLED = frozenset(("WebSearchTool", "FileSearchTool", "CodeInterpreterTool", "ImageGenerationTool"))
_RUN_BY_OPENAI = _NAMED_AS_CALLED | {"HostedMCPTool", "ToolSearchTool", "ProgrammaticToolCallingTool"}


def _is_agent(tool: Any) -> bool:
    """Whether the tool calls another agent. It needs no mock: that agent's tools are recorded."""
    return bool(getattr(tool, "_is_agent_tool", False))


def _names_of(agent: Any, seen: set[int]) -> frozenset[str] | None:
    """The names of all tools of the agent and of its other agents; None if they are not known."""
    if id(agent) in seen:
        return frozenset()
    seen.add(id(agent))
    if not isinstance(agent, Agent) or agent.mcp_servers:
        return None
    names: set[str] = set()
    for tool in agent.tools:
        if not isinstance(tool, FunctionTool) and type(tool).__name__ not in _NAMED_AS_CALLED:
            return None
        names.add(tool.name)
        if _is_agent(tool):
            below = _names_of(getattr(tool, "_agent_instance", None), seen)
            if below is None:
                return None
            names |= below
    for other in agent.handoffs:
        if not isinstance(other, Agent):
            return None  # a Handoff may choose its agent at run time
        below = _names_of(other, seen)
        if below is None:
            return None
        names |= {Handoff.default_tool_name(other), *below}
    return frozenset(names)


def _noting_failure(original: Callable[..., Any]) -> Callable[..., Any]:
    async def maybe_invoke(*, error: BaseException, **options: Any) -> Any:
        failures = _failures.get()
        if failures is not None:
            failures.append(error)
        return await original(error=error, **options)

    return maybe_invoke


def _read_calls(items: Sequence[Any]) -> list[ToolCall]:
    """The calls that the SDK reports: the recorded ones, handoffs, and tools that OpenAI runs."""
    outputs = {_field(item.raw_item, "call_id"): item.output for item in items if isinstance(item, ToolCallOutputItem)}
    return [_read_call(item.raw_item, outputs) for item in items if isinstance(item, ToolCallItem | HandoffCallItem)]


def _read_call(raw: Any, outputs: dict[Any, Any]) -> ToolCall:
    name, call_id = _field(raw, "name") or str(_field(raw, "type")).removesuffix("_call"), _field(raw, "call_id")
    return ToolCall(name, parse_arguments(_field(raw, "arguments")), plain_value(outputs.get(call_id)), id=call_id)


def _field(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, dict) else getattr(raw, name, None)

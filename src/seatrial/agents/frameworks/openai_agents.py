"""Agents of the OpenAI Agents SDK.

Before each request the SDK asks an agent for its tools with `get_all_tools`, also nested agents and those after a
handoff. In a trial it returns copies that record their calls. The user's tools do not change.
"""

import copy
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from agents import Agent, FunctionTool, Handoff, RunConfig, Runner
from agents import tool as agents_tool
from agents.agent import AgentBase
from agents.exceptions import (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)
from agents.items import HandoffCallItem, ToolCallItem, ToolCallOutputItem
from msgspec.structs import replace

from seatrial.agents.chat_messages import parse_arguments
from seatrial.agents.context import AgentContext, current_trial
from seatrial.agents.openai_responses import write_items
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import ErrorKind, Message, ToolCall, Usage
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

_failures: ContextVar[list[BaseException] | None] = ContextVar("failures", default=None)
"""What the running tool raised: the SDK only returns a text for it."""


class Adapter:
    """One trial. It continues with the agent that answered last, as after a handoff."""

    def __init__(self, target: Any, *, context: Any = MISSING, config: Any = None) -> None:
        if not isinstance(target, Agent):
            raise UsageError(f"type 'openai_agents' needs an agents.Agent, got {type(target).__name__}")
        replace_method(AgentBase, "get_all_tools", _with_recording_tools)
        replace_method(agents_tool, "maybe_invoke_function_tool_failure_error_function", _noting_failure)
        self.tool_names = _names_of(target, set())
        self._agent: Agent[Any] = target
        self._context = context
        self._config = _read_config(config)
        self._said: list[Any] | None = None
        self._waiting: Any = None
        """The result of the turn in which calls wait for a person."""

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentReply:
        decision = decision_in(messages)
        context = self._find_context(ctx)
        rejected: set[Any] = set()
        earlier = 0
        if decision is None:
            earlier_messages, latest = split_messages(messages)
            said = list(write_items(earlier_messages)) if self._said is None else self._said
            given: Any = (
                said if latest is None else [*said, *(list(write_items([latest])) or [{"role": "user", "content": ""}])]
            )
        else:
            given, rejected = _decide(self._waiting, decision)
            earlier = len(self._waiting.new_items)
        try:
            with noting_failures(ctx):
                result = await Runner.run(self._agent, given, context=context, run_config=self._config)
        except _TRIPWIRES as stopped:
            return _stopped(stopped)
        self._agent = result.last_agent
        self._waiting = result if result.interruptions else None
        waiting = {_field(item.raw_item, "call_id") for item in result.interruptions}
        if not waiting:
            self._said = result.to_input_list()
        names = tuple(str(item.name) for item in result.interruptions)
        calls = _read_calls(result.new_items, rejected=rejected, waiting=waiting, earlier=earlier)
        return AgentReply(
            reply=waiting_reply(names) if names else as_text(result.final_output),
            tool_calls=tuple(calls),
            usage=_read_usage(result),
            awaits=names,
        )

    def _find_context(self, ctx: AgentContext) -> Any:
        if self._context is not MISSING:
            return self._context
        kind = next(iter(getattr(getattr(self._agent, "__orig_class__", None), "__args__", ())), None)
        needed = missing_input("context", "the agent's tools and instructions get a context", "openai_agents")
        if inspect.isclass(kind) and kind not in (type(None), object):
            raise missing_input("context", f"the agent needs a context of type {kind.__qualname__}", "openai_agents")
        ctx.missing_input = needed
        return None


def _read_config(config: Any) -> RunConfig | None:
    """The SDK's RunConfig, which a file may write as a mapping."""
    if config is None or isinstance(config, RunConfig):
        return config
    if not isinstance(config, Mapping):
        raise UsageError(f"config must be a RunConfig or a mapping, got {type(config).__name__}")
    try:
        return RunConfig(**config)
    except TypeError as problem:
        raise UsageError(f"config is no RunConfig: {problem}") from None


_TRIPWIRES = (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)


def _stopped(stopped: Any) -> AgentReply:
    """The reply of a run that a guardrail stopped."""
    guardrail = stopped.guardrail if hasattr(stopped, "guardrail") else stopped.guardrail_result.guardrail
    name = str(guardrail.get_name())
    made = _read_calls(stopped.run_data.new_items) if stopped.run_data is not None else []
    return AgentReply(reply=f"(guardrail {name} stopped the agent)", tool_calls=tuple(made), guardrail=name)


def _decide(waiting: Any, decision: Decision) -> tuple[Any, set[Any]]:
    """The state to go on from, and the ids of the rejected calls."""
    if decision.resume is not None:
        raise TrialError(ErrorKind.CONFIG, "agents of type 'openai_agents' wait for approvals; write approve or reject")
    items = list(waiting.interruptions) if waiting is not None else []
    verdicts = decide([str(item.name) for item in items], decision)
    state, rejected = waiting.to_state(), set()
    for item, approved in zip(items, verdicts, strict=True):
        if approved:
            state.approve(item)
        else:
            state.reject(item)
            rejected.add(_field(item.raw_item, "call_id"))
    return state, rejected


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
    if seatrial_answers(ctx, tool.name, control=_is_agent(tool)) and not ctx.decides:
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
    if not isinstance(agent, Agent) or agent.mcp_servers or getattr(agent, "capabilities", None):
        return None  # a sandbox adds tools at run time
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
        ctx = current_trial.get()
        if ctx is not None:
            ctx.note_failure(error)
        return await original(error=error, **options)

    return maybe_invoke


def _read_calls(
    items: Sequence[Any], *, rejected: Collection[Any] = (), waiting: Collection[Any] = (), earlier: int = 0
) -> list[ToolCall]:
    """The calls that the SDK reports: the recorded ones, handoffs, and tools that OpenAI runs.

    Calls that wait for a person are not made yet. The first `earlier` items are those of the turn before: of these,
    only calls that have waited until now count.
    """
    outputs = {_field(item.raw_item, "call_id"): item.output for item in items if isinstance(item, ToolCallOutputItem)}
    old = {id(item) for item in items[:earlier]}
    before = [item.raw_item for item in items[:earlier] if isinstance(item, ToolCallOutputItem)]
    answered_before = {_field(raw, "call_id") for raw in before}
    found = []
    for item in items:
        if not isinstance(item, ToolCallItem | HandoffCallItem):
            continue
        call_id = _field(item.raw_item, "call_id")
        if call_id in waiting or (id(item) in old and (call_id is None or call_id in answered_before)):
            continue
        call = _read_call(item.raw_item, outputs)
        found.append(replace(call, result=None, error="rejected by the user") if call_id in rejected else call)
    return found


def _read_call(raw: Any, outputs: dict[Any, Any]) -> ToolCall:
    name, call_id = _field(raw, "name") or str(_field(raw, "type")).removesuffix("_call"), _field(raw, "call_id")
    return ToolCall(name, parse_arguments(_field(raw, "arguments")), plain_value(outputs.get(call_id)), id=call_id)


def _field(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, dict) else getattr(raw, name, None)

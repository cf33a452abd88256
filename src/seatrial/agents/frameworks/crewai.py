"""Agents and crews of CrewAI.

They change while they run, so every trial uses a copy, and the copy's tools record their calls. Hooks see the tools
that CrewAI adds at run time (delegation to a coworker, MCP, memory). The hooks apply only to the trial's thread.
"""

import asyncio
import inspect
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from crewai import Agent, Crew
from crewai.hooks.dispatch import InterceptionPoint, scoped_hooks
from crewai.llms.base_llm import BaseLLM
from crewai.tools import BaseTool
from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
from crewai.types.usage_metrics import UsageMetrics
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import PrivateAttr

from seatrial.agents.chat_messages import parse_arguments, text_of
from seatrial.agents.context import AgentContext
from seatrial.errors import UsageError
from seatrial.model.conversation import AgentResult, ErrorKind, Message, Usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError

from .tool_recorder import record_call_blocking, seatrial_answers

_INPUT = "input"
_AGENT_TOOLS = "crewai.tools.agent_tools"
_HISTORY = "crew_chat_messages"
"""The input with which CrewAI itself gives a conversation to a crew."""


class Adapter:
    """One trial with an agent, which gets all messages, or with a crew, which gets inputs."""

    def __init__(self, target: Any) -> None:
        if not isinstance(target, Agent | Crew):
            raise UsageError(f"type 'crewai' needs a crewai.Agent or a crewai.Crew, got {type(target).__name__}")
        self._input = _placeholder(target) if isinstance(target, Crew) else _INPUT
        self.tool_names = _names_of(target)
        self._target = target
        self._copy: Agent | Crew | None = None
        self._calls = _Calls()

    def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentResult:
        if self._copy is None:
            self._copy = _recording_copy(self._target, self._calls)
        self._calls.begin(ctx)
        models = list(_models(self._copy))
        before = [model.get_token_usage_summary() for model in models]
        with scoped_hooks(self._calls.hooks):
            output = self._kick_off(self._copy, messages)
        self._calls.end(output.tool_failures)
        spent = [model.get_token_usage_summary().delta_since(base) for model, base in zip(models, before, strict=True)]
        return AgentResult(output.raw, [], _usage(spent))

    def _kick_off(self, copy: Agent | Crew, messages: Sequence[Message]) -> Any:
        if isinstance(copy, Agent):
            return copy.kickoff(list(messages))
        inputs = {self._input: text_of(messages[-1])}
        if len(messages) > 1:
            inputs[_HISTORY] = json.dumps([{"role": said["role"], "content": text_of(said)} for said in messages[:-1]])
        return copy.kickoff(inputs=inputs)


def _placeholder(crew: Crew) -> str:
    """The placeholder for the user's text: `{input}`, or the only one."""
    known = crew.fetch_inputs() - {_HISTORY}
    if _INPUT in known:
        return _INPUT
    if len(known) == 1:
        return str(next(iter(known)))
    found = ", ".join(sorted(known)) or "none"
    raise UsageError(
        f"a crew gets the user's text through a placeholder in a task's description, such as {{input}}; found: {found}"
    )


class _Calls:
    """The tool calls of one trial."""

    def __init__(self) -> None:
        self._started: dict[tuple[int, str], float] = {}
        self.hooks = {
            InterceptionPoint.PRE_TOOL_CALL: [self._before],
            InterceptionPoint.POST_TOOL_CALL: [self._after],
        }

    def begin(self, ctx: AgentContext) -> None:
        """Start a turn."""
        self.ctx = ctx
        self._unknown: set[str] = set()
        self._refused: set[str] = set()
        self._unmockable: str | None = None

    def _before(self, call: Any) -> bool | None:
        """False: CrewAI must not run the tool."""
        self._started[threading.get_ident(), call.tool_name] = self.ctx.elapsed_ms()
        if call.tool is None or _is_recording(call.tool):
            return None
        if self.ctx.knows_tool(call.tool_name):
            self._unmockable = call.tool_name
            return False
        if seatrial_answers(self.ctx, call.tool_name, control=_is_control(call.tool)):
            self._refused.add(call.tool_name)
            with suppress(TrialError):  # the context stores it, and ends the trial
                self.ctx.ask_blocking(call.tool_name, call.tool_input)
            return False
        return None

    def _after(self, call: Any) -> None:
        started = self._started.pop((threading.get_ident(), call.tool_name), self.ctx.elapsed_ms())
        if call.tool is None:
            self._unknown.add(call.tool_name)
            self.ctx.record(call.tool_name, call.tool_input, ToolAnswer(error=call.tool_result), started)
        elif not _is_recording(call.tool) and call.tool_name not in self._refused:
            answer = _read_result(call.raw_tool_result)
            self.ctx.record(call.tool_name, call.tool_input, answer, started, real=not _is_control(call.tool))

    def end(self, failures: Sequence[Any]) -> None:
        """Record calls that reached no tool and no hook. Raises TrialError if a mock could not answer."""
        for failed in failures:
            unseen = failed.failure.reason in (ToolFailureReason.UNKNOWN_TOOL, ToolFailureReason.INVALID_INPUT)
            if unseen and failed.tool_name not in self._unknown:
                answer = ToolAnswer(error=failed.message)
                self.ctx.record(failed.tool_name, parse_arguments(failed.tool_args), answer, self.ctx.elapsed_ms())
        if self._unmockable is not None:
            raise TrialError(
                ErrorKind.CONFIG,
                f"CrewAI adds the tool {self._unmockable!r} by itself while it runs, where no mock can answer it",
                hint="mock the tools behind it instead",
            )


class _RecordingTool(BaseTool):
    """A tool of the user. Its calls are recorded and may be answered by a mock."""

    _tool: BaseTool = PrivateAttr()
    _calls: _Calls = PrivateAttr()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """For models with tool calls: the arguments as the model gave them."""
        return self._record(self._tool.run, args, kwargs)

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """For models that write calls as text: the arguments are validated already."""
        return self._record(self._tool._run, args, kwargs)

    def _record(self, real: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = sanitize_tool_name(self.name)
        call = partial(_run, real, args, kwargs)
        return record_call_blocking(self._calls.ctx, name, kwargs, call, read=_read_result)


def _run(real: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a tool. An async tool gets an event loop in this thread, as in CrewAI."""
    value = real(*args, **kwargs)
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def _read_result(value: Any) -> ToolAnswer:
    return ToolAnswer(error=value.message) if isinstance(value, ToolFailure) else ToolAnswer(result=plain_value(value))


def _is_recording(tool: Any) -> bool:
    return isinstance(tool, _RecordingTool) or isinstance(getattr(tool, "_original_tool", None), _RecordingTool)


def _is_control(tool: Any) -> bool:
    """Whether it is a tool of CrewAI for messages between agents: the agents' own tools are recorded."""
    kind = type(getattr(tool, "_original_tool", None) or tool)
    return kind.__module__.startswith(_AGENT_TOOLS)


def _names_of(target: Agent | Crew) -> frozenset[str] | None:
    """The names of the agents' tools; None if CrewAI adds others at run time."""
    agents = list(_agents(target))
    adds = ("allow_delegation", "mcps", "apps", "memory", "knowledge_sources", "multimodal", "allow_code_execution")
    if any(getattr(each, name, None) for each in (*agents, target) for name in adds):
        return None
    if isinstance(target, Crew) and str(target.process).endswith("hierarchical"):
        return None
    tasks = target.tasks if isinstance(target, Crew) else ()
    return frozenset(sanitize_tool_name(tool.name) for each in (*agents, *tasks) for tool in each.tools or ())


def _recording_copy(target: Agent | Crew, calls: _Calls) -> Agent | Crew:
    copy = target.copy()
    pairs = zip(_agents(target), _agents(copy), strict=True)
    for original, agent in pairs:
        agent.tools = _recording_tools(original.tools, calls)
        # CrewAI's copy() does not copy these.
        agent.apps, agent.mcps = original.apps, original.mcps
    for task in copy.tasks if isinstance(copy, Crew) else ():
        task.tools = _recording_tools(task.tools, calls)
    for model in _models(copy):
        # CrewAI's copies share the original's token counter.
        model._token_usage = dict(model._token_usage)
    return copy


def _recording_tools(tools: Sequence[BaseTool] | None, calls: _Calls) -> list[BaseTool]:
    recording: list[BaseTool] = []
    for tool in tools or ():
        if isinstance(tool, _RecordingTool):
            recording.append(tool)
            continue
        copied = _RecordingTool(**{name: getattr(tool, name) for name in BaseTool.model_fields})
        copied._tool, copied._calls = tool.model_copy(update={"current_usage_count": 0}), calls
        copied.current_usage_count = 0
        recording.append(copied)
    return recording


def _agents(target: Agent | Crew) -> Iterator[Agent]:
    if isinstance(target, Agent):
        yield target
        return
    yield from target.agents
    if target.manager_agent is not None:
        yield target.manager_agent


def _models(target: Agent | Crew) -> Iterator[BaseLLM]:
    """All models of the agents, each once."""
    found: dict[int, Any] = {}
    for agent in _agents(target):
        found.update({id(model): model for model in (agent.llm, agent.function_calling_llm)})
    if isinstance(target, Crew):
        found[id(target.manager_llm)] = target.manager_llm
    yield from (model for model in found.values() if isinstance(model, BaseLLM))


def _usage(spent: Sequence[UsageMetrics]) -> Usage | None:
    """The tokens of all models; None if no model counts them."""
    if not sum(metrics.successful_requests for metrics in spent):
        return None
    return Usage(
        input_tokens=sum(metrics.prompt_tokens for metrics in spent),
        output_tokens=sum(metrics.completion_tokens for metrics in spent),
    )

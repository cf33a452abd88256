"""Agents of Strands.

An agent keeps its conversation, so each trial has a copy of it, and of the agents behind its tools. A hook of the
copies sees every tool call.
"""

import copy
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any

from strands import Agent
from strands.agent.state import AgentState
from strands.handlers.callback_handler import PrintingCallbackHandler, null_callback_handler
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.telemetry.metrics import EventLoopMetrics
from strands.tools.structured_output.structured_output_tool import StructuredOutputTool
from strands.types.tools import AgentTool

from seatrial.agents.bedrock import ConverseApi
from seatrial.agents.chat_messages import text_of
from seatrial.agents.context import AgentContext, recorded_tool
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import AgentResult, ErrorKind, Message, Usage
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError

from .tool_recorder import as_text, seatrial_answers


class Adapter:
    """One trial with an agent of Strands."""

    def __init__(self, target: Any) -> None:
        if not isinstance(target, Agent):
            raise UsageError(f"type 'strands' needs a strands.Agent, got {type(target).__name__}")
        if target._session_manager is not None:
            raise UsageError("the agent has a session manager, which would mix the trials; leave it out for the trials")
        self.tool_names = None if target.tool_registry._tool_providers else frozenset(_names_of(target))
        self._target = target
        self._recorder = _Recorder()
        self._agent: Agent | None = None

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentResult:
        agent = self._agent or self._begin(messages[:-1])
        # After an error the conversation ends in the middle of a turn: a repeated turn starts with a new copy.
        self._agent = None
        self._recorder.begin(ctx)
        for each in self._recorder.agents:
            each.event_loop_metrics = EventLoopMetrics()
        result = await agent.invoke_async(ctx.input)
        if result.interrupts:
            names = ", ".join(sorted({str(each.name) for each in result.interrupts}))
            raise TrialError(ErrorKind.CONFIG, f"the agent waits for {names}, which type 'strands' cannot answer")
        self._agent = agent
        blocks = result.message.get("content") or []
        reply = "".join(block.get("text", "") for block in blocks)
        structured = result.structured_output
        return AgentResult(reply if structured is None else as_text(structured), [], self._recorder.usage())

    def _begin(self, messages: Sequence[Message]) -> Agent:
        """A copy of the agent with the scenario's `system` and `history`."""
        self._recorder.agents.clear()
        agent = _twin(self._target, self._recorder)
        form = ConverseApi().request(messages, {})
        agent.messages.extend(form["messages"])
        system = "\n\n".join(text_of(message) for message in messages if message["role"] in ("system", "developer"))
        if system:
            agent.system_prompt = f"{agent.system_prompt}\n\n{system}" if agent.system_prompt else system
        return agent


def _twin(agent: Agent, recorder: "_Recorder") -> Agent:
    """A copy that shares the model and the tools, but neither the conversation nor what belongs to a single run."""
    twin = copy.copy(agent)
    twin.messages = copy.deepcopy(agent.messages)
    twin.state = AgentState(agent.state.get())
    twin.hooks = copy.copy(agent.hooks)
    twin.hooks._registered_callbacks = {
        event: list(known) for event, known in agent.hooks._registered_callbacks.items()
    }
    twin._concurrency = type(agent._concurrency)(agent._concurrency.mode)
    twin._interrupt_state = type(agent._interrupt_state)()
    twin._cancel_signal = threading.Event()
    twin._model_state = {}
    twin.tool_caller = type(agent.tool_caller)(twin)
    if isinstance(agent.callback_handler, PrintingCallbackHandler):
        twin.callback_handler = null_callback_handler
    twin.tool_registry = copy.copy(agent.tool_registry)
    twin.tool_registry.registry = {
        name: _twin_tool(tool, recorder) for name, tool in agent.tool_registry.registry.items()
    }
    twin.add_hook(recorder.before, BeforeToolCallEvent)
    twin.add_hook(recorder.after, AfterToolCallEvent)
    recorder.agents.append(twin)
    return twin


def _twin_tool(tool: AgentTool, recorder: "_Recorder") -> AgentTool:
    """A tool that is an agent needs a copy of that agent."""
    if tool.tool_type != "agent":
        return tool
    twin: Any = copy.copy(tool)
    twin._agent = _twin(twin._agent, recorder)
    twin._lock = threading.Lock()
    return twin


def _names_of(agent: Agent) -> Iterator[str]:
    for name, tool in agent.tool_registry.registry.items():
        yield name
        if tool.tool_type == "agent":
            yield from _names_of(tool._agent)


class _Recorder:
    """Sees every tool call of one trial."""

    def __init__(self) -> None:
        self.agents: list[Agent] = []
        """The agents of the trial, nested ones first."""

    def begin(self, ctx: AgentContext) -> None:
        """Start a turn."""
        self._ctx = ctx
        self._begun: dict[str, object] = {}
        """Running calls of real tools, by their ids."""

    def usage(self) -> Usage | None:
        """The tokens of all models in the turn; None if one of them does not report tokens."""
        spent = [each.event_loop_metrics for each in self.agents if each.event_loop_metrics.cycle_count]
        counts = [(each.accumulated_usage["inputTokens"], each.accumulated_usage["outputTokens"]) for each in spent]
        if not counts or any(taken + given == 0 for taken, given in counts):
            return None
        return Usage(input_tokens=sum(taken for taken, _ in counts), output_tokens=sum(given for _, given in counts))

    def before(self, event: BeforeToolCallEvent) -> None:
        tool, use = event.selected_tool, event.tool_use
        control = tool is None or _is_control(tool)
        if tool is not None and seatrial_answers(self._ctx, use["name"], control=control):
            event.selected_tool = _MockedTool(tool, self._ctx)
            return
        self._begun[use["toolUseId"]] = self._ctx.begin_call(use["name"], use["input"], real=not control)
        recorded_tool.set(use["name"])  # a tool that `@seatrial.tool` wraps must not record the call again

    def after(self, event: AfterToolCallEvent) -> None:
        call = self._begun.pop(event.tool_use["toolUseId"], None)
        if call is not None:
            recorded_tool.set(None)
            self._ctx.end_call(call, _read_answer(event.result, event.exception))
            if event.exception is not None:
                self._ctx.note_failure(event.exception)


def _is_control(tool: AgentTool) -> bool:
    """Whether the tool needs no mock: structured output, or an agent, whose own tools are recorded."""
    return isinstance(tool, StructuredOutputTool) or tool.tool_type == "agent"


def _read_answer(result: Any, raised: BaseException | None) -> ToolAnswer:
    contents = [block.get("json", block.get("text")) for block in result.get("content") or ()]
    value = contents[0] if len(contents) == 1 else contents
    if result.get("status") != "error":
        return ToolAnswer(result=value)
    return ToolAnswer(error=str(value) if raised is None else f"{type(raised).__name__}: {raised}")


class _MockedTool(AgentTool):
    """Answers in the place of a tool."""

    def __init__(self, tool: AgentTool, ctx: AgentContext) -> None:
        super().__init__()
        self._tool, self._ctx = tool, ctx

    @property
    def tool_name(self) -> str:
        return str(self._tool.tool_name)

    @property
    def tool_spec(self) -> Any:
        return self._tool.tool_spec

    @property
    def tool_type(self) -> str:
        return str(self._tool.tool_type)

    async def stream(self, tool_use: Any, invocation_state: dict[str, Any], **_: Any) -> AsyncGenerator[Any, None]:
        try:
            answer, status = await self._ctx.ask(tool_use["name"], tool_use["input"]), "success"
        except ToolError as error:
            answer, status = str(error), "error"
        content = {"json": answer} if isinstance(answer, dict) else {"text": as_text(answer) or ""}
        yield {"toolUseId": tool_use["toolUseId"], "status": status, "content": [content]}

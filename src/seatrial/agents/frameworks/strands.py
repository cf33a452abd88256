"""Agents of Strands.

An agent keeps its conversation, so each trial has a copy of it, and of the agents behind its tools. A hook of the
copies sees every tool call.
"""

import copy
import threading
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from strands import Agent
from strands.agent.state import AgentState
from strands.handlers.callback_handler import PrintingCallbackHandler, null_callback_handler
from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent
from strands.telemetry.metrics import EventLoopMetrics
from strands.tools.structured_output.structured_output_tool import StructuredOutputTool
from strands.types.tools import AgentTool, ToolUse

from seatrial.agents.bedrock import ConverseApi
from seatrial.agents.chat_messages import text_of
from seatrial.agents.context import AgentContext, recorded_tool
from seatrial.agents.message_parts import converse_blocks_of
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import Message, Usage
from seatrial.model.protocols import AgentReply, ToolAnswer
from seatrial.model.results import AgentFailure
from seatrial.model.scenario import Decision

from .tool_recorder import (
    MISSING,
    as_text,
    decide,
    decision_in,
    missing_input,
    seatrial_answers,
    waiting_reply,
)


class Adapter:
    """One trial with an agent of Strands."""

    def __init__(self, target: Any, *, invocation_state: Any = MISSING) -> None:
        if not isinstance(target, Agent):
            raise UsageError(f"type 'strands' needs a strands.Agent, got {type(target).__name__}")
        if target._session_manager is not None:
            raise UsageError("the agent has a session manager, which would mix the trials; leave it out for the trials")
        self.tool_names = None if target.tool_registry._tool_providers else frozenset(_names_of(target))
        if invocation_state is not MISSING and not isinstance(invocation_state, Mapping):
            raise UsageError(f"invocation_state must be a mapping, got {type(invocation_state).__name__}")
        self._target = target
        self._given = {} if invocation_state is MISSING else {"invocation_state": dict(invocation_state)}
        self._recorder = _Recorder(given=bool(self._given))
        self._agent: Agent | None = None
        self._waiting: Sequence[tuple[str, str]] = ()
        """The ids of the interrupts that a person must answer, each with the name of what waits."""

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentReply:
        decision = decision_in(messages)
        answers = None if decision is None else _write_answers(self._waiting, decision)
        agent = self._agent or self._begin(messages[:-1])
        # After an error the conversation ends in the middle of a turn: a repeated turn starts with a new copy.
        self._agent, self._waiting = None, ()
        self._recorder.begin(ctx)
        for each in self._recorder.agents:
            each.event_loop_metrics = EventLoopMetrics()
        result = await agent.invoke_async(_write_prompt(messages[-1]) if answers is None else answers, **self._given)
        waiting = self._recorder.find_waiting(result.interrupts or ())
        while waiting and not ctx.decides and all(seatrial_answers(ctx, name) for _, name in waiting):
            # Mocked tools need no approval in a scenario without decisions.
            approved = Decision(approve=tuple(name for _, name in waiting))
            result = await agent.invoke_async(_write_answers(waiting, approved), **self._given)
            waiting = self._recorder.find_waiting(result.interrupts or ())
        self._agent, self._waiting = agent, waiting
        usage, names = self._recorder.usage(), tuple(name for _, name in waiting)
        reply = waiting_reply(names) if names else _read_text(result)
        return AgentReply(reply=reply, tool_calls=(), usage=usage, awaits=names)

    def _begin(self, messages: Sequence[Message]) -> Agent:
        """A copy of the agent with the scenario's `system` and `history`."""
        self._recorder.agents.clear()
        agent = _twin(self._target, self._recorder)
        form = ConverseApi().request(messages, {})
        agent.messages.extend(_with_bytes(message) for message in form["messages"])
        system = "\n\n".join(text_of(message) for message in messages if message["role"] in ("system", "developer"))
        if system:
            agent.system_prompt = f"{agent.system_prompt}\n\n{system}" if agent.system_prompt else system
        return agent


def _write_answers(waiting: Sequence[tuple[str, str]], decision: Decision) -> list[dict[str, Any]]:
    """A person's responses: `resume` as it is, or by name; for approvals "y" and "n", as Strands' own handler takes."""
    names, given = [name for _, name in waiting], decision.resume
    named = given if isinstance(given, Mapping) and given.keys() <= set(names) else {}
    if given is not None and not named:
        if not waiting:
            raise AgentFailure("a person resumes the agent, but it waits for nothing", final=True)
        named = dict.fromkeys(names, given)
    verdicts = iter(decide([name for name in names if name not in named], decision))
    responses = [named[name] if name in named else "y" if next(verdicts) else "n" for name in names]
    return [
        {"interruptResponse": {"interruptId": identity, "response": response}}
        for (identity, _), response in zip(waiting, responses, strict=True)
    ]


def _write_prompt(message: Message) -> Any:
    """The user's message: a text, or blocks if something is attached."""
    if not isinstance(message.get("content"), list):
        return text_of(message)
    return _with_bytes({"content": list(converse_blocks_of(message["content"]))})["content"]


def _with_bytes(message: Mapping[str, Any]) -> Any:
    """A message of the Converse API as in Python, where images and documents are bytes."""
    content = []
    for block in message["content"]:
        kind = next((kind for kind in ("image", "document") if kind in block), None)
        if kind is None:
            content.append(block)
        else:
            content.append({kind: {**block[kind], "source": {"bytes": b64decode(block[kind]["source"]["bytes"])}}})
    return {**message, "content": content}


def _read_text(result: Any) -> str | None:
    blocks = result.message.get("content") or []
    text = "".join(block.get("text", "") for block in blocks)
    return text if result.structured_output is None else as_text(result.structured_output)


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
    twin.add_hook(recorder.before, BeforeToolCallEvent, order=inf)  # last: others may cancel the call, or interrupt
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

    def __init__(self, *, given: bool) -> None:
        """`given`: the settings have an `invocation_state`."""
        self._given = given
        self.agents: list[Agent] = []
        """The agents of the trial, nested ones first."""

    def begin(self, ctx: AgentContext) -> None:
        """Start a turn."""
        self._ctx = ctx
        self._begun: dict[str, tuple[object, ToolUse]] = {}
        """Running calls of real tools, by their ids."""
        self._interrupted: dict[str, str] = {}
        """By the id of an interrupt: the name of the tool whose call waits."""

    def find_waiting(self, interrupts: Sequence[Any]) -> list[tuple[str, str]]:
        """The ids of the interrupts, each with the name of its tool, or else with its own name.

        A call that asked from within its tool has not ended. It is made again when the agent goes on.
        """
        if not interrupts:
            return []
        for call, use in self._begun.values():
            self._ctx.end_call(call, None)
            for each in interrupts:
                if f":{use['toolUseId']}:" in each.id:
                    self._interrupted.setdefault(each.id, use["name"])
        self._begun.clear()
        # An interrupt of a nested agent has a prefix before its own id.
        named = {
            each.id: [name for known, name in self._interrupted.items() if each.id.endswith(known)]
            for each in interrupts
        }
        return [(each.id, next(iter(named[each.id]), str(each.name))) for each in interrupts]

    def usage(self) -> Usage | None:
        """The tokens of all models in the turn; None if one of them does not report tokens."""
        spent = [each.event_loop_metrics for each in self.agents if each.event_loop_metrics.cycle_count]
        counts = [(each.accumulated_usage["inputTokens"], each.accumulated_usage["outputTokens"]) for each in spent]
        if not counts or any(taken + given == 0 for taken, given in counts):
            return None
        return Usage(input_tokens=sum(taken for taken, _ in counts), output_tokens=sum(given for _, given in counts))

    def before(self, event: BeforeToolCallEvent) -> None:
        tool, use = event.selected_tool, event.tool_use
        asked = event.agent._interrupt_state.interrupts.values()
        waiting = [each.id for each in asked if each.response is None and event._interrupt_id(each.name) == each.id]
        if waiting:
            self._interrupted.update(dict.fromkeys(waiting, use["name"]))
            return
        control = tool is None or _is_control(tool)
        cancelled = bool(event.cancel_tool)
        if tool is not None and not cancelled and seatrial_answers(self._ctx, use["name"], control=control):
            event.selected_tool = _MockedTool(tool, self._ctx)
            return
        call = self._ctx.begin_call(use["name"], use["input"], real=not control and not cancelled)
        self._begun[use["toolUseId"]] = call, use
        recorded_tool.set(use["name"])  # a tool that `@seatrial.tool` wraps must not record the call again

    def after(self, event: AfterToolCallEvent) -> None:
        call, _ = self._begun.pop(event.tool_use["toolUseId"], (None, None))
        if call is not None:
            recorded_tool.set(None)
            self._ctx.end_call(call, _read_answer(event.result, event.exception))
            metadata = getattr(event.selected_tool, "_metadata", None)
            if event.exception is not None and not self._given and getattr(metadata, "_context_param", None):
                needed = missing_input("invocation_state", "the agent's tools get an invocation_state", "strands")
                self._ctx.note_failure(event.exception, missing=needed)


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

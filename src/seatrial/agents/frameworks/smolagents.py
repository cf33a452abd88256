"""Agents of smolagents.

Such an agent stores its own memory, so every trial uses a copy with its own memory, state and Python interpreter. Its
tools and managed agents are copies as well. The user's objects do not change.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from smolagents import CodeAgent, LocalPythonExecutor, MultiStepAgent, ToolCallingAgent
from smolagents.memory import ActionStep, AgentMemory, CallbackRegistry, MemoryStep, TaskStep
from smolagents.memory import ToolCall as SmolCall
from smolagents.monitoring import LogLevel, Monitor, Timing
from smolagents.utils import AgentToolCallError

from seatrial.agents.chat_messages import read_calls, text_of
from seatrial.agents.context import AgentContext
from seatrial.errors import UsageError
from seatrial.model.conversation import AgentResult, ErrorKind, Message, Usage, total_usage
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError

from .tool_recorder import as_text, record_call_blocking

_ANSWER = "final_answer"
"""The tool with which an agent of smolagents replies. It does not count as a call."""


class Adapter:
    """One trial with an agent of smolagents."""

    def __init__(self, target: Any) -> None:
        if not isinstance(target, MultiStepAgent):
            raise UsageError(
                f"type 'smolagents' needs a ToolCallingAgent, a CodeAgent or the like, got {type(target).__name__}"
            )
        _refuse_remote(target)
        self.tool_names = frozenset(_names_of(target))
        self._target = target
        self._copy: MultiStepAgent | None = None
        self._ctx: AgentContext | None = None
        self._spent: list[Usage | None] = []

    def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentResult:
        self._ctx, self._spent = ctx, []
        copied = self._copy or self._with_history(messages[:-1])
        # After an error its memory ends in the middle of a turn: a repeated turn starts with a new copy.
        self._copy = None
        output = copied.run(ctx.input, reset=False, stream=False, return_full_result=False)
        self._copy = copied
        return AgentResult(as_text(output), [], total_usage(self._spent))

    @property
    def _trial(self) -> AgentContext:
        assert self._ctx is not None
        return self._ctx

    def _with_history(self, messages: Sequence[Message]) -> MultiStepAgent:
        copied = self._make_copy(self._target)
        system = "\n\n".join(text_of(message) for message in messages if message["role"] in ("system", "developer"))
        if system:
            copied.instructions = "\n\n".join(text for text in (copied.instructions, system) if text)
            if system not in copied.system_prompt:
                raise TrialError(
                    ErrorKind.CONFIG,
                    "the agent's prompt template has no {{custom_instructions}}, so the scenario's system message "
                    "cannot be added",
                    hint="put {{custom_instructions}} into prompt_templates['system_prompt'], or drop `system`",
                )
        copied.memory.steps += _steps(messages)
        return copied

    def _make_copy(self, agent: MultiStepAgent) -> MultiStepAgent:
        copied = copy.copy(agent)
        copied.logger = copy.copy(agent.logger)
        # The panels of many concurrent trials would hide the report.
        copied.logger.level = LogLevel.OFF
        copied.monitor = Monitor(agent.model, copied.logger)
        copied.state = dict(agent.state)
        copied.tools = {name: tool if name == _ANSWER else self._recording(tool) for name, tool in agent.tools.items()}
        copied.managed_agents = {
            name: self._recording(self._make_copy(managed), control=True)
            for name, managed in agent.managed_agents.items()
        }
        copied.memory = AgentMemory(copied.system_prompt)
        copied.step_callbacks = _callbacks_of(agent, copied)
        copied.step_callbacks.register(MemoryStep, self._count)
        if isinstance(copied, CodeAgent):
            copied.python_executor = _fresh_interpreter(copied.python_executor)
        if isinstance(copied, ToolCallingAgent):
            copied.execute_tool_call = self._recording_refusals(copied)
        return copied

    def _recording(self, tool: Any, *, control: bool = False) -> Any:
        """A copy of a tool or of a managed agent. Its calls are recorded and may be answered by a mock. An agent needs
        no mock: its own tools are recorded."""
        kind = type(tool)

        def call(_: Any, *args: Any, sanitize_inputs_outputs: bool | None = None, **kwargs: Any) -> Any:
            # Managed agents do not have this option.
            option = {} if sanitize_inputs_outputs is None else {"sanitize_inputs_outputs": sanitize_inputs_outputs}
            return record_call_blocking(
                self._trial,
                tool.name,
                _arguments(tool, args, kwargs),
                lambda: kind.__call__(tool, *args, **option, **kwargs),
                control=control,
            )

        copied = copy.copy(tool)
        copied.__class__ = type(kind.__name__, (kind,), {"__call__": call})
        return copied

    def _recording_refusals(self, copied: ToolCallingAgent) -> Callable[..., Any]:
        """Runs a tool call, and records calls that reach no tool: an unknown tool, or wrong arguments."""
        execute = copied.execute_tool_call

        def execute_tool_call(tool_name: str, arguments: Any) -> Any:
            started = self._trial.elapsed_ms()
            known = tool_name in copied.tools or tool_name in copied.managed_agents
            try:
                return execute(tool_name, arguments)
            except Exception as refusal:
                if not known or isinstance(refusal, AgentToolCallError):
                    self._trial.record(tool_name, arguments, ToolAnswer(error=str(refusal)), started)
                raise

        return execute_tool_call

    def _count(self, step: MemoryStep) -> None:
        if hasattr(step, "token_usage"):
            tokens = step.token_usage
            usage = tokens and Usage(input_tokens=tokens.input_tokens, output_tokens=tokens.output_tokens)
            self._spent.append(usage)


def _names_of(agent: MultiStepAgent) -> Iterator[str]:
    """The names of all tools of the agent and of the agents that it manages."""
    yield from (name for name in agent.tools if name != _ANSWER)
    for name, managed in agent.managed_agents.items():
        yield name
        yield from _names_of(managed)


def _refuse_remote(agent: MultiStepAgent) -> None:
    """Refuse code that runs elsewhere: its tool calls cannot be recorded."""
    executor = getattr(agent, "python_executor", None)
    if executor is not None and type(executor) is not LocalPythonExecutor:
        raise UsageError(
            f"the CodeAgent runs its code with {type(executor).__name__}, where its tool calls can neither be recorded "
            "nor mocked; make it with executor_type='local' for the trials"
        )
    for managed in agent.managed_agents.values():
        _refuse_remote(managed)


def _fresh_interpreter(executor: LocalPythonExecutor) -> LocalPythonExecutor:
    fresh = copy.copy(executor)
    fresh.state = dict(executor.state)
    fresh.custom_tools = dict(executor.custom_tools)
    return fresh


def _callbacks_of(agent: MultiStepAgent, copied: MultiStepAgent) -> CallbackRegistry:
    """The user's callbacks. The one of the agent's monitor is replaced by the one of the copy's monitor."""
    callbacks = CallbackRegistry()
    for step, registered in agent.step_callbacks._callbacks.items():
        for callback in registered:
            counts = getattr(callback, "__self__", None) is agent.monitor
            callbacks.register(step, copied.monitor.update_metrics if counts else callback)
    return callbacks


def _arguments(tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name. Code may give them by position, or all in one mapping."""
    if len(args) == 1 and not kwargs and isinstance(args[0], dict) and set(args[0]) <= set(tool.inputs):
        return dict(args[0])
    return {**dict(zip(tool.inputs, args, strict=False)), **kwargs}


def _steps(messages: Sequence[Message]) -> Iterator[MemoryStep]:
    """The scenario's `history` as steps of smolagents."""
    for message in messages:
        match message["role"]:
            case "user":
                yield TaskStep(task=text_of(message))
            case "assistant":
                calls = [SmolCall(call.name, call.arguments, str(call.id)) for call in _calls(message)]
                yield _past_step(model_output=text_of(message), tool_calls=calls or None)
            case "tool":
                yield _past_step(observations=text_of(message))


def _calls(message: Message) -> tuple[Any, ...]:
    return read_calls(message.get("tool_calls") or ())


def _past_step(**said: Any) -> ActionStep:
    return ActionStep(step_number=0, timing=Timing(start_time=0.0, end_time=0.0), **said)

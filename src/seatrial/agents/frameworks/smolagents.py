"""Agents of smolagents.

Such an agent is its own memory, so every trial talks to a twin: a copy with a memory, a state and a Python interpreter
of its own, whose tools and managed agents are twins as well. The user's objects stay as they are.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from smolagents import CodeAgent, LocalPythonExecutor, MultiStepAgent, ToolCallingAgent
from smolagents.memory import ActionStep, AgentMemory, CallbackRegistry, MemoryStep, TaskStep
from smolagents.memory import ToolCall as SmolCall
from smolagents.monitoring import LogLevel, Monitor, Timing, TokenUsage
from smolagents.utils import AgentToolCallError

from seatrial.agents.context import AgentContext
from seatrial.agents.replies import read_calls, read_content
from seatrial.errors import UsageError
from seatrial.model.conversation import AgentResult, ErrorKind, Message, Usage
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError

from .tool_recorder import as_text, watch_blocking

_ANSWER = "final_answer"
"""The tool that every agent of smolagents replies with: it is the reply, and no call."""


class Adapter:
    """One trial's conversation with an agent of smolagents, which remembers by the steps in its memory."""

    def __init__(self, target: Any) -> None:
        if not isinstance(target, MultiStepAgent):
            raise UsageError(
                f"type 'smolagents' needs a ToolCallingAgent, a CodeAgent or the like, got {type(target).__name__}"
            )
        _refuse_remote(target)
        self.tool_names = frozenset(_names_of(target))
        self._target = target
        self._twin: MultiStepAgent | None = None
        self._ctx: AgentContext | None = None
        self._spent: list[TokenUsage | None] = []

    def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentResult:
        self._ctx, self._spent = ctx, []
        twin = self._twin or self._with_history(messages[:-1])
        # After an error its memory ends in the middle of something: the next try begins with a new one.
        self._twin = None
        output = twin.run(ctx.input, reset=False, stream=False, return_full_result=False)
        self._twin = twin
        return AgentResult(as_text(output), [], self._usage())

    @property
    def _trial(self) -> AgentContext:
        assert self._ctx is not None
        return self._ctx

    def _with_history(self, messages: Sequence[Message]) -> MultiStepAgent:
        twin = self._make_twin(self._target)
        system = "\n\n".join(_text(message) for message in messages if message["role"] in ("system", "developer"))
        if system:
            twin.instructions = "\n\n".join(text for text in (twin.instructions, system) if text)
            if system not in twin.system_prompt:
                raise TrialError(
                    ErrorKind.CONFIG,
                    "the agent's prompt template has no {{custom_instructions}}, so that the scenario's system message "
                    "has no place in it",
                    hint="put {{custom_instructions}} into prompt_templates['system_prompt'], or drop `system`",
                )
        twin.memory.steps += _steps(messages)
        return twin

    def _make_twin(self, agent: MultiStepAgent) -> MultiStepAgent:
        twin = copy.copy(agent)
        twin.logger = copy.copy(agent.logger)
        # Twenty trials side by side, each with its own panels, would only hide the report.
        twin.logger.level = LogLevel.OFF
        twin.monitor = Monitor(agent.model, twin.logger)
        twin.state = dict(agent.state)
        twin.tools = {name: tool if name == _ANSWER else self._watched(tool) for name, tool in agent.tools.items()}
        twin.managed_agents = {
            name: self._watched(self._make_twin(managed), control=True)
            for name, managed in agent.managed_agents.items()
        }
        twin.memory = AgentMemory(twin.system_prompt)
        twin.step_callbacks = _callbacks_of(agent, twin)
        twin.step_callbacks.register(MemoryStep, self._count)
        if isinstance(twin, CodeAgent):
            twin.python_executor = _fresh_interpreter(twin.python_executor)
        if isinstance(twin, ToolCallingAgent):
            twin.execute_tool_call = self._keeping_refusals(twin)
        return twin

    def _watched(self, tool: Any, *, control: bool = False) -> Any:
        """A copy of a tool, or of a managed agent, each call of which is kept and may be answered by a mock. An agent
        needs no mock: its own tools are watched."""
        kind = type(tool)

        def call(_: Any, *args: Any, sanitize_inputs_outputs: bool | None = None, **kwargs: Any) -> Any:
            # Managed agents do not know this option.
            option = {} if sanitize_inputs_outputs is None else {"sanitize_inputs_outputs": sanitize_inputs_outputs}
            return watch_blocking(
                self._trial,
                tool.name,
                _arguments(tool, args, kwargs),
                lambda: kind.__call__(tool, *args, **option, **kwargs),
                control=control,
            )

        twin = copy.copy(tool)
        twin.__class__ = type(kind.__name__, (kind,), {"__call__": call})
        return twin

    def _keeping_refusals(self, twin: ToolCallingAgent) -> Callable[..., Any]:
        """What runs a tool call, keeping those that reach no tool: an unknown one, or arguments it does not take."""
        execute = twin.execute_tool_call

        def execute_tool_call(tool_name: str, arguments: Any) -> Any:
            started = self._trial.elapsed_ms()
            known = tool_name in twin.tools or tool_name in twin.managed_agents
            try:
                return execute(tool_name, arguments)
            except Exception as refusal:
                if not known or isinstance(refusal, AgentToolCallError):
                    self._trial.record(tool_name, arguments, ToolAnswer(error=str(refusal)), started)
                raise

        return execute_tool_call

    def _count(self, step: MemoryStep) -> None:
        if hasattr(step, "token_usage"):
            self._spent.append(step.token_usage)

    def _usage(self) -> Usage | None:
        """The tokens of all steps of the turn; None when one of them does not say."""
        known = [usage for usage in self._spent if usage is not None]
        if not known or len(known) < len(self._spent):
            return None
        return Usage(
            input_tokens=sum(usage.input_tokens for usage in known),
            output_tokens=sum(usage.output_tokens for usage in known),
        )


def _names_of(agent: MultiStepAgent) -> Iterator[str]:
    """The names of all calls that the agent can make, through the agents that it manages as well."""
    yield from (name for name in agent.tools if name != _ANSWER)
    for name, managed in agent.managed_agents.items():
        yield name
        yield from _names_of(managed)


def _refuse_remote(agent: MultiStepAgent) -> None:
    """Code that runs elsewhere calls its tools there, where nobody sees them."""
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


def _callbacks_of(agent: MultiStepAgent, twin: MultiStepAgent) -> CallbackRegistry:
    """The user's callbacks; the agent's own, which counts for its monitor, counts for the twin's."""
    callbacks = CallbackRegistry()
    for step, registered in agent.step_callbacks._callbacks.items():
        for callback in registered:
            counts = getattr(callback, "__self__", None) is agent.monitor
            callbacks.register(step, twin.monitor.update_metrics if counts else callback)
    return callbacks


def _arguments(tool: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """By name, as a model would have given them: code may give them by place, or all in one mapping."""
    if len(args) == 1 and not kwargs and isinstance(args[0], dict) and set(args[0]) <= set(tool.inputs):
        return dict(args[0])
    return {**dict(zip(tool.inputs, args, strict=False)), **kwargs}


def _steps(messages: Sequence[Message]) -> Iterator[MemoryStep]:
    """The scenario's `history` as smolagents keeps it."""
    for message in messages:
        match message["role"]:
            case "user":
                yield TaskStep(task=_text(message))
            case "assistant":
                calls = [SmolCall(call.name, call.arguments, str(call.id)) for call in _calls(message)]
                yield _past_step(model_output=_text(message), tool_calls=calls or None)
            case "tool":
                yield _past_step(observations=_text(message))


def _calls(message: Message) -> tuple[Any, ...]:
    return read_calls(message.get("tool_calls") or ())


def _past_step(**said: Any) -> ActionStep:
    return ActionStep(step_number=0, timing=Timing(start_time=0.0, end_time=0.0), **said)


def _text(message: Message) -> str:
    return read_content(message.get("content")) or ""

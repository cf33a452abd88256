"""Agents of LlamaIndex: one of them, or an AgentWorkflow of several.

Their state is in a memory and a `Context`; each trial has its own. Every tool call goes through `_call_tool`, also in
nested agents. We replace it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llama_index.core.agent.workflow import AgentOutput, AgentWorkflow, BaseWorkflowAgent, ToolCallResult
from llama_index.core.base.llms.types import DocumentBlock, ImageBlock, TextBlock
from llama_index.core.callbacks.token_counting import get_tokens_from_response
from llama_index.core.llms import ChatMessage, ChatResponse
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.tools import ToolOutput
from llama_index.core.workflow import Context

from seatrial.agents.chat_messages import text_of
from seatrial.agents.context import AgentContext, current_trial
from seatrial.agents.message_parts import attachments_in
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import AgentResult, Message, Usage, total_usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer

from .tool_recorder import as_text, record_call, replace_method


class Adapter:
    """One trial with an agent of LlamaIndex."""

    def __init__(self, target: Any) -> None:
        if not isinstance(target, BaseWorkflowAgent | AgentWorkflow):
            raise UsageError(
                "type 'llama_index' needs a FunctionAgent, a ReActAgent or the like, or an AgentWorkflow, "
                f"got {type(target).__name__}"
            )
        for owner in (BaseWorkflowAgent, AgentWorkflow):
            replace_method(owner, "_call_tool", _watched)
        self.tool_names = _names_of(target)
        self._agent = target
        self._kept: tuple[BaseMemory, Context] | None = None

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentResult:
        memory, context = self._kept or self._begin(messages[:-1])
        # After an error they end in the middle of a turn: a repeated turn starts with new ones.
        self._kept = None
        handler = self._agent.run(user_msg=_write_message(messages[-1]), memory=memory, ctx=context)
        spent: list[Usage | None] = []
        try:
            async for event in handler.stream_events():
                if isinstance(event, AgentOutput):
                    spent.append(_read_usage(event))
                elif isinstance(event, ToolCallResult):
                    _record_unknown(event, ctx)
            output = await handler
        except BaseException:
            await handler.cancel_run()  # otherwise its steps would continue
            raise
        # LlamaIndex would warn that it cannot store the memory in the context.
        await context.store.set("memory", None)
        self._kept = memory, context
        return AgentResult(_reply(output), [], total_usage(spent))

    def _begin(self, messages: Sequence[Message]) -> tuple[BaseMemory, Context]:
        """The framework's default memory, with the scenario's `system` and `history`."""
        agent = self._agent
        first = agent.agents[agent.root_agent] if isinstance(agent, AgentWorkflow) else agent
        history = list(_read_history(messages))
        return ChatMemoryBuffer.from_defaults(chat_history=history, llm=first.llm), Context(agent)


_HANDOFF = "handoff"
"""The tool with which an agent of an AgentWorkflow hands over to another."""


def _names_of(target: BaseWorkflowAgent | AgentWorkflow) -> frozenset[str] | None:
    """The names of all tools of the agent; None if a retriever chooses them at run time."""
    agents = list(target.agents.values()) if isinstance(target, AgentWorkflow) else [target]
    if any(agent.tool_retriever is not None for agent in agents):
        return None
    names = {tool.metadata.get_name() for agent in agents for tool in agent.tools or ()}
    return frozenset({*names, _HANDOFF} if len(agents) > 1 else names)


def _watched(original: Callable[..., Any]) -> Callable[..., Any]:
    async def call_tool(self: Any, context: Any, tool: Any, tool_input: dict[str, Any]) -> ToolOutput:
        ctx = current_trial.get()
        if ctx is None:
            return await original(self, context, tool, tool_input)
        name = tool.metadata.get_name()
        try:
            answer = await record_call(
                ctx,
                name,
                tool_input,
                lambda: original(self, context, tool, tool_input),
                read=_read_output,
                control=isinstance(self, AgentWorkflow) and name == _HANDOFF,
            )
        except ToolError as error:
            return _as_output(name, tool_input, str(error), is_error=True)
        return answer if isinstance(answer, ToolOutput) else _as_output(name, tool_input, answer)

    return call_tool


def _as_output(name: str, tool_input: dict[str, Any], value: Any, *, is_error: bool = False) -> ToolOutput:
    return ToolOutput(tool_name=name, content=as_text(value), raw_input=tool_input, raw_output=value, is_error=is_error)


def _read_output(output: ToolOutput) -> ToolAnswer:
    if output.is_error:
        raised = output.exception
        return ToolAnswer(error=output.content if raised is None else f"{type(raised).__name__}: {raised}")
    return ToolAnswer(result=plain_value(output.raw_output))


def _record_unknown(event: ToolCallResult, ctx: AgentContext) -> None:
    """Record the call of an unknown tool: LlamaIndex answers it before `_call_tool`."""
    output = event.tool_output
    if output.is_error and output.exception is None and output.raw_output is None:
        ctx.record(event.tool_name, event.tool_kwargs, ToolAnswer(error=output.content), ctx.elapsed_ms())


def _reply(output: AgentOutput) -> str | None:
    if output.structured_response is not None:
        return as_text(output.structured_response)
    return as_text(output.response.content)


def _read_usage(event: AgentOutput) -> Usage | None:
    taken, given = get_tokens_from_response(ChatResponse(message=event.response, raw=event.raw))
    return Usage(input_tokens=taken, output_tokens=given) if taken or given else None


def _read_history(messages: Sequence[Message]) -> Iterator[ChatMessage]:
    """The scenario's `system` and `history` as messages of LlamaIndex."""
    for message in messages:
        more = {key: message[key] for key in ("tool_calls", "tool_call_id") if message.get(key)}
        yield ChatMessage(role=message["role"], blocks=_write_blocks(message), additional_kwargs=more)


def _write_message(message: Message) -> str | ChatMessage:
    """The user's message: a text, or blocks if something is attached."""
    blocks = _write_blocks(message)
    return text_of(message) if len(blocks) == 1 else ChatMessage(role="user", blocks=blocks)


def _write_blocks(message: Message) -> list[Any]:
    files = [
        ImageBlock(image=each.content, image_mimetype=each.media_type)
        if each.is_image
        else DocumentBlock(data=each.content, document_mimetype=each.media_type, title=each.name)
        for each in attachments_in(message.get("content"))
    ]
    return [TextBlock(text=text_of(message)), *files]

"""Graphs of LangGraph, and agents of LangChain, which are such graphs."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, convert_to_messages
from langgraph.pregel import Pregel
from langgraph.types import Command

from seatrial.agents.context import AgentContext
from seatrial.agents.replies import parse_json
from seatrial.errors import UsageError
from seatrial.model.conversation import AgentResult, Message

from .as_text import as_text
from .langchain_turn import Identity, LangChainTurn, identity_of


class Adapter:
    """One trial's conversation with a graph: a thread of its own, or the messages so far where it keeps none."""

    def __init__(self, target: Any) -> None:
        if not isinstance(target, Pregel):
            raise UsageError(f"type 'langgraph' needs a compiled graph, got {type(target).__name__}")
        if "messages" not in target.channels:
            raise UsageError("the graph's state has no 'messages', so Seatrial cannot talk to it; use type 'python'")
        self._graph = target
        self.tool_names = frozenset(_tool_names(target)) or None
        self._thread = str(uuid.uuid4())
        self._said: list[BaseMessage] = []
        self._told: set[Identity] = set()
        self._tried: int | None = None
        self._interrupted = False

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentResult:
        turn = LangChainTurn(ctx, told=self._told)
        config: Any = {"configurable": {"thread_id": self._thread}, "callbacks": [turn]}
        state = await self._graph.ainvoke(self._next_input(messages, ctx), config)
        said = list(state["messages"])
        await turn.end(said, is_form=_form_of(state))
        self._said = said
        self._tried = None
        asked = state.get("__interrupt__")
        self._interrupted = bool(asked)
        return AgentResult(as_text(asked[0].value) if asked else _last_text(said), [], turn.usage)

    def _next_input(self, messages: Sequence[Message], ctx: AgentContext) -> Any:
        if self._interrupted:
            return Command(resume=parse_json(ctx.input))
        if not self._graph.checkpointer:
            earlier = self._said or _read(messages[:-1], self._told)
            return {"messages": [*earlier, HumanMessage(ctx.input)]}
        if self._tried == ctx.turn:
            return None  # the thread has the message already: go on where it failed
        self._tried = ctx.turn
        earlier = _read(messages[:-1], self._told) if ctx.turn == 0 else []
        return {"messages": [*earlier, HumanMessage(ctx.input)]}


def _tool_names(graph: Any) -> Iterator[str]:
    """The tools of the graph's tool nodes, those of subgraphs included. Without any, its nodes call tools by hand."""
    for node in graph.nodes.values():
        yield from getattr(node.bound, "tools_by_name", ())
    for _, below in graph.get_subgraphs(recurse=True):
        for node in below.nodes.values():
            yield from getattr(node.bound, "tools_by_name", ())


def _read(messages: Sequence[Message], told: set[Identity]) -> list[BaseMessage]:
    """The scenario's `system` and `history`; the calls in them are not those of the agent on trial."""
    found: list[BaseMessage] = convert_to_messages(messages)
    for message in found:
        if isinstance(message, AIMessage):
            told.update(identity_of(call["id"], call["name"], call["args"]) for call in message.tool_calls)
    return found


def _last_text(messages: Sequence[BaseMessage]) -> str | None:
    return None if not messages or isinstance(messages[-1], HumanMessage) else str(messages[-1].text)


def _form_of(state: Mapping[str, Any]) -> Callable[[str], bool]:
    """An agent with a structured response "calls" its schema; that is its answer, and no tool."""
    answer = state.get("structured_response")
    return lambda name: answer is not None and name == type(answer).__name__

"""Agents and other runnables of LangChain. `create_agent` makes a graph, which runs like one of LangGraph."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import Runnable
from langgraph.pregel import Pregel

from seatrial.agents.context import AgentContext
from seatrial.agents.frameworks import langgraph
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, Message
from seatrial.model.protocols import AgentReply
from seatrial.model.results import TrialError

from .langgraph import LangChainTurn
from .tool_recorder import as_text, decision_in

TEXTS = ("input", "question", "query", "text")
CONVERSATIONS = ("messages", "chat_history", "history")
"""Names of a chain's variables that get the user's text, and those that get the conversation."""


class Adapter:
    """One trial's conversation with an agent, a chain or a chat model."""

    def __init__(self, target: Any, *, context: Any = None, config: Mapping[str, Any] | None = None) -> None:
        if not isinstance(target, Runnable):
            raise UsageError(f"type 'langchain' needs an agent or another runnable, got {type(target).__name__}")
        is_graph = isinstance(target, Pregel)
        if context is not None and not is_graph:
            raise UsageError("only agents of create_agent take a context; give a chain its values in config")
        self._graph: langgraph.Adapter | None = None
        if is_graph:
            self._graph = langgraph.Adapter(target, context=context, config=config, kind="langchain")
        self._config = dict(config or {})
        self.tool_names = None if self._graph is None else self._graph.tool_names
        self._chain: Runnable[Any, Any] = target
        self._variables = set(target.get_input_jsonschema().get("properties", ()))

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentReply:
        if self._graph is not None:
            return await self._graph.run(messages, ctx)
        if decision_in(messages) is not None:
            raise TrialError(ErrorKind.CONFIG, "a chain cannot wait for a person; only agents of create_agent can")
        turn = LangChainTurn(ctx, told=set())
        config: Any = {**self._config, "callbacks": [*(self._config.get("callbacks") or ()), turn]}
        output = await self._chain.ainvoke(self._form(convert_to_messages(messages), ctx), config)
        await turn.end([output] if isinstance(output, BaseMessage) else [])
        return AgentReply(reply=_read(output), tool_calls=(), usage=turn.usage)

    def _form(self, said: list[BaseMessage], ctx: AgentContext) -> Any:
        """The input of the chain: its variables by name, otherwise a list of messages."""
        if not self._variables:
            return said
        texts = {name: ctx.input for name in TEXTS if name in self._variables}
        if texts and ctx.attachments:
            raise TrialError(
                ErrorKind.CONFIG,
                f"the chain takes the user's message as text ({', '.join(texts)}), so it gets no images and files",
                hint=f"give it messages: a variable named {' or '.join(CONVERSATIONS)}, and none for the text",
            )
        earlier = said[:-1] if texts else said
        told = {name: earlier for name in CONVERSATIONS if name in self._variables}
        if not told and len(said) > 1:
            raise TrialError(
                ErrorKind.CONFIG,
                f"the chain takes {sorted(self._variables)}, so it cannot be told what was said before",
                hint=f"give it a variable for that: {' or '.join(CONVERSATIONS)}",
            )
        if not texts and not told:
            raise TrialError(
                ErrorKind.CONFIG,
                f"the chain takes {sorted(self._variables)}, and Seatrial does not know which is the user's text",
                hint=f"name it {' or '.join(TEXTS)}",
            )
        return {**texts, **told}


def _read(output: Any) -> str | None:
    if isinstance(output, BaseMessage):
        return str(output.text)
    if isinstance(output, Mapping) and "output" in output:
        return as_text(output["output"])
    return as_text(output)

"""Graphs of LangGraph, and the recording of tool calls for LangChain and LangGraph.

`BaseTool.run` and `arun` run every tool of LangChain: for tool nodes, nested agents and functions of the user. We
replace them. Callbacks of the models report requested calls and tokens.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, convert_to_messages
from langchain_core.tools import BaseTool, ToolException
from langgraph.errors import GraphBubbleUp
from langgraph.pregel import Pregel
from langgraph.types import Command

from seatrial.agents.chat_messages import parse_json
from seatrial.agents.context import AgentContext, current_trial
from seatrial.errors import ToolError, UsageError
from seatrial.model.conversation import ErrorKind, Message, Usage, total_usage
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentReply, ToolAnswer
from seatrial.model.results import AgentFailure, TrialError
from seatrial.model.scenario import Decision
from seatrial.model.struct import Struct

from .tool_recorder import (
    as_text,
    decide,
    decision_in,
    missing_input,
    noting_failures,
    record_call,
    record_call_blocking,
    replace_method,
    seatrial_answers,
    split_messages,
    waiting_reply,
)

_turn: ContextVar["LangChainTurn | None"] = ContextVar("turn", default=None)


Identity = tuple[str, str, str]
"""A call's id, name and arguments: some models use the same id for several calls."""


class Request(Struct, frozen=True, kw_only=True):
    """A tool call that a model requested."""

    call_id: str
    name: str
    arguments: Any
    at: float
    problem: str | None = None
    """Why the call cannot be made."""

    @property
    def identity(self) -> Identity:
        return identity_of(self.call_id, self.name, self.arguments)


def identity_of(call_id: Any, name: Any, arguments: Any) -> Identity:
    return str(call_id), str(name), json.dumps(arguments, sort_keys=True, default=repr)


class LangChainTurn(BaseCallbackHandler):
    """Collects the calls that models requested in one turn, those that were made, and the tokens."""

    run_inline = True
    raise_error = True

    def __init__(self, ctx: AgentContext, *, told: set[Identity]) -> None:
        """`told`: calls that earlier turns recorded."""
        self.ctx = ctx
        self._told = told
        self._requests: list[Request] = []
        self._made: list[Request] = []
        self._made_by_hand: list[tuple[str, Any]] = []
        self._spent: list[Usage | None] = []
        replace_method(BaseTool, "run", _blocking)
        replace_method(BaseTool, "arun", _awaited)
        _turn.set(self)

    @property
    def usage(self) -> Usage | None:
        return total_usage(self._spent)

    def on_llm_end(self, response: Any, **_: Any) -> None:
        for generation in (each for batch in response.generations for each in batch):
            message = getattr(generation, "message", None)
            if isinstance(message, AIMessage):
                self._requests += self._asked_in(message)
                self._spent.append(_read_usage(message))

    def _asked_in(self, message: AIMessage) -> Iterator[Request]:
        now = self.ctx.elapsed_ms()
        for call in message.tool_calls:
            yield Request(call_id=str(call["id"]), name=call["name"], arguments=call["args"], at=now)
        for broken in message.invalid_tool_calls:
            problem = broken.get("error") or "its arguments are not a JSON object"
            call_id, name = str(broken.get("id")), str(broken.get("name"))
            yield Request(call_id=call_id, name=name, arguments=broken.get("args"), at=now, problem=problem)

    def make(self, tool: BaseTool, tool_input: Any, call_id: str | None) -> Any:
        """The arguments from the model, for a tool that is about to run or to be answered from a mock."""
        request = self._find(tool.name, tool_input, call_id)
        arguments = _own_arguments(tool, tool_input) if request is None else request.arguments
        if request is None:
            self._made_by_hand.append((tool.name, arguments))
        else:
            self._made.append(request)
        return arguments

    def _find(self, name: str, tool_input: Any, call_id: str | None) -> Request | None:
        """The request that a tool runs for; of several with the same id, the one with these arguments."""
        named = [each for each in self._requests if (each.call_id, each.name) == (call_id, name)]
        left = [each for each in named if each not in self._made]
        fitting = [each for each in left if _is_given(each.arguments, tool_input)]
        return next(iter(fitting or left), None)

    async def end(
        self,
        messages: Sequence[BaseMessage],
        *,
        is_form: Callable[[str], bool] = lambda name: False,
        waiting: bool = False,
    ) -> None:
        """Record the calls for which no tool of LangChain ran: unknown tools, or functions that a node calls itself.

        `is_form`: whether a tool is only the schema of the answer. `waiting`: calls wait for a person; the turn in
        which they are decided records them and those beside them. Raises TrialError if a mock was bypassed.
        """
        known = {*self._told, *(each.identity for each in self._requests)}
        for message in messages:
            if isinstance(message, AIMessage):
                self._requests += [each for each in self._asked_in(message) if each.identity not in known]
        answers = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
        if waiting:
            self._requests = [each for each in self._requests if each in self._made or each.call_id in answers]
        for request in self._requests:
            if not self._was_made(request) and not is_form(request.name):
                answer = answers.get(request.call_id)
                by_hand = answer is not None and answer.status != "error"
                if by_hand and self._must_not_run(request.name):
                    await self.ctx.ask(request.name, request.arguments)
                told = _read_answer(request, answer)
                self.ctx.record(request.name, request.arguments, told, request.at, real=by_hand)
        self._told.update(each.identity for each in self._requests)

    def _was_made(self, request: Request) -> bool:
        if request in self._made:
            return True
        by_hand = (request.name, request.arguments)
        if by_hand in self._made_by_hand:
            self._made_by_hand.remove(by_hand)
            return True
        return False

    def _must_not_run(self, name: str) -> bool:
        """Whether a call that the agent answered itself was not allowed. Raises TrialError for a mocked tool."""
        if self.ctx.knows_tool(name):
            raise TrialError(
                ErrorKind.CONFIG,
                f"the tool {name!r} is mocked, but the agent answered its call without running a LangChain tool",
                hint="let the agent run it as a tool (a ToolNode, or tool.invoke), or take the mock out",
            )
        return not self.ctx.lets_tool_run(name) and not name.startswith(_HANDOFFS)


def _read_usage(message: AIMessage) -> Usage | None:
    taken = message.usage_metadata
    return taken and Usage(input_tokens=taken["input_tokens"], output_tokens=taken["output_tokens"])


def _is_given(arguments: Any, tool_input: Any) -> bool:
    """Whether the input of a tool has these arguments; the framework may add others."""
    if not isinstance(arguments, dict) or not isinstance(tool_input, dict):
        return bool(arguments == tool_input)
    return all(name in tool_input and tool_input[name] == value for name, value in arguments.items())


def _own_arguments(tool: BaseTool, tool_input: Any) -> Any:
    """The arguments without those that the framework adds, such as the state of the graph."""
    if isinstance(tool_input, dict):
        return {name: value for name, value in tool_input.items() if name in tool.args}
    return {next(iter(tool.args)): tool_input} if tool.args else tool_input


def _read_answer(request: Request, answer: ToolMessage | None) -> ToolAnswer:
    if request.problem is not None:
        return ToolAnswer(error=request.problem)
    return ToolAnswer(error="not answered") if answer is None else read_output(answer)


def read_output(output: Any) -> ToolAnswer:
    """What a tool returned: a result, or the error that the model sees."""
    if isinstance(output, ToolMessage):
        text = str(output.text)
        return ToolAnswer(error=text) if output.status == "error" else ToolAnswer(result=text)
    if type(output).__name__ == "Command":  # it changes the graph's state, and may hand over to another agent
        return ToolAnswer(result=_read_command(output))
    return ToolAnswer(result=plain_value(output))


def _read_command(command: Any) -> str:
    update = command.update if isinstance(command.update, dict) else {}
    said = [str(message.text) for message in update.get("messages", ()) if isinstance(message, ToolMessage)]
    return "; ".join(said) or f"goes to {command.goto!r}"


_HANDOFFS = ("transfer_to_", "transfer_back_to_", "handoff_to_")


def _is_handoff(tool: BaseTool) -> bool:
    """Whether the tool only hands over to another agent. LangGraph's own packages mark such tools. One of the user has
    a similar name, takes no arguments from the model, and is annotated to return a Command."""
    if "__handoff_destination" in (tool.metadata or {}):
        return True
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    returned = getattr(function, "__annotations__", {}).get("return")
    returns_command = "Command" in (returned if isinstance(returned, str) else getattr(returned, "__name__", ""))
    return tool.name.startswith(_HANDOFFS) and returns_command and not tool.args


class _Call:
    """A call of a tool in a trial, before it is made."""

    def __init__(self, tool: BaseTool, tool_input: Any, call_id: str | None, turn: "LangChainTurn") -> None:
        self._call_id = call_id
        self._name = tool.name
        self.arguments = turn.make(tool, tool_input, call_id)
        self.how = {**_HOW, "control": _is_handoff(tool)}
        self._is_mocked = turn.ctx.knows_tool(tool.name)

    def formed(self, answer: Any) -> Any:
        """The answer in LangChain's form: a message, if a model requested the call."""
        if not self._is_mocked or self._call_id is None:
            return answer
        text = as_text(answer) or ""
        return ToolMessage(text, tool_call_id=self._call_id, name=self._name)

    def failed(self, error: ToolError) -> Any:
        if self._call_id is None:
            raise ToolException(str(error)) from None
        return ToolMessage(str(error), tool_call_id=self._call_id, name=self._name, status="error")


def _awaited(original: Callable[..., Any]) -> Callable[..., Any]:
    async def arun(self: BaseTool, tool_input: Any, *args: Any, **options: Any) -> Any:
        turn = _turn.get()
        if turn is None or current_trial.get() is None:
            return await original(self, tool_input, *args, **options)
        call = _Call(self, tool_input, options.get("tool_call_id"), turn)
        real = partial(original, self, tool_input, *args, **options)
        try:
            return call.formed(await record_call(turn.ctx, self.name, call.arguments, real, **call.how))
        except ToolError as error:
            return call.failed(error)

    return arun


def _blocking(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: BaseTool, tool_input: Any, *args: Any, **options: Any) -> Any:
        turn = _turn.get()
        if turn is None or current_trial.get() is None:
            return original(self, tool_input, *args, **options)
        call = _Call(self, tool_input, options.get("tool_call_id"), turn)
        real = partial(original, self, tool_input, *args, **options)
        try:
            return call.formed(record_call_blocking(turn.ctx, self.name, call.arguments, real, **call.how))
        except ToolError as error:
            return call.failed(error)

    return run


_HOW: dict[str, Any] = {"read": read_output, "unless": GraphBubbleUp}
"""A tool that interrupts the graph to ask a person runs again, and is recorded then."""


class Adapter:
    """One trial with a graph: its own thread, or all messages if the graph has no checkpointer."""

    def __init__(self, target: Any, *, context: Any = None, config: Any = None, kind: str = "langgraph") -> None:
        if not isinstance(target, Pregel):
            raise UsageError(f"type 'langgraph' needs a compiled graph, got {type(target).__name__}")
        if "messages" not in target.channels:
            raise UsageError("the graph's state has no 'messages', so Seatrial cannot talk to it; use type 'python'")
        if config is not None and not isinstance(config, Mapping):
            raise UsageError(f"config must be a mapping, got {type(config).__name__}")
        self._graph = target
        self._kind = kind
        self._context = context
        self._config = dict(config or {})
        self.tool_names = frozenset(_tool_names(target)) or None
        self._thread = str(uuid.uuid4())
        self._said: list[BaseMessage] = []
        self._told: set[Identity] = set()
        self._tried: int | None = None
        self._interrupts: Sequence[Any] = ()
        """The questions that wait for an answer."""

    async def run(self, messages: Sequence[Message], ctx: AgentContext) -> AgentReply:
        turn = LangChainTurn(ctx, told=self._told)
        if self._context is None and self._graph.context_schema is not None:
            schema = getattr(self._graph.context_schema, "__qualname__", "context_schema")
            ctx.missing_input = missing_input("context", f"the agent needs a context of type {schema}", self._kind)
        given = self._next_input(messages, ctx)
        options = {} if self._context is None else {"context": self._context}
        while True:
            with noting_failures(ctx):
                state = await self._graph.ainvoke(given, self._run_config(turn), **options)
            said = list(state["messages"])
            asked = state.get("__interrupt__") or ()
            awaits = tuple(name for interrupt in asked for name in _reviewed(interrupt))
            if ctx.decides or not awaits or not all(seatrial_answers(ctx, name) for name in awaits):
                break
            # Mocked tools need no approval in a scenario without decisions.
            self._interrupts = asked
            given = Command(resume=self._answer(Decision(approve=awaits)))
        await turn.end(said, is_form=_form_of(state), waiting=bool(awaits))
        self._said = said
        self._tried = None
        self._interrupts = asked
        question = waiting_reply(awaits) if awaits else as_text(asked[0].value) if asked else None
        reply = question if asked else _last_text(said)
        return AgentReply(reply=reply, tool_calls=(), usage=turn.usage, awaits=awaits)

    def _run_config(self, turn: LangChainTurn) -> Any:
        """The user's config, with the trial's own thread and callbacks."""
        callbacks = self._config.get("callbacks") or []
        if not isinstance(callbacks, list):
            raise TrialError(ErrorKind.CONFIG, "config.callbacks must be a list")
        configurable = {**(self._config.get("configurable") or {}), "thread_id": self._thread}
        return {**self._config, "configurable": configurable, "callbacks": [*callbacks, turn]}

    def _answer(self, decision: Decision) -> Any:
        """The value that resumes the graph."""
        if decision.resume is not None:
            if not self._interrupts:
                raise AgentFailure("a turn resumes the agent, but it was not interrupted", final=True)
            return decision.resume
        reviewed = [(interrupt, name) for interrupt in self._interrupts for name in _reviewed(interrupt)]
        if self._interrupts and not reviewed:
            raise TrialError(
                ErrorKind.CONFIG,
                f"the agent waits for an answer to {as_text(self._interrupts[0].value)}, not for an approval of calls",
                hint="write the turn as {resume: ...} with the value that the graph expects",
            )
        verdicts = decide([name for _, name in reviewed], decision)
        answers: dict[str, dict[str, Any]] = {}
        for (interrupt, _), approved in zip(reviewed, verdicts, strict=True):
            decisions = answers.setdefault(interrupt.id, {"decisions": []})["decisions"]
            decisions.append({"type": "approve" if approved else "reject"})
        return answers

    def _next_input(self, messages: Sequence[Message], ctx: AgentContext) -> Any:
        decision = decision_in(messages)
        if decision is not None:
            return Command(resume=self._answer(decision))
        if self._interrupts and ctx.attachments:
            raise TrialError(ErrorKind.CONFIG, "the graph asks a question, and its answer cannot have images or files")
        if self._interrupts:
            return Command(resume=parse_json(ctx.input))
        before, latest = split_messages(messages)
        said = [] if latest is None else convert_to_messages([latest])
        if not self._graph.checkpointer:
            return {"messages": [*(self._said or _read(before, self._told)), *said]}
        if self._tried == ctx.turn:
            return None  # the thread has the message already: continue where it failed
        self._tried = ctx.turn
        return {"messages": [*([] if self._said else _read(before, self._told)), *said]}


def _reviewed(interrupt: Any) -> list[str]:
    """The calls that LangChain's human-in-the-loop middleware shows to a person; none for other interrupts."""
    asked = interrupt.value.get("action_requests") if isinstance(interrupt.value, Mapping) else None
    named = [each.get("name") for each in asked if isinstance(each, Mapping)] if isinstance(asked, list) else []
    return [str(name) for name in named]


def _tool_names(graph: Any) -> Iterator[str]:
    """The tools of the graph's tool nodes, including subgraphs. Without any, its own nodes call tools."""
    for node in graph.nodes.values():
        yield from getattr(node.bound, "tools_by_name", ())
    for _, below in graph.get_subgraphs(recurse=True):
        for node in below.nodes.values():
            yield from getattr(node.bound, "tools_by_name", ())


def _read(messages: Sequence[Message], told: set[Identity]) -> list[BaseMessage]:
    """The scenario's `system` and `history`; the calls in them are not the agent's."""
    found: list[BaseMessage] = convert_to_messages(messages)
    for message in found:
        if isinstance(message, AIMessage):
            told.update(identity_of(call["id"], call["name"], call["args"]) for call in message.tool_calls)
    return found


def _last_text(messages: Sequence[BaseMessage]) -> str | None:
    return None if not messages or isinstance(messages[-1], HumanMessage) else str(messages[-1].text)


def _form_of(state: Mapping[str, Any]) -> Callable[[str], bool]:
    """Whether a name is the schema of the structured response: the model "calls" it, but it is no tool."""
    answer = state.get("structured_response")
    return lambda name: answer is not None and name == type(answer).__name__

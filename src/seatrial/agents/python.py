"""Agents of type `python`: functions, objects, classes and factories, adapters of users."""

import asyncio
import inspect
import warnings
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Literal

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.foreign import AGENTS, ForeignCode, ForeignError, LoopBlocked, describe
from seatrial.foreign.worker_process import CLOSE_SECONDS
from seatrial.model.conversation import AgentResult, ErrorKind, Message
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import Agent, AgentReply, AgentSession, TrialStart
from seatrial.model.results import AgentFailure, RepeatTrial, TrialError, agent_timed_out, mock_timed_out
from seatrial.model.struct import Struct

from .chat_messages import latest_user_text, read_calls
from .context import AgentContext, current_trial, late_calls_by_agent, running_agents, wrapped_tools
from .frameworks.registry import framework_of
from .message_parts import latest_attachments
from .return_values import only_new, plain_reply, read_reply
from .sdk_results import join_sdk_pieces

_MEANING = {
    "input": "input",
    "prompt": "input",
    "text": "input",
    "question": "input",
    "query": "input",
    "message": "input",
    "user_input": "input",
    "messages": "messages",
    "history": "messages",
    "conversation": "messages",
    "ctx": "ctx",
}
"""Parameter name -> the attribute of the context that it gets."""


class AgentFunction(Struct, frozen=True, kw_only=True):
    """A function to call, and what each of its parameters gets."""

    function: Callable[..., Any]
    parameters: tuple[tuple[str, str], ...]
    is_async: bool
    streams: bool
    sees_conversation: bool
    """Whether it gets more than the latest message."""


def is_factory(target: Any) -> bool:
    """Whether it makes agents: a class, or a function that needs no argument and has no parameter of an agent."""
    if inspect.isclass(target):
        return True
    if hasattr(target, "run") or not callable(target):
        return False
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(p.default is not p.empty and p.name not in _MEANING for p in parameters)


def require_no_arguments(target: type, name: str) -> None:
    """Refuse a class that needs arguments: each trial makes an object of it."""
    try:
        inspect.signature(target).bind()
    except ValueError:
        return
    except TypeError as problem:
        raise UsageError(
            f"agent {name!r}: the class {target.__qualname__} cannot be made without arguments ({problem}); "
            "give a factory without parameters that makes it"
        ) from None


def find_function(target: Any, name: str) -> AgentFunction:
    """How to call the agent. Raises UsageError when it cannot be called as one."""
    of_class = inspect.isclass(target)
    function = getattr(target, "run", None)
    if not callable(function):
        function = getattr(target, "__call__", None) if of_class else target  # noqa: B004
    if not callable(function) or (of_class and not _defines_call(target)):
        raise UsageError(
            f"agent {name!r}: {_called(target)} is neither callable nor has a run() method; "
            "give a function, an object or class with run(input), or a factory without parameters"
        )
    behind = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    streams = inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(behind)
    parameters = _read_parameters(function, name, skip_self=of_class and _is_bound_later(target))
    return AgentFunction(
        function=function,
        parameters=parameters,
        is_async=streams or inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(behind),
        streams=streams,
        sees_conversation=any(meaning != "input" for _, meaning in parameters),
    )


def _is_bound_later(target: type) -> bool:
    """Whether the class's `run` has a `self` parameter; static and class methods have none."""
    return inspect.isfunction(inspect.getattr_static(target, "run", None) or inspect.getattr_static(target, "__call__"))


def _defines_call(target: type) -> bool:
    return callable(getattr(target, "run", None)) or "__call__" in {k for c in target.__mro__[:-1] for k in vars(c)}


def _read_parameters(function: Callable[..., Any], name: str, *, skip_self: bool) -> tuple[tuple[str, str], ...]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return (("input", "input"),)
    found: list[tuple[str, str]] = []
    for parameter in parameters[1:] if skip_self else parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        meaning = _MEANING.get(parameter.name)
        if meaning is None and parameter.default is parameter.empty:
            if parameter.name == "context":
                raise _unknown_parameter(name, parameter.name, "give it a default of None, or name it ctx")
            raise _unknown_parameter(name, parameter.name, "name it input (latest user text), messages or ctx")
        if meaning is not None:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise _unknown_parameter(name, parameter.name, "parameters are given by name; remove the `/`")
            found.append((parameter.name, meaning))
    if not found:
        raise UsageError(f"agent {name!r}: takes none of input, messages, ctx; give it one of them as a parameter")
    return tuple(found)


def _unknown_parameter(name: str, parameter: str, remedy: str) -> UsageError:
    return UsageError(f"agent {name!r}: cannot fill its parameter {parameter!r}; {remedy}")


def _called(target: Any) -> str:
    return getattr(target, "__qualname__", None) or type(target).__name__


async def call_agent(function: Callable[[], Any], *, timeout: float, code: ForeignCode = AGENTS) -> Any:
    """What the agent's function returns. Raises AgentFailure if it raises, TrialError(limit) if it is too slow."""
    try:
        return await code.call(function, timeout=timeout)
    except TimeoutError:
        raise agent_timed_out(timeout) from None
    except LoopBlocked as blocked:
        raise RepeatTrial(str(blocked)) from None
    except ForeignError as failure:
        raised, text = failure.raised, str(failure)
        if isinstance(raised, TrialError | RepeatTrial):
            raise raised from None
        if isinstance(raised, SystemExit):
            text = f"the agent called sys.exit({'' if raised.code is None else repr(raised.code)})"
        hint = f"raised at {failure.place}" if failure.place else None
        raise AgentFailure(text, hint=hint, traceback=failure.traceback) from None


async def close_agent(close: Callable[[], Any]) -> None:
    """Call the agent's own method to close it; once more if a call that hung blocked the event loop meanwhile."""
    try:
        await call_agent(close, timeout=CLOSE_SECONDS)
    except RepeatTrial:
        await call_agent(close, timeout=CLOSE_SECONDS)


Scope = Literal["trial", "run"]


class CallableAgent:
    """A Python object as the agent. Classes and factories make a new object for each trial."""

    answers_own_tools = True

    def __init__(self, target: Any, *, name: str = "agent", scope: Scope = "trial", all_wrapped: bool = False) -> None:
        """`all_wrapped`: the user promises that it calls all its tools through ctx or `@seatrial.tool`."""
        self.name = name
        self.all_wrapped = all_wrapped
        self._late_calls: list[str] = []
        self._make = target if is_factory(target) else None
        if inspect.isclass(target):
            require_no_arguments(target, name)
        known = self._make is None or inspect.isclass(target)
        function = find_function(target, name) if known else None
        self._on_loop = function is not None and function.is_async
        self.given = None if self._make is not None or function is None else (target, function)
        """The object and its function, if all trials use the same one."""
        self._shared: tuple[Any, AgentFunction] | None = None
        self._sharing = asyncio.Lock()
        self.makes_per_trial = self._make is not None and scope == "trial"
        """Whether each trial makes its own object."""
        self.keeps_conversation = function is None or self._remembers(function)
        self.takes_attachments = function is None or function.sees_conversation
        """The messages have the attachments."""
        self.continues = function is not None and function.sees_conversation
        """Whether it can continue a stored conversation from its messages."""
        self.hides_calls = True
        """Its messages have no tool calls of earlier turns."""
        self.tool_names: frozenset[str] | None = None
        """The agent's tools, if its framework lists them; None: not known."""
        self.takes_decisions = False
        """Whether turns may approve or reject its calls."""

    def open(self, start: TrialStart) -> "CallableSession":
        late_calls_by_agent[id(self)] = self._late_calls
        return CallableSession(self, start)

    def make_context(self, start: TrialStart) -> AgentContext:
        """The `ctx` of a trial."""
        return AgentContext(start, run_loop=asyncio.get_running_loop(), late_calls=self._late_calls)

    async def late_calls(self) -> list[str]:
        """Calls that belong to no trial, one sentence each."""
        return list(self._late_calls)

    async def get_object(self, *, timeout: float) -> tuple[Any, AgentFunction]:
        """The object to call and its function: the one that all trials share, or a new one."""
        if self.makes_per_trial:
            return await self._make_object(timeout=timeout)
        async with self._sharing:
            if self._shared is None:
                self._shared = await self._make_object(timeout=timeout)
            return self._shared

    async def _make_object(self, *, timeout: float) -> tuple[Any, AgentFunction]:
        make = self._make
        assert make is not None

        async def make_on_loop() -> Any:
            return make()

        made = await call_agent(make_on_loop if self._on_loop else make, timeout=timeout)
        if made is None or isinstance(made, str | int | float | list | dict | tuple):
            raise AgentFailure(
                f"{self.name}: a function without parameters is taken as a factory, but it returned "
                f"{type(made).__name__}; give the agent a parameter (input, messages or ctx)",
                final=True,
            )
        kind = framework_of(made)
        if kind is not None:
            raise TrialError(
                ErrorKind.CONFIG,
                f"the function {self.name!r} makes an object of type {kind!r}, and the agent's settings do not say so",
                hint=f"write the agent as {{type: {kind}, target: {self.name}}}",
            )
        try:
            return made, find_function(made, self.name)
        except UsageError as problem:
            raise TrialError(ErrorKind.CONFIG, str(problem)) from None

    def require_memory(self, function: AgentFunction) -> None:
        """Refuse a second turn for a factory's object that cannot know the first one."""
        if not self._remembers(function):
            raise TrialError(
                ErrorKind.CONFIG,
                f"the agent {self.name!r} takes only the latest message (input), and all trials share it, "
                "so it cannot know what was said before",
                hint="let it take messages, or use scope: trial",
            )

    def _remembers(self, function: AgentFunction) -> bool:
        """Whether a second turn can know the first: from the conversation, or in an object of this trial."""
        return self.makes_per_trial or any(meaning in ("messages", "ctx") for _, meaning in function.parameters)

    async def close_object(self, instance: Any) -> None:
        """Call its `aclose` or `close`, if it has one."""
        for name in ("aclose", "close"):
            method = getattr(instance, name, None)
            if callable(method):
                await close_agent(method)
                return

    async def close(self) -> None:
        late_calls_by_agent.pop(id(self), None)
        shared, self._shared = self._shared, None
        self._sharing = asyncio.Lock()
        try:
            if shared is not None:
                await self.close_object(shared[0])
        except TrialError as failure:
            # All trials are stored already, so no trial can have this error.
            warnings.warn(f"closing the agent {self.name!r} failed: {failure}", RuntimeWarning, stacklevel=2)


class CallableSession:
    """One trial's conversation with a Python agent."""

    def __init__(self, agent: CallableAgent, start: TrialStart) -> None:
        self._agent = agent
        self._start = start
        self._object: tuple[Any, AgentFunction] | None = agent.given
        self._ctx: AgentContext | None = None

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        if self._object is None:
            started = perf_counter()
            self._object = await self._agent.get_object(timeout=timeout)
            timeout -= perf_counter() - started
        function = self._object[1]
        if self._start.turn() > 0:
            self._agent.require_memory(function)
        if self._ctx is None:
            self._ctx = self._agent.make_context(self._start)
        ctx = self._ctx
        ctx.input = latest_user_text(messages)
        named = self._start.attachments
        ctx.attachments = latest_attachments(messages) if named is None else named()
        if function.sees_conversation:
            ctx.messages = [plain_value(message) for message in messages]
        running_agents.add(ctx)
        try:
            reply: AgentReply = await call_agent(_prepare_call(function, ctx, messages), timeout=timeout)
        except TrialError as failure:
            if ctx.fatal is not None:
                raise ctx.fatal from None
            if failure.info.kind is ErrorKind.LIMIT and ctx.waits_for is not None:
                raise mock_timed_out(ctx.waits_for) from None
            raise
        finally:
            running_agents.discard(ctx)
            ctx.record_unfinished()
        reply = self._with_evidence(reply, ctx)
        if ctx.is_waiting and not await ctx.settle(timeout=timeout):
            raise mock_timed_out(ctx.waits_for or "")
        if ctx.fatal is not None:
            raise ctx.fatal
        return reply

    @property
    def reachable_tools(self) -> tuple[str, ...] | None:
        """The tools that it can call through Seatrial: all, if it takes ctx; otherwise those with `@tool`."""
        takes_ctx = self._object is not None and any(meaning == "ctx" for _, meaning in self._object[1].parameters)
        return None if takes_ctx else tuple(wrapped_tools)

    def _with_evidence(self, reply: AgentReply, ctx: AgentContext) -> AgentReply:
        """The reply, with the knowledge whether its calls are complete."""
        if ctx.misses_calls:
            ctx.misses_calls = False
            return replace(reply, hides_calls=True)
        if self._agent.all_wrapped:
            return replace(reply, tool_calls=reply.tool_calls or (), hides_calls=False)
        return reply

    async def close(self) -> None:
        if self._ctx is not None:
            self._ctx.closed = True
            self._ctx.record_unfinished()
        if self._object is not None and self._agent.makes_per_trial:
            await self._agent.close_object(self._object[0])


_PLAIN_REPLIES = (str, AgentResult)
"""Types that are neither awaitable nor a stream nor a conversation."""


def _prepare_call(function: AgentFunction, ctx: AgentContext, messages: Sequence[Message]) -> Callable[[], Any]:
    """The call of the agent. It reads the returned value as well: that may run user code, too."""
    call = partial(function.function, **{name: getattr(ctx, meaning) for name, meaning in function.parameters})
    if not function.is_async:
        return partial(_call_sync, call, ctx, messages)

    async def call_async() -> AgentReply:
        value = call()
        return await _read_later(_collect(value) if function.streams else value, ctx, messages)

    return call_async


def _call_sync(call: Callable[[], Any], ctx: AgentContext, messages: Sequence[Message]) -> Any:
    current_trial.set(ctx)
    value = call()
    if type(value) in _PLAIN_REPLIES:
        return read_reply(value)
    if inspect.isasyncgen(value):
        value = _collect(value)
    if inspect.isawaitable(value):
        return _read_later(value, ctx, messages)
    return read_reply(_joined(list(value)) if inspect.isgenerator(value) else only_new(value, messages))


async def _read_later(awaitable: Awaitable[Any], ctx: AgentContext, messages: Sequence[Message]) -> AgentReply:
    current_trial.set(ctx)
    value = await awaitable
    return read_reply(only_new(value, messages))


async def _collect(pieces: AsyncIterable[Any]) -> Any:
    return _joined([piece async for piece in pieces])


def _joined(pieces: list[Any]) -> Any:
    """The text of the pieces, or what the pieces of an SDK's stream say."""
    said = join_sdk_pieces(pieces) if pieces and not isinstance(pieces[0], str) else None
    if said is not None:
        return said
    for piece in pieces:
        if not isinstance(piece, str):
            raise AgentFailure(
                f"the agent yielded {piece!r:.80} ({type(piece).__name__}); yield the pieces of its reply, each a str",
                final=True,
            )
    return "".join(pieces)


_OPTIONAL = (
    *("takes_attachments", "takes_decisions", "continues", "tool_names", "offered_tools", "headers", "api_key", "env"),
)
"""Attributes that an agent may have: what it takes, names of its tools, settings with secrets."""


class CustomAgent:
    """An object of the user that implements the `Agent` protocol. A class is called without arguments."""

    def __init__(self, given: Any) -> None:
        try:
            agent: Any = given() if inspect.isclass(given) else given
        except (Exception, SystemExit) as cause:
            raise UsageError(f"agent {given.__qualname__!r} cannot be made: {describe(cause)}") from None
        self.agent = agent
        self.name = agent.name
        self.answers_own_tools = agent.answers_own_tools
        self.keeps_conversation = agent.keeps_conversation
        for attribute in _OPTIONAL:
            if hasattr(agent, attribute):
                setattr(self, attribute, getattr(agent, attribute))

    def open(self, start: TrialStart) -> AgentSession:
        return _CustomSession(self.agent, start)

    async def close(self) -> None:
        await close_agent(self.agent.close)


class _CustomSession:
    """One trial with such an agent. Its methods are user code, so they run in `foreign`."""

    def __init__(self, agent: Agent, start: TrialStart) -> None:
        self._agent = agent
        self._start = replace(start, record=lambda call: start.record(read_calls([call])[0]))
        self._session: AgentSession | None = None
        self.reachable_tools: tuple[str, ...] | None = ()

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        async def respond() -> AgentReply:
            self._session = session = self._session or self._agent.open(self._start)
            reply: Any = await session.respond([plain_value(message) for message in messages], timeout=timeout)
            if not isinstance(reply, AgentReply):
                found = type(reply).__name__
                raise AgentFailure(f"respond() of the agent must return a seatrial.AgentReply, got {found}", final=True)
            self.reachable_tools = getattr(session, "reachable_tools", ())
            return plain_reply(reply)

        reply: AgentReply = await call_agent(respond, timeout=timeout)
        return reply

    async def close(self) -> None:
        if self._session is not None:
            await close_agent(self._session.close)

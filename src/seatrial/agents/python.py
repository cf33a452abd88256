"""How a Python object is entered as an agent: which function is called, and which of its parameters gets what."""

import asyncio
import inspect
import warnings
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Literal

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.foreign import AGENTS, ForeignCode, ForeignError, LoopBlocked
from seatrial.foreign.worker_process import CLOSE_SECONDS
from seatrial.model.conversation import AgentResult, ErrorKind, Message
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import AgentReply, TrialStart
from seatrial.model.results import AgentFailure, RepeatTrial, TrialError, agent_timed_out, mock_timed_out
from seatrial.model.struct import Struct

from .context import AgentContext, at_work, being_asked, on_trial, wrapped_tools
from .frameworks.registry import framework_of
from .replies import read_reply

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
"""Parameter names and what they are given."""


class Door(Struct, frozen=True, kw_only=True):
    """How one callable is entered: which of its parameters gets what."""

    function: Callable[..., Any]
    parameters: tuple[tuple[str, str], ...]
    is_async: bool
    streams: bool
    sees_conversation: bool
    """Whether it is given more than the latest message."""


def is_factory(target: Any) -> bool:
    """A class, or a function without required parameters and without any that we would fill."""
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
    """A class is made anew per trial, so it must be makeable without arguments."""
    try:
        inspect.signature(target).bind()
    except ValueError:
        return
    except TypeError as problem:
        raise UsageError(
            f"agent {name!r}: the class {target.__qualname__} cannot be made without arguments ({problem}); "
            "give a factory without parameters that makes it"
        ) from None


def find_door(target: Any, name: str) -> Door:
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
    return Door(
        function=function,
        parameters=parameters,
        is_async=streams or inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(behind),
        streams=streams,
        sees_conversation=any(meaning != "input" for _, meaning in parameters),
    )


def _is_bound_later(target: type) -> bool:
    """Whether the class's `run` gets a `self` only from an instance; static and class methods do not."""
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


def only_new(value: Any, said: Sequence[Message]) -> Any:
    """The messages since the user spoke last, where the agent returns the conversation with its own appended.

    It may hold an agent's own system prompt and examples, or be a list that the agent keeps. Calls of earlier turns
    must not count again, so a list in which nobody can tell where this turn begins is refused.
    """
    if not isinstance(value, list):
        return value
    spoken = [place for place, message in enumerate(said) if _is_users(message)]
    if not spoken or not any(map(_is_users, value)):
        return value
    latest = _words(said[spoken[-1]])
    places = [place for place, message in enumerate(value) if _is_users(message) and _words(message) == latest]
    if places:
        new = value[places[-1] + 1 :]
        known = list(said[spoken[-1] + 1 :])
        return new[len(known) :] if new[: len(known)] == known else new
    if len(spoken) == 1:
        return value
    raise AgentFailure(
        f"the agent returned a list with messages of the user, but without the latest one, {latest!r:.200}, "
        "so nobody can tell which of its tool calls are new; return the new messages alone",
        final=True,
    )


def _is_users(message: Any) -> bool:
    """Whether the user says something in it. Anthropic's API has tool results under the user's role as well."""
    return isinstance(message, Mapping) and message.get("role") == "user" and _words(message) is not None


def _words(message: Mapping[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, str):
        return content.strip()
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    words = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "".join(words).strip() if words else None


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
        raise AgentFailure(text, traceback=failure.traceback) from None


async def close_agent(close: Callable[[], Any]) -> None:
    """Call the agent's own method to close it; once more if a call that hung blocked the event loop meanwhile."""
    try:
        await call_agent(close, timeout=CLOSE_SECONDS)
    except RepeatTrial:
        await call_agent(close, timeout=CLOSE_SECONDS)


Scope = Literal["trial", "run"]


class CallableAgent:
    """A Python object as the agent. Classes and factories are made anew for each trial."""

    answers_own_tools = True

    def __init__(self, target: Any, *, name: str = "agent", scope: Scope = "trial", all_wrapped: bool = False) -> None:
        """`all_wrapped`: the user's word that all its tools are called through ctx or `@seatrial.tool`."""
        self.name = name
        self.all_wrapped = all_wrapped
        self._late_calls: list[str] = []
        self._make = target if is_factory(target) else None
        if inspect.isclass(target):
            require_no_arguments(target, name)
        known = self._make is None or inspect.isclass(target)
        door = find_door(target, name) if known else None
        self._on_loop = door is not None and door.is_async
        self.given = None if self._make is not None or door is None else (target, door)
        """Whom all trials talk to, and how, where nothing is made."""
        self._shared: tuple[Any, Door] | None = None
        self._sharing = asyncio.Lock()
        self.makes_anew = self._make is not None and scope == "trial"
        """Whether each trial talks to an object of its own."""
        self.keeps_conversation = door is None or self._remembers(door)
        self.tool_names: frozenset[str] | None = None
        """The tools that the agent has, where its framework tells; None: not known."""

    def open(self, start: TrialStart) -> "CallableSession":
        at_work[id(self)] = self._late_calls
        return CallableSession(self, start)

    def make_context(self, start: TrialStart) -> AgentContext:
        """A trial as the agent sees it."""
        return AgentContext(start, run_loop=asyncio.get_running_loop(), late_calls=self._late_calls)

    async def late_calls(self) -> list[str]:
        """Calls that belong to no trial, one sentence each."""
        return list(self._late_calls)

    async def enter(self, *, timeout: float) -> tuple[Any, Door]:
        """Whom to talk to, and how, where it is made: the one that all share, or a fresh one."""
        if self.makes_anew:
            return await self._made(timeout=timeout)
        async with self._sharing:
            if self._shared is None:
                self._shared = await self._made(timeout=timeout)
            return self._shared

    async def _made(self, *, timeout: float) -> tuple[Any, Door]:
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
            return made, find_door(made, self.name)
        except UsageError as problem:
            raise TrialError(ErrorKind.CONFIG, str(problem)) from None

    def require_memory(self, door: Door) -> None:
        """What a factory makes is not known before: refuse a second turn to one that cannot know the first."""
        if not self._remembers(door):
            raise TrialError(
                ErrorKind.CONFIG,
                f"the agent {self.name!r} takes only the latest message (input), and all trials share it, "
                "so it cannot know what was said before",
                hint="let it take messages, or use scope: trial",
            )

    def _remembers(self, door: Door) -> bool:
        """Whether a second turn can know the first: given the conversation, or kept by an object made for the trial."""
        return self.makes_anew or any(meaning in ("messages", "ctx") for _, meaning in door.parameters)

    async def leave(self, instance: Any) -> None:
        """Close what was made, by its own `aclose` or `close` where it has one."""
        for name in ("aclose", "close"):
            method = getattr(instance, name, None)
            if callable(method):
                await close_agent(method)
                return

    async def close(self) -> None:
        at_work.pop(id(self), None)
        shared, self._shared = self._shared, None
        self._sharing = asyncio.Lock()
        try:
            if shared is not None:
                await self.leave(shared[0])
        except TrialError as failure:
            # The verdicts stand already, and no trial is left to carry this.
            warnings.warn(f"closing the agent {self.name!r} failed: {failure}", RuntimeWarning, stacklevel=2)


class CallableSession:
    """One trial's conversation with a Python agent."""

    def __init__(self, agent: CallableAgent, start: TrialStart) -> None:
        self._agent = agent
        self._start = start
        self._entered: tuple[Any, Door] | None = agent.given
        self._ctx: AgentContext | None = None

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        if self._entered is None:
            started = perf_counter()
            self._entered = await self._agent.enter(timeout=timeout)
            timeout -= perf_counter() - started
        door = self._entered[1]
        if self._start.turn() > 0:
            self._agent.require_memory(door)
        if self._ctx is None:
            self._ctx = self._agent.make_context(self._start)
        ctx = self._ctx
        ctx.input = _latest_user_text(messages)
        if door.sees_conversation:
            ctx.messages = [plain_value(message) for message in messages]
        being_asked.add(ctx)
        try:
            reply: AgentReply = await call_agent(_entering(door, ctx, messages), timeout=timeout)
        except TrialError as failure:
            if ctx.fatal is not None:
                raise ctx.fatal from None
            if failure.info.kind is ErrorKind.LIMIT and ctx.waits_for is not None:
                raise mock_timed_out(ctx.waits_for) from None
            raise
        finally:
            being_asked.discard(ctx)
            ctx.keep_unfinished()
        reply = self._with_evidence(reply, ctx)
        if ctx.is_waiting and not await ctx.settle(timeout=timeout):
            raise mock_timed_out(ctx.waits_for or "")
        if ctx.fatal is not None:
            raise ctx.fatal
        return reply

    @property
    def reachable_tools(self) -> tuple[str, ...] | None:
        """The tools that it can call through us: all, if it takes ctx; else those that are wrapped in this process."""
        takes_ctx = self._entered is not None and any(meaning == "ctx" for _, meaning in self._entered[1].parameters)
        return None if takes_ctx else tuple(wrapped_tools)

    def _with_evidence(self, reply: AgentReply, ctx: AgentContext) -> AgentReply:
        """The reply; of an agent whose tools are all wrapped it is known that it called none but those we saw."""
        if ctx.misses_calls:
            ctx.misses_calls = False
            return replace(reply, hides_calls=True)
        if self._agent.all_wrapped:
            return replace(reply, tool_calls=reply.tool_calls or (), hides_calls=False)
        return reply

    async def close(self) -> None:
        if self._ctx is not None:
            self._ctx.closed = True
            self._ctx.keep_unfinished()
        if self._entered is not None and self._agent.makes_anew:
            await self._agent.leave(self._entered[0])


_PLAIN_REPLIES = (str, AgentResult)
"""What needs no second look: neither awaitable nor a stream nor a conversation."""


def _entering(door: Door, ctx: AgentContext, said: Sequence[Message]) -> Callable[[], Any]:
    """The call as it is made on the agent's side. What it returns is read there, too: that is foreign code as well."""
    arguments = {name: getattr(ctx, meaning) for name, meaning in door.parameters}
    return partial(_enter_async if door.is_async else _enter, door, arguments, ctx, said)


def _enter(door: Door, arguments: Mapping[str, Any], ctx: AgentContext, said: Sequence[Message]) -> Any:
    on_trial.set(ctx)
    value = door.function(**arguments)
    if type(value) in _PLAIN_REPLIES:
        return read_reply(value)
    if inspect.isasyncgen(value):
        value = _collect(value)
    if inspect.isawaitable(value):
        return _read_later(value, ctx, said)
    return read_reply(_joined(list(value)) if inspect.isgenerator(value) else only_new(value, said))


async def _enter_async(door: Door, arguments: Mapping[str, Any], ctx: AgentContext, said: Sequence[Message]) -> Any:
    value = door.function(**arguments)
    return await _read_later(_collect(value) if door.streams else value, ctx, said)


async def _read_later(awaitable: Awaitable[Any], ctx: AgentContext, said: Sequence[Message]) -> AgentReply:
    on_trial.set(ctx)
    value = await awaitable
    return read_reply(only_new(value, said))


async def _collect(pieces: AsyncIterable[Any]) -> str:
    return _joined([piece async for piece in pieces])


def _joined(pieces: list[Any]) -> str:
    for piece in pieces:
        if not isinstance(piece, str):
            raise AgentFailure(
                f"the agent yielded {piece!r:.80} ({type(piece).__name__}); yield the pieces of its reply, each a str",
                final=True,
            )
    return "".join(pieces)


def _latest_user_text(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if message.get("role") == "user":
            content = message.get("content")
            return content if isinstance(content, str) else ""
    return ""

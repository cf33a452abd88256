"""Agents that are Python: a function, an object, a class, a factory."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seatrial.errors import UsageError
from seatrial.vocabulary.conversation import Message
from seatrial.vocabulary.failures import AgentFailure
from seatrial.vocabulary.roles import AgentReply, TrialStart

from .boundary import Boundary
from .context import AgentContext, on_trial
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
"""Parameter names and what they are given; the last word of a user's habit decides nothing else."""

Scope = Literal["trial", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Door:
    """How one callable is entered: which of its parameters gets what."""

    function: Callable[..., Any]
    parameters: tuple[tuple[str, str], ...]
    is_async: bool
    streams: bool


class CallableAgent:
    """A Python object as the agent. Classes and factories are made anew for each trial."""

    answers_own_tools = True

    def __init__(self, target: Any, *, name: str = "agent", scope: Scope = "trial") -> None:
        self.name = name
        self._boundary = Boundary()
        self._make = target if _is_factory(target) else None
        if inspect.isclass(target):
            _require_no_arguments(target, name)
        self._shared_instance = scope == "run" or self._make is None
        self._instance = None if self._make is not None else target
        door = None if self._make is not None and not inspect.isclass(target) else find_door(target, name)
        self._door = door
        self.keeps_conversation = door is None or _remembers(door, fresh=not self._shared_instance)

    def open(self, start: TrialStart) -> "CallableSession":
        return CallableSession(self, start)

    async def instance(self, *, timeout: float) -> Any:
        """The object to talk to: the shared one, or a fresh one."""
        if self._instance is not None:
            return self._instance
        assert self._make is not None
        is_async = inspect.iscoroutinefunction(self._make)
        made = await self._boundary.call(self._make, is_async=is_async, timeout=timeout)
        if made is None or isinstance(made, str | int | float | list | dict | tuple):
            raise AgentFailure(
                f"{self.name}: a function without parameters is taken as a factory, but it returned "
                f"{type(made).__name__}; give the agent a parameter (input, messages or ctx)",
                final=True,
            )
        if self._shared_instance:
            self._instance = made
        return made

    async def call(self, function: Callable[[], Any], *, is_async: bool, timeout: float) -> Any:
        return await self._boundary.call(function, is_async=is_async, timeout=timeout)

    async def close(self) -> None:
        if self._make is not None and self._instance is not None:
            await close_instance(self, self._instance)
        self._boundary.close()

    @property
    def closes_after_trial(self) -> bool:
        return not self._shared_instance


class CallableSession:
    """One trial's conversation with a Python agent."""

    def __init__(self, agent: CallableAgent, start: TrialStart) -> None:
        self._agent = agent
        self._start = start
        self._target: Any = None
        self._door = agent._door
        self._ctx: AgentContext | None = None

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        if self._target is None:
            self._target = await self._agent.instance(timeout=timeout)
            if self._door is None or self._agent.closes_after_trial:
                self._door = find_door(self._target, self._agent.name)
        door = self._door
        assert door is not None
        ctx = self._context(door)
        ctx.messages = [dict(message) for message in messages]
        ctx.input = _latest_user_text(messages)
        value = await self._agent.call(_entering(door, ctx), is_async=door.is_async, timeout=timeout)
        if ctx.fatal is not None:
            raise ctx.fatal
        return read_reply(value)

    def _context(self, door: _Door) -> AgentContext:
        if self._ctx is None:
            self._ctx = AgentContext(self._start, hall=asyncio.get_running_loop(), is_async=door.is_async)
        return self._ctx

    async def close(self) -> None:
        if self._ctx is not None:
            self._ctx.closed = True
        if self._target is not None and self._agent.closes_after_trial:
            await close_instance(self._agent, self._target)


async def close_instance(agent: CallableAgent, instance: Any) -> None:
    """Call the object's own `aclose` or `close`, where it has one."""
    for name in ("aclose", "close"):
        method = getattr(instance, name, None)
        if callable(method):
            await agent.call(method, is_async=inspect.iscoroutinefunction(method), timeout=10.0)
            return


def _entering(door: _Door, ctx: AgentContext) -> Callable[[], Any]:
    values = {"input": ctx.input, "messages": ctx.messages, "ctx": ctx}
    arguments = {name: values[meaning] for name, meaning in door.parameters}
    function = door.function

    def enter() -> Any:
        on_trial.set(ctx)
        value = function(**arguments)
        return _joined(value) if inspect.isgenerator(value) else value

    async def enter_async() -> Any:
        on_trial.set(ctx)
        if door.streams:
            return "".join([part async for part in function(**arguments)])
        return await function(**arguments)

    return enter_async if door.is_async else enter


def _joined(parts: Any) -> str:
    return "".join(parts)


def _is_factory(target: Any) -> bool:
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


def _require_no_arguments(target: type, name: str) -> None:
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


def find_door(target: Any, name: str) -> _Door:
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
    return _Door(
        function=function,
        parameters=_read_parameters(function, name, skip_self=of_class),
        is_async=streams or inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(behind),
        streams=streams,
    )


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


def _remembers(door: _Door, *, fresh: bool) -> bool:
    """Whether a second turn can know the first: given the conversation, or kept by an object made for the trial."""
    return fresh or any(meaning in ("messages", "ctx") for _, meaning in door.parameters)


def _latest_user_text(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if message.get("role") == "user":
            content = message.get("content")
            return content if isinstance(content, str) else ""
    return ""


def _called(target: Any) -> str:
    return getattr(target, "__qualname__", None) or type(target).__name__

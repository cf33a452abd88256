"""What an in-process agent may ask for: `ctx`, and tools that know when they are on trial."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

from seatrial.errors import ToolError
from seatrial.vocabulary.conversation import ErrorKind, Message, ToolCall
from seatrial.vocabulary.failures import TrialError
from seatrial.vocabulary.roles import ToolAnswer, TrialStart

_Function = TypeVar("_Function", bound=Callable[..., Any])

on_trial: ContextVar["AgentContext | None"] = ContextVar("on_trial", default=None)
"""The context of the trial that this code runs in; None outside of trials."""


class AgentContext:
    """One trial as the agent sees it. `call_tool` is awaited by async agents and plainly called by sync ones."""

    def __init__(self, start: TrialStart, *, hall: asyncio.AbstractEventLoop, is_async: bool) -> None:
        self._start = start
        self._hall = hall
        self._is_async = is_async
        self.messages: Sequence[Message] = ()
        self.input = ""
        self.fatal: TrialError | None = None
        """What ends the trial even if the agent swallows the exception."""
        self.closed = False

    @property
    def trial_id(self) -> str:
        return self._start.trial_id

    @property
    def scenario(self) -> str:
        return self._start.scenario

    @property
    def seed(self) -> int:
        return self._start.seed

    @property
    def turn(self) -> int:
        """The index of the turn under way, from 0."""
        return self._start.turn()

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The JSON Schemas of the tools that the scenario names."""
        return self._start.tool_schemas

    def knows_tool(self, name: str) -> bool:
        """Whether a mock answers calls of that name."""
        return self._start.tools.knows(name)

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """The mocked tool's result. Raises ToolError where the mock says so."""
        given = {**(arguments or {}), **more}
        if self._is_async:
            return self._call_async(name, given)
        future = asyncio.run_coroutine_threadsafe(self._answer(name, given), self._hall)
        return _result(future.result())

    async def _call_async(self, name: str, arguments: dict[str, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(self._answer(name, arguments), self._hall)
        return _result(await asyncio.wrap_future(future))

    async def _answer(self, name: str, arguments: dict[str, Any]) -> ToolAnswer:
        if self.closed:
            raise TrialError(ErrorKind.AGENT, f"tool {name!r} was called after the trial had ended")
        started = self._start.elapsed_ms()
        try:
            answer = await self._start.tools.call(name, arguments, turn=self._start.turn())
        except TrialError as error:
            self.fatal = error
            self._record(name, arguments, ToolAnswer(error=str(error)), started)
            raise
        self._record(name, arguments, answer, started)
        return answer

    def _record(self, name: str, arguments: Mapping[str, Any], answer: ToolAnswer, started: float) -> None:
        self._start.record(
            ToolCall(
                name,
                arguments,
                answer.result,
                answer.error,
                None,
                started,
                self._start.elapsed_ms() - started,
            )
        )

    def record(self, name: str, arguments: Mapping[str, Any], answer: ToolAnswer, started: float) -> None:
        """Keep a call that was answered by the real tool."""
        self._record(name, arguments, answer, started)

    def elapsed_ms(self) -> float:
        return self._start.elapsed_ms()


def _result(answer: ToolAnswer) -> Any:
    if answer.error is not None:
        raise ToolError(answer.error)
    return answer.result


def tool(function: _Function) -> _Function:
    """A tool function of your own that can be mocked: inside a trial its calls are recorded and answered from the
    scenario's mocks where there is one; everywhere else it is the function it was."""
    signature = inspect.signature(function)
    name = function.__name__

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            ctx = on_trial.get()
            if ctx is None:
                return await function(*args, **kwargs)
            arguments = _arguments(signature, args, kwargs)
            if ctx.knows_tool(name):
                return await ctx._call_async(name, arguments)
            started = ctx.elapsed_ms()
            try:
                result = await function(*args, **kwargs)
            except Exception as error:
                ctx.record(name, arguments, ToolAnswer(error=f"{type(error).__name__}: {error}"), started)
                raise
            ctx.record(name, arguments, ToolAnswer(result=result), started)
            return result

        return call_async  # type: ignore[return-value]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        ctx = on_trial.get()
        if ctx is None:
            return function(*args, **kwargs)
        arguments = _arguments(signature, args, kwargs)
        if ctx.knows_tool(name):
            return _call_blocking(ctx, name, arguments)
        started = ctx.elapsed_ms()
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            ctx.record(name, arguments, ToolAnswer(error=f"{type(error).__name__}: {error}"), started)
            raise
        ctx.record(name, arguments, ToolAnswer(result=result), started)
        return result

    return call  # type: ignore[return-value]


def _call_blocking(ctx: AgentContext, name: str, arguments: dict[str, Any]) -> Any:
    """From any thread but the runner's: a sync tool blocks the thread that called it, as it would in earnest."""
    return _result(asyncio.run_coroutine_threadsafe(ctx._answer(name, arguments), ctx._hall).result())


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The call's arguments by name, as a model would have given them; `self` and the like are left out."""
    bound = signature.bind(*args, **kwargs)
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        elif name not in ("self", "cls"):
            arguments[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
    return arguments

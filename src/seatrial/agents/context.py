"""What an in-process agent may ask for: `ctx`, and tools that know when they are on trial."""

import asyncio
import functools
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, Self, TypeVar

from seatrial.errors import ToolError
from seatrial.model.conversation import ErrorKind, Message, ToolCall
from seatrial.model.json_values import plain_arguments, plain_value
from seatrial.model.protocols import ToolAnswer, TrialStart
from seatrial.model.results import TrialError

_Function = TypeVar("_Function", bound=Callable[..., Any])

on_trial: ContextVar["AgentContext | None"] = ContextVar("on_trial", default=None)
"""The context of the trial that this code runs in; None outside of trials."""
being_asked: "set[AgentContext]" = set()
"""Trials whose agent is at work, in whichever run of this process: a call without a context may be any of theirs."""
wrapped_tools: "set[str]" = set()
"""The names of all functions of this process that `@tool` wraps."""
at_work: "dict[int, list[str]]" = {}
"""By agent that plays trials in this process: where to note calls that belong to no trial, one sentence each."""
under_way: ContextVar[str | None] = ContextVar("under_way", default=None)
"""The tool whose call a framework's adapter keeps already, so that `@tool` around it does not keep it again."""


class AgentContext:
    """One trial as the agent sees it. `call_tool` is awaited in async code and plainly called in sync code."""

    def __init__(
        self, start: TrialStart, *, run_loop: asyncio.AbstractEventLoop, late_calls: list[str] | None = None
    ) -> None:
        """`late_calls` takes a sentence for each call that is made after the trial, by code of no other trial."""
        self._start = start
        self._run_loop = run_loop
        self._process = os.getpid()
        self._late_calls = [] if late_calls is None else late_calls
        self._in_flight: dict[asyncio.Task[Any], str] = {}
        """Calls that mocks have not answered, with the names of the tools."""
        self._begun: dict[object, tuple[str, Any, float, bool]] = {}
        """Calls that have not ended: name, arguments, when, and whether a real tool runs."""
        self.messages: Sequence[Message] = ()
        self.input = ""
        self.fatal: TrialError | None = None
        """What ends the trial even if the agent swallows the exception."""
        self.closed = False
        self.misses_calls = False
        """A tool was called where nobody knew of a trial, so that the calls of this one may not be all."""

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

    @property
    def mcp_url(self) -> str:
        """Where the scenario's tools are served over MCP, for agents with `mcp: true`."""
        if self._start.mcp_url is None:
            message = "the agent asked for ctx.mcp_url, but its settings do not: no MCP server was started"
            hint = "write the agent as {type: python, target: package.module:attribute, mcp: true}"
            self.fatal = self.fatal or TrialError(ErrorKind.CONFIG, message, hint=hint)
            raise self.fatal
        return self._start.mcp_url

    def knows_tool(self, name: str) -> bool:
        """Whether a mock answers calls of that name."""
        return self._start.tools.knows(name)

    def lets_tool_run(self, name: str) -> bool:
        """Whether the real tool of that name may run; else `call_tool` answers, or ends the trial."""
        return self._start.tools.lets_run(name)

    def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """The mocked tool's result, to be awaited where a loop runs. Raises ToolError where the mock says so."""
        given = {**(arguments or {}), **more}
        return self.ask_blocking(name, given) if _running_loop() is None else self.ask(name, given)

    def ask_blocking(self, name: str, arguments: dict[str, Any]) -> Any:
        """From any thread but the runner's: a sync tool blocks the thread that called it, as it would in earnest."""
        self.require_open(name)
        return _result(asyncio.run_coroutine_threadsafe(self._answer(name, arguments), self._run_loop).result())

    async def ask(self, name: str, arguments: Any) -> Any:
        self.require_open(name)
        future = asyncio.run_coroutine_threadsafe(self._answer(name, arguments), self._run_loop)
        return _result(await asyncio.wrap_future(future))

    def require_open(self, name: str) -> None:
        """Refuse a call for a trial that has ended, and one in a fork of the agent's process."""
        if self.closed:
            raise self._late_call(name)
        if os.getpid() != self._process:
            # No loop runs in a fork, so that a mock would never answer; and what is recorded there is lost.
            message = f"tool {name!r} was called in a fork of the agent's process, which has no part in the trial"
            raise TrialError(ErrorKind.AGENT, message, hint="call tools in the agent's process; a thread will do")

    def _late_call(self, name: str) -> TrialError:
        """The error of a call that is in no transcript, and that counts all the same.

        Where the code that calls runs in another trial, that one is errored; else the run is.
        """
        late = TrialError(
            ErrorKind.AGENT,
            f"tool {name!r} was called for trial {self.trial_id} after it had ended, so the call is in no transcript",
            hint="let the agent wait for its calls before it replies, and keep no ctx from one trial to the next",
        )
        running = on_trial.get()
        if running is not None and not running.closed:
            running.fatal = running.fatal or late
        else:
            self._late_calls.append(str(late))
        return late

    async def _answer(self, name: str, arguments: Any) -> ToolAnswer:
        self.require_open(name)
        # A mock may call the very tool that it stands in for; it means the real one.
        on_trial.set(None)
        task = asyncio.current_task()
        assert task is not None
        self._in_flight[task] = name
        started = self._start.elapsed_ms()
        name, arguments = plain_value(name), plain_arguments(arguments)
        try:
            answer = await self._start.tools.call(name, arguments, turn=self._start.turn())
        except TrialError as error:
            self.fatal = self.fatal or error
            self.record(name, arguments, ToolAnswer(error=str(error)), started)
            raise
        except asyncio.CancelledError:
            self.record(name, arguments, ToolAnswer(error="cancelled by the agent"), started)
            raise
        finally:
            self._in_flight.pop(task, None)
        self.record(name, arguments, answer, started)
        return answer

    @property
    def ctx(self) -> Self:
        return self

    @property
    def is_waiting(self) -> bool:
        """Whether calls are unanswered."""
        return bool(self._in_flight)

    @property
    def waits_for(self) -> str | None:
        """A tool whose mock has not answered yet."""
        return next(iter(self._in_flight.values()), None)

    async def settle(self, *, timeout: float) -> bool:
        """Wait for calls that the agent did not wait for: they were made. False when some are still unanswered."""
        _, pending = await asyncio.wait(list(self._in_flight), timeout=timeout)
        return not pending

    def begin_call(self, name: str, arguments: Any, *, real: bool = True) -> object:
        """A tool of the agent's own is about to run. What is given back names the call to `end_call`."""
        self.require_open(name)
        call = object()
        # As it is at this moment: the tool may change what it is given.
        self._begun[call] = (name, plain_arguments(arguments), self.elapsed_ms(), real)
        return call

    def end_call(self, call: object, answer: ToolAnswer | None) -> None:
        """Keep the call; None: it is none after all. In whichever thread, and once."""
        begun = self._begun.pop(call, None)
        if begun is not None and answer is not None:
            name, arguments, started, real = begun
            self.record(name, arguments, answer, started, real=real)

    def keep_unfinished(self) -> None:
        """Keep the calls of real tools that the agent did not wait for: they were made."""
        for call in list(self._begun):
            self.end_call(call, ToolAnswer(error="not finished when the turn ended"))

    def miss_call(self) -> bool:
        """Somebody called a tool for a trial that may be this one; not so the runner itself."""
        self.misses_calls = self.misses_calls or _running_loop() is not self._run_loop
        return self.misses_calls

    def record(self, name: str, arguments: Any, answer: ToolAnswer, started: float, *, real: bool = False) -> None:
        """Keep a call, as it was at this moment: the agent may go on to change what it gave and got."""
        self._start.record(
            ToolCall(
                plain_value(name),
                plain_arguments(arguments),
                plain_value(answer.result),
                plain_value(answer.error),
                None,
                started,
                self._start.elapsed_ms() - started,
                real,
            )
        )

    def elapsed_ms(self) -> float:
        return self._start.elapsed_ms()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _result(answer: ToolAnswer) -> Any:
    if answer.error is not None:
        raise ToolError(answer.error)
    return answer.result


def tool(function: _Function) -> _Function:
    """A tool function of your own that can be mocked: inside a trial its calls are recorded and answered from the
    scenario's mocks. A tool without a mock runs where `unmocked_tools` is `passthrough`, and else ends the trial.
    Outside of trials it is the function it was.

    A thread that the agent starts by itself does not know that it is on trial, unless it is run in a copy of the
    agent's context, as `asyncio.to_thread` does. After a call from such a thread the tool calls of all trials under way
    count as not recorded."""
    signature = inspect.signature(function)
    name = function.__name__
    wrapped_tools.add(name)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            ctx = on_trial.get()
            if ctx is None:
                _note_missed_call(name)
            if ctx is None or under_way.get() == name:
                return await function(*args, **kwargs)
            with _Recorded(ctx, name, _arguments(signature, args, kwargs)) as call:
                if not call.is_real:
                    return await ctx.ask(name, call.arguments)
                call.result = await function(*args, **kwargs)
                return call.result

        return call_async  # type: ignore[return-value]

    @functools.wraps(function)
    def call_plainly(*args: Any, **kwargs: Any) -> Any:
        ctx = on_trial.get()
        if ctx is None:
            _note_missed_call(name)
        if ctx is None or under_way.get() == name:
            return function(*args, **kwargs)
        with _Recorded(ctx, name, _arguments(signature, args, kwargs)) as call:
            if not call.is_real:
                return ctx.ask_blocking(name, call.arguments)
            call.result = function(*args, **kwargs)
            return call.result

    return call_plainly  # type: ignore[return-value]


def _note_missed_call(name: str) -> None:
    """Tell the trials under way of a call that may be one of theirs: made in a thread that is not ours and was given
    no context. Where no agent is asked, it came after a reply, and the run is told. Hooks and evaluators are called on
    the runner's loop; mocks have a context that says so."""
    thread = threading.current_thread()
    if not at_work or thread is threading.main_thread() or thread.name.startswith("seatrial"):
        return
    if on_trial in copy_context():
        return
    if not being_asked:
        for late_calls in list(at_work.values()):
            late_calls.append(f"tool {name!r} was called in a thread after the agent had replied")
    missing = [ctx for ctx in list(being_asked) if ctx.miss_call()]
    if missing:
        warnings.warn(
            f"the tool {name!r} was called in a thread that does not know its trial, so the tool calls of the trials "
            "under way count as not recorded; run the thread's work by contextvars.copy_context().run",
            RuntimeWarning,
            stacklevel=3,
        )


class _Recorded:
    """Keeps a call of a real tool, however it ends; any other is kept where it is answered."""

    def __init__(self, ctx: AgentContext, name: str, arguments: dict[str, Any]) -> None:
        ctx.require_open(name)
        self._ctx = ctx
        self.arguments = arguments
        self.is_real = ctx.lets_tool_run(name)
        self._call = ctx.begin_call(name, arguments) if self.is_real else None
        self.result: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, _: object) -> None:
        if self._call is not None:
            error = None if kind is None else f"{kind.__name__}: {raised}"
            self._ctx.end_call(self._call, ToolAnswer(result=self.result, error=error))


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

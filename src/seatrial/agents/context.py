"""What a Python agent uses in a trial: `ctx`, and tools wrapped with `@seatrial.tool`."""

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
from seatrial.model.content import Attachment
from seatrial.model.conversation import ErrorKind, Message, ToolCall
from seatrial.model.json_values import plain_arguments, plain_value
from seatrial.model.protocols import ToolAnswer, TrialStart
from seatrial.model.results import TrialError

_Function = TypeVar("_Function", bound=Callable[..., Any])

current_trial: ContextVar["AgentContext | None"] = ContextVar("current_trial", default=None)
"""The trial that this code runs in; None outside of trials."""
running_agents: "set[AgentContext]" = set()
"""Trials of this process whose agent runs now. A call without a context may belong to any of them."""
wrapped_tools: "dict[str, Callable[..., Any]]" = {}
"""The functions in this process that `@tool` wraps, by name."""
late_calls_by_agent: "dict[int, list[str]]" = {}
"""By agent of this process: its calls that belong to no trial, one sentence each."""
recorded_tool: ContextVar[str | None] = ContextVar("recorded_tool", default=None)
"""The tool whose call a framework's adapter records, so that `@tool` does not record it again."""


class AgentContext:
    """One trial as the agent sees it. In async code, `call_tool` must be awaited."""

    def __init__(
        self, start: TrialStart, *, run_loop: asyncio.AbstractEventLoop, late_calls: list[str] | None = None
    ) -> None:
        """`late_calls` gets a sentence for each call after the end of the trial, unless another trial made it."""
        self._start = start
        self._run_loop = run_loop
        self._process = os.getpid()
        self._late_calls = [] if late_calls is None else late_calls
        self._unanswered: dict[asyncio.Task[Any], str] = {}
        """Calls without an answer yet, with the names of the tools."""
        self._begun: dict[object, tuple[str, Any, float, bool]] = {}
        """Calls that have not ended: name, arguments, start, and whether a real tool runs."""
        self.messages: Sequence[Message] = ()
        self.input = ""
        self.attachments: Sequence[Attachment] = ()
        """Images and files of the latest user message."""
        self.fatal: TrialError | None = None
        """Ends the trial even if the agent catches the exception."""
        self.closed = False
        self.misses_calls = False
        """A tool was called outside of any trial, so the calls of this one may be incomplete."""
        self.missing_input: TrialError | None = None
        """The error of an agent that needs an input which its settings do not have, such as `deps`."""

    def note_failure(self, raised: BaseException, *, missing: TrialError | None = None) -> None:
        """End the trial if a tool or prompt failed because an input is missing: that is not the agent's fault.

        `missing`: the error for a tool that looks its input up in a mapping.
        """
        text = str(raised)
        needed = missing or self.missing_input
        looked_up = missing is not None and isinstance(raised, KeyError)
        if needed is not None and (looked_up or text.startswith("'NoneType' object ")):
            info = needed.info
            message = f"{info.message} ({type(raised).__name__}: {text})"
            self.fatal = self.fatal or TrialError(ErrorKind.CONFIG, message, hint=info.hint)

    @property
    def decides(self) -> bool:
        """Whether turns of the scenario approve or reject calls. If none does, a mocked tool needs no approval."""
        return self._start.decides

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
        """The index of the current turn, from 0."""
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
        """The mocked tool's result, or an awaitable of it if an event loop runs. Raises ToolError if the mock does."""
        given = {**(arguments or {}), **more}
        return self.ask_blocking(name, given) if _running_loop() is None else self.ask(name, given)

    def ask_blocking(self, name: str, arguments: dict[str, Any]) -> Any:
        """The result of a mocked tool. Blocks the thread, which must not be that of the run."""
        self.require_open(name)
        return _result(asyncio.run_coroutine_threadsafe(self._answer(name, arguments), self._run_loop).result())

    async def ask(self, name: str, arguments: Any) -> Any:
        self.require_open(name)
        future = asyncio.run_coroutine_threadsafe(self._answer(name, arguments), self._run_loop)
        return _result(await asyncio.wrap_future(future))

    def require_open(self, name: str) -> None:
        """Refuse a call after the end of the trial, or in a fork of the agent's process."""
        if self.closed:
            raise self._late_call(name)
        if os.getpid() != self._process:
            # A fork has no running event loop, so no mock would answer, and its records are lost.
            message = f"tool {name!r} was called in a fork of the agent's process, which has no part in the trial"
            raise TrialError(ErrorKind.AGENT, message, hint="call tools in the agent's process; a thread will do")

    def _late_call(self, name: str) -> TrialError:
        """The error of a call after the end of its trial: it is in no transcript.

        If the calling code runs in another trial, that trial is errored; otherwise the run.
        """
        late = TrialError(
            ErrorKind.AGENT,
            f"tool {name!r} was called for trial {self.trial_id} after it had ended, so the call is in no transcript",
            hint="let the agent wait for its calls before it replies, and keep no ctx from one trial to the next",
        )
        running = current_trial.get()
        if running is not None and not running.closed:
            running.fatal = running.fatal or late
        else:
            self._late_calls.append(str(late))
        return late

    async def _answer(self, name: str, arguments: Any) -> ToolAnswer:
        self.require_open(name)
        # A mock may call the tool that it replaces; it means the real one.
        current_trial.set(None)
        task = asyncio.current_task()
        assert task is not None
        self._unanswered[task] = name
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
            self._unanswered.pop(task, None)
        self.record(name, arguments, answer, started)
        return answer

    @property
    def ctx(self) -> Self:
        return self

    @property
    def is_waiting(self) -> bool:
        """Whether calls have no answer yet."""
        return bool(self._unanswered)

    @property
    def waits_for(self) -> str | None:
        """A tool whose mock has not answered yet; None without one."""
        return next(iter(self._unanswered.values()), None)

    async def settle(self, *, timeout: float) -> bool:
        """Wait for calls that the agent did not wait for. False when some are still unanswered."""
        _, pending = await asyncio.wait(list(self._unanswered), timeout=timeout)
        return not pending

    def begin_call(self, name: str, arguments: Any, *, real: bool = True) -> object:
        """Note that a real tool starts. Returns the key for `end_call`."""
        self.require_open(name)
        call = object()
        # A copy of the arguments: the tool may change them.
        self._begun[call] = (name, plain_arguments(arguments), self.elapsed_ms(), real)
        return call

    def end_call(self, call: object, answer: ToolAnswer | None) -> None:
        """Record the call, once; None: do not record it. Any thread may call this."""
        begun = self._begun.pop(call, None)
        if begun is not None and answer is not None:
            name, arguments, started, real = begun
            self.record(name, arguments, answer, started, real=real)

    def record_unfinished(self) -> None:
        """Record the calls of real tools that the agent did not wait for."""
        for call in list(self._begun):
            self.end_call(call, ToolAnswer(error="not finished when the turn ended"))

    def note_missed_call(self) -> bool:
        """Note a call that may belong to this trial. Calls on the event loop of the run do not."""
        self.misses_calls = self.misses_calls or _running_loop() is not self._run_loop
        return self.misses_calls

    def record(self, name: str, arguments: Any, answer: ToolAnswer, started: float, *, real: bool = False) -> None:
        """Record a call with copies of its values: the agent may change them later."""
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
                answer.changes,
                altered=answer.altered,
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
    """Make a tool function mockable: in a trial its calls are recorded and answered from the scenario's mocks.

    A tool without a mock runs if `unmocked_tools` is `passthrough`, and otherwise ends the trial. Outside of trials it
    is the original function.

    A thread that the agent starts does not belong to the trial unless it runs in a copy of the agent's context, as
    with `asyncio.to_thread`. After a call from another thread the tool calls of all running trials count as not
    recorded."""
    signature = inspect.signature(function)
    name = function.__name__
    wrapped_tools[name] = function

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            ctx = current_trial.get()
            if ctx is None:
                _note_missed_call(name)
            if ctx is None or recorded_tool.get() == name:
                return await function(*args, **kwargs)
            with _Recorded(ctx, name, _arguments(signature, args, kwargs)) as call:
                if not call.is_real:
                    return await ctx.ask(name, call.arguments)
                call.result = await function(*args, **kwargs)
                return call.result

        return call_async  # type: ignore[return-value]

    @functools.wraps(function)
    def call_plainly(*args: Any, **kwargs: Any) -> Any:
        ctx = current_trial.get()
        if ctx is None:
            _note_missed_call(name)
        if ctx is None or recorded_tool.get() == name:
            return function(*args, **kwargs)
        with _Recorded(ctx, name, _arguments(signature, args, kwargs)) as call:
            if not call.is_real:
                return ctx.ask_blocking(name, call.arguments)
            call.result = function(*args, **kwargs)
            return call.result

    return call_plainly  # type: ignore[return-value]


def _note_missed_call(name: str) -> None:
    """Tell the running trials about a call that may be theirs: it was made in a thread of the user without a context.

    If no agent runs, the call came after a reply, and the run is told. Hooks, evaluators and mocks run in threads of
    Seatrial."""
    thread = threading.current_thread()
    if not late_calls_by_agent or thread is threading.main_thread() or thread.name.startswith("seatrial"):
        return
    if current_trial in copy_context():
        return
    if not running_agents:
        for late_calls in list(late_calls_by_agent.values()):
            late_calls.append(f"tool {name!r} was called in a thread after the agent had replied")
    missing = [ctx for ctx in list(running_agents) if ctx.note_missed_call()]
    if missing:
        warnings.warn(
            f"the tool {name!r} was called in a thread that does not know its trial, so the tool calls of all running "
            "trials count as not recorded; run the thread's work by contextvars.copy_context().run",
            RuntimeWarning,
            stacklevel=3,
        )


class _Recorded:
    """Records the call of a real tool, however it ends. Mocked calls are recorded with their answers."""

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
    """The call's arguments by name, without `self` and `cls`."""
    bound = signature.bind(*args, **kwargs)
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        elif name not in ("self", "cls"):
            arguments[name] = list(value) if kind is inspect.Parameter.VAR_POSITIONAL else value
    return arguments

"""Agents that get the scenario's mocked tools from an MCP server: `mcp: true` in the settings of an agent.

Each trial has its own address. Calls to it are answered from the trial's mocks and recorded as the agent's tool calls,
whether they come from the agent's process or from a service behind an HTTP API.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from seatrial.clock import milliseconds
from seatrial.errors import MissingExtra, ToolError
from seatrial.model.conversation import ErrorKind, Message
from seatrial.model.protocols import Agent, AgentReply, AgentSession, ToolAnswer, TrialStart
from seatrial.model.results import TrialError, agent_timed_out, mock_timed_out

from .context import AgentContext

if TYPE_CHECKING:
    from seatrial.mock_server.http_server import HttpServer


class McpAgent:
    """An agent together with an MCP server, which starts with the first trial."""

    answers_own_tools = False

    def __init__(self, inner: Agent) -> None:
        if find_spec("mcp") is None:
            raise MissingExtra("mcp", needed_for=f"'mcp: true' of the agent {inner.name!r}")
        self.inner = inner
        self.name = inner.name
        self.keeps_conversation = inner.keeps_conversation
        self._trials = _Trials()
        self._server: HttpServer | None = None
        self._starting = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        """Settings of the inner agent such as `headers` and `env`: they may hold secrets to redact."""
        return getattr(self.inner, name)

    def open(self, start: TrialStart) -> AgentSession:
        return _McpSession(self, start)

    async def close(self) -> None:
        server, self._server = self._server, None
        self._starting = asyncio.Lock()
        try:
            await self.inner.close()
        finally:
            if server is not None:
                await asyncio.to_thread(server.stop)

    async def add_trial(self, tools: "TrialTools") -> str:
        """The address of a trial's tools."""
        async with self._starting:
            if self._server is None:
                # In a thread: importing the SDK takes a second, and other trials must not wait for it.
                self._server = await asyncio.to_thread(_start_server, self._trials)
        tools.path = secrets.token_urlsafe(12)
        self._trials.by_path[tools.path] = tools
        return self._server.url(tools.path)

    def remove_trial(self, tools: "TrialTools") -> None:
        self._trials.by_path.pop(tools.path, None)


def _start_server(trials: "_Trials") -> "HttpServer":
    from seatrial.mock_server.http_server import HttpServer

    server = HttpServer(trials)
    server.start()
    return server


class _Trials:
    """The running trials, by the paths of their addresses."""

    accepts_sessions = False

    def __init__(self) -> None:
        self.by_path: dict[str, TrialTools] = {}

    def find(self, path: str) -> "TrialTools | None":
        tools = self.by_path.get(path)
        if tools is not None:
            tools.was_used = True
        return tools


class TrialTools:
    """The tools of one trial, reached from the server's thread."""

    def __init__(self, start: TrialStart, ctx: AgentContext) -> None:
        self._start = start
        self.ctx = ctx
        self.path = ""
        self.was_used = False
        """Whether the agent connected to the server; if not, nothing is known about its calls."""
        self._run_loop = asyncio.get_running_loop()
        self._unanswered: set[Future[Any]] = set()

    def offered(self) -> Sequence[Mapping[str, Any]]:
        return self._start.tools.offered()

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        asked = asyncio.run_coroutine_threadsafe(self.ctx.ask(name, arguments), self._run_loop)
        self._unanswered.add(asked)
        try:
            return ToolAnswer(result=await asyncio.wrap_future(asked))
        except ToolError as error:
            return ToolAnswer(error=str(error))
        finally:
            self._unanswered.discard(asked)

    async def settle(self, *, timeout: float) -> bool:
        """Wait for calls that the agent did not wait for. False when some are still unanswered."""
        waiting = asyncio.gather(*map(asyncio.wrap_future, tuple(self._unanswered)), return_exceptions=True)
        done, _ = await asyncio.wait([waiting], timeout=timeout)
        return bool(done)


class _McpSession:
    """One trial with the agent and its tools."""

    reachable_tools = None

    def __init__(self, agent: McpAgent, start: TrialStart) -> None:
        self._agent = agent
        self._start = start
        self._opened: tuple[AgentSession, TrialTools] | None = None

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        began = milliseconds()
        inner, tools = self._opened or await self._open()
        waited = milliseconds() - began
        try:
            reply = await inner.respond(messages, timeout=timeout)
        except TrialError as failure:
            if tools.ctx.fatal is not None:
                raise tools.ctx.fatal from None
            if failure.info.kind is ErrorKind.LIMIT and tools.ctx.waits_for is not None:
                raise mock_timed_out(tools.ctx.waits_for) from None
            raise
        if not await tools.settle(timeout=timeout):
            raise agent_timed_out(timeout)
        if tools.ctx.fatal is not None:
            raise tools.ctx.fatal
        # An agent that connected and called nothing has called nothing. If it never connected, its calls are unknown.
        none_called = reply.tool_calls is None and tools.was_used and not reply.hides_calls
        calls = () if none_called else reply.tool_calls
        return replace(reply, tool_calls=calls, waited_ms=reply.waited_ms + waited)

    async def close(self) -> None:
        if self._opened is None:
            return
        inner, tools = self._opened
        tools.ctx.closed = True
        self._agent.remove_trial(tools)
        await inner.close()

    async def _open(self) -> tuple[AgentSession, TrialTools]:
        tools = TrialTools(self._start, AgentContext(self._start, run_loop=asyncio.get_running_loop()))
        url = await self._agent.add_trial(tools)
        self._opened = (self._agent.inner.open(replace(self._start, mcp_url=url)), tools)
        return self._opened

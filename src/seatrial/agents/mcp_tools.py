"""Agents that find the scenario's mocked tools behind an MCP server: `mcp: true` in the settings of an agent.

Each trial has an address of its own. Calls that arrive there are answered from the trial's mocks and recorded as the
agent's tool calls, whoever makes them: the agent's own process, or a service on the other side of an HTTP API.
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
    """Another agent, with a server beside it. The server is started with the first trial."""

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
        """Settings such as `headers` and `env`, which hold secrets that must be found."""
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

    async def welcome(self, desk: "TrialDesk") -> str:
        """The address of a trial's tools."""
        async with self._starting:
            if self._server is None:
                # In a thread: the SDK takes a second to import, and trials of other agents may be under way.
                self._server = await asyncio.to_thread(_start_server, self._trials)
        place = secrets.token_urlsafe(12)
        desk.place = place
        self._trials.desks[place] = desk
        return self._server.url(place)

    def dismiss(self, desk: "TrialDesk") -> None:
        self._trials.desks.pop(desk.place, None)


def _start_server(trials: "_Trials") -> "HttpServer":
    from seatrial.mock_server.http_server import HttpServer

    server = HttpServer(trials)
    server.start()
    return server


class _Trials:
    """The trials that are under way, by their addresses."""

    gives_sessions = False

    def __init__(self) -> None:
        self.desks: dict[str, TrialDesk] = {}

    def at(self, place: str) -> "TrialDesk | None":
        desk = self.desks.get(place)
        if desk is not None:
            desk.visited = True
        return desk

    def of_session(self, session: str) -> None:
        return None


class TrialDesk:
    """The tools of one trial, reached from the server's thread."""

    def __init__(self, start: TrialStart, ctx: AgentContext) -> None:
        self._start = start
        self.ctx = ctx
        self.place = ""
        self.visited = False
        """Whether the agent has found its way here; else nothing is known about its calls."""
        self._hall = asyncio.get_running_loop()
        self._in_flight: set[Future[Any]] = set()

    def offered(self) -> Sequence[Mapping[str, Any]]:
        return self._start.tools.offered()

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        asked = asyncio.run_coroutine_threadsafe(self.ctx.ask(name, arguments), self._hall)
        self._in_flight.add(asked)
        try:
            return ToolAnswer(result=await asyncio.wrap_future(asked))
        except ToolError as error:
            return ToolAnswer(error=str(error))
        finally:
            self._in_flight.discard(asked)

    async def settle(self, *, timeout: float) -> bool:
        """Wait for calls that the agent did not wait for: they were made. False when some are still unanswered."""
        waiting = asyncio.gather(*map(asyncio.wrap_future, tuple(self._in_flight)), return_exceptions=True)
        done, _ = await asyncio.wait([waiting], timeout=timeout)
        return bool(done)


class _McpSession:
    """A trial with the agent, and the desk that serves it."""

    reachable_tools = None

    def __init__(self, agent: McpAgent, start: TrialStart) -> None:
        self._agent = agent
        self._start = start
        self._opened: tuple[AgentSession, TrialDesk] | None = None

    async def respond(self, messages: Sequence[Message], *, timeout: float) -> AgentReply:
        began = milliseconds()
        inner, desk = self._opened or await self._open()
        waited = milliseconds() - began
        try:
            reply = await inner.respond(messages, timeout=timeout)
        except TrialError as failure:
            if desk.ctx.fatal is not None:
                raise desk.ctx.fatal from None
            if failure.info.kind is ErrorKind.LIMIT and desk.ctx.waits_for is not None:
                raise mock_timed_out(desk.ctx.waits_for) from None
            raise
        if not await desk.settle(timeout=timeout):
            raise agent_timed_out(timeout)
        if desk.ctx.fatal is not None:
            raise desk.ctx.fatal
        # An agent that came and called nothing has called nothing; of one that never came, nothing is known.
        none_called = reply.tool_calls is None and desk.visited and not reply.hides_calls
        calls = () if none_called else reply.tool_calls
        return replace(reply, tool_calls=calls, waited_ms=reply.waited_ms + waited)

    async def close(self) -> None:
        if self._opened is None:
            return
        inner, desk = self._opened
        desk.ctx.closed = True
        self._agent.dismiss(desk)
        await inner.close()

    async def _open(self) -> tuple[AgentSession, TrialDesk]:
        desk = TrialDesk(self._start, AgentContext(self._start, hall=asyncio.get_running_loop()))
        url = await self._agent.welcome(desk)
        self._opened = (self._agent.inner.open(replace(self._start, mcp_url=url)), desk)
        return self._opened

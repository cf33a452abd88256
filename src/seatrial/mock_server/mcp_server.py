"""The MCP server: requests of clients become calls of `ClientTools`, over stdio or over HTTP (http_server.py)."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any, Protocol

from anyio import CancelScope
from mcp import Client
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from seatrial.clock import milliseconds, now
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, ToolCall
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer, ToolBox
from seatrial.model.results import TrialError
from seatrial.version import __version__


class ClientTools(Protocol):
    """The tools of one client, with their own state."""

    def offered(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of the tools: name, description, parameters, output_schema."""
        ...

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        """The answer to a call; arguments that are not a mapping were malformed. Raises TrialError without an answer:
        an unknown tool, a bug in a mock."""
        ...


def make_server(find_tools: Callable[[Any], ClientTools]) -> "Server[Any]":
    """An MCP server. `find_tools` gives the tools for the context of a request."""

    async def list_tools(ctx: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_describe(definition) for definition in find_tools(ctx).offered()])

    async def call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        return await _answer(find_tools(ctx), params)

    async def record_malformed(ctx: Any, call_next: Any) -> Any:
        """The SDK refuses arguments that are not an object, such as JSON text. The call was made, so it is recorded."""
        params = ctx.params or {}
        name, arguments = params.get("name"), params.get("arguments")
        if ctx.method == "tools/call" and isinstance(name, str) and not isinstance(arguments, Mapping | None):
            with suppress(TrialError):
                await find_tools(ctx).call(name, arguments)
        return await call_next(ctx)

    server: Server[Any] = Server("seatrial", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware.append(record_malformed)
    return server


async def _answer(tools: ClientTools, params: CallToolRequestParams) -> CallToolResult:
    """A tool's error is a result that the model sees. A call without an answer is a protocol error."""
    known = {definition["name"] for definition in tools.offered()}
    try:
        return _result(await tools.call(params.name, dict(params.arguments or {})))
    except TrialError as failure:
        code = INTERNAL_ERROR if params.name in known else INVALID_PARAMS
        raise MCPError(code, str(failure)) from None


def _result(answer: ToolAnswer) -> CallToolResult:
    if answer.error is not None:
        return CallToolResult(content=[TextContent(text=answer.error)], is_error=True)
    value = plain_value(answer.result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # Versions of the protocol before 2026-07-28 allow structured content to be an object only.
    structured = json.loads(text) if isinstance(value, Mapping) else None
    return CallToolResult(content=[TextContent(text=text)], structured_content=structured)


def _describe(definition: Mapping[str, Any]) -> Tool:
    output = definition.get("output_schema")
    return Tool(
        name=definition["name"],
        description=definition.get("description"),
        input_schema={"type": "object", **(definition.get("parameters") or {})},
        output_schema=dict(output) if output and output.get("type") == "object" else None,
    )


async def serve_stdio(find_tools: Callable[[], ClientTools]) -> None:
    """Serve until the client closes our stdin. `find_tools` is called when a client asks for tools."""
    server = make_server(lambda ctx: find_tools())
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


async def relay(url: str) -> None:
    """Serve the tools of the MCP server at `url` over stdio. Raises UsageError if no server answers."""
    async with _remote_tools(url, flag="--connect") as tools:
        await serve_stdio(lambda: tools)


async def record_from(url: str) -> tuple[list[ToolCall], dict[str, Any]]:
    """Serve the tools of the MCP server at `url` over stdio until stdin closes: the calls, and the tools' schemas."""
    async with _remote_tools(url, flag="--record-from") as tools:
        recorded = _RecordingTools(tools)
        await serve_stdio(lambda: recorded)
        return recorded.calls, {one["name"]: one["parameters"] for one in tools.offered()}


@asynccontextmanager
async def _remote_tools(url: str, *, flag: str) -> "AsyncIterator[_RemoteTools]":
    client = Client(url)
    try:
        await client.__aenter__()
    except Exception as problem:
        while isinstance(problem, ExceptionGroup):
            problem = problem.exceptions[0]
        reason = f"{type(problem).__name__}: {problem}"
        raise UsageError(f"{flag} {url}: no MCP server answers there: {reason}") from None
    try:
        yield _RemoteTools(client, (await client.list_tools()).tools)
    finally:
        await client.__aexit__(None, None, None)


class _RemoteTools:
    """The tools of another MCP server."""

    def __init__(self, client: Client, tools: Sequence[Any]) -> None:
        self._client = client
        self._definitions = [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
                "output_schema": tool.output_schema,
            }
            for tool in tools
        ]

    def offered(self) -> Sequence[Mapping[str, Any]]:
        return self._definitions

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        try:
            answer = await self._send(name, arguments)
        except MCPError as refused:
            raise TrialError(ErrorKind.TOOL, str(refused)) from None
        text = "\n".join(getattr(part, "text", "") for part in answer.content)
        if answer.is_error:
            return ToolAnswer(error=text)
        return ToolAnswer(result=text if answer.structured_content is None else answer.structured_content)

    async def _send(self, name: str, arguments: Any) -> CallToolResult:
        if isinstance(arguments, Mapping | None):
            return await self._client.call_tool(name, arguments)  # type: ignore[arg-type]
        # The client refuses to send what is not an object. The server refuses it too, but records the call.
        params = CallToolRequestParams.model_construct(name=name, arguments=arguments)
        return await self._client.session.send_request(CallToolRequest(params=params), CallToolResult)


class _RecordingTools:
    """The tools of another MCP server, and the calls that went to it."""

    def __init__(self, tools: _RemoteTools) -> None:
        self._tools = tools
        self.calls: list[ToolCall] = []

    def offered(self) -> Sequence[Mapping[str, Any]]:
        return self._tools.offered()

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        answer = await self._tools.call(name, arguments)
        self.calls.append(ToolCall(name, plain_value(arguments), plain_value(answer.result), answer.error))
        return answer


class CallLog:
    """Calls as JSON lines. Each is flushed before its answer is sent, so no call is lost."""

    def __init__(self, file: str | None, *, scenario: str) -> None:
        self._scenario = scenario
        self._writing = Lock()
        self._stream: IO[str] | None = None
        if file is not None:
            try:
                self._stream = Path(file).open("a", encoding="utf-8")  # noqa: SIM115 - it stays open
            except OSError as error:
                raise UsageError(f"--record {file}: cannot be written: {error.strerror}") from None

    def write(self, session: str, call: ToolCall) -> None:
        if self._stream is None:
            return
        line = {
            "session": session,
            "scenario": self._scenario,
            "at": now().isoformat(timespec="milliseconds"),
            **{key: getattr(call, key) for key in ("name", "arguments", "result", "error", "duration_ms", "altered")},
        }
        with self._writing:
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


class SessionTools:
    """The tools of one client of `seatrial mock-server`, and the calls it made."""

    def __init__(self, session: str, tools: ToolBox, log: CallLog) -> None:
        self.session = session
        self.tools = tools
        self.calls: list[ToolCall] = []
        self.error: TrialError | None = None
        """The first call without an answer: an unknown tool, a bug in a mock."""
        self._log = log
        self._began = milliseconds()

    def offered(self) -> Sequence[Mapping[str, Any]]:
        return self.tools.offered()

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        started = milliseconds()
        try:
            # A client that leaves does not undo what the tool does, so the call is finished and recorded.
            with CancelScope(shield=True):
                answer = await self.tools.call(name, arguments, turn=0)
        except TrialError as failure:
            self.error = self.error or failure
            self._record(name, arguments, ToolAnswer(error=str(failure)), started)
            raise
        self._record(name, arguments, answer, started)
        return answer

    def _record(self, name: str, arguments: Any, answer: ToolAnswer, started: float) -> None:
        call = ToolCall(
            name,
            plain_value(arguments),
            plain_value(answer.result),
            answer.error,
            started_ms=started - self._began,
            duration_ms=milliseconds() - started,
            changes=answer.changes,
            altered=answer.altered,
        )
        self.calls.append(call)
        self._log.write(self.session, call)


class Sessions:
    """All clients of `seatrial mock-server`: one for each path, and one for each session id."""

    accepts_sessions = True

    def __init__(self, open_tools: Callable[[str], ToolBox], log: CallLog) -> None:
        """`open_tools` makes the tools of a session, with their own state."""
        self._open_tools = open_tools
        self._log = log
        self._opening = Lock()
        self.clients: dict[str, SessionTools] = {}

    def find(self, key: str) -> SessionTools:
        """The tools of a path or a session id; made at the first request."""
        with self._opening:
            if key not in self.clients:
                self.clients[key] = SessionTools(key, self._open_tools(key), self._log)
            return self.clients[key]

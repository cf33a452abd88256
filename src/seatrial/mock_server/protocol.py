"""Who answers the calls of a client."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

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

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer
from seatrial.model.results import TrialError
from seatrial.version import __version__


class Desk(Protocol):
    """The tools of one client, with a state of their own."""

    def offered(self) -> Sequence[Mapping[str, Any]]:
        """The definitions of the tools: name, description, parameters, output_schema."""
        ...

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        """Answer a call; arguments that are no mapping came malformed. Raises TrialError where there is no answer: an
        unknown tool, a bug in a mock."""
        ...


class Desks(Protocol):
    """Which desk serves whom."""

    gives_sessions: bool
    """Whether plain `/mcp` is open, too, and gives each client a session with a desk of its own."""

    def at(self, place: str) -> Desk | None:
        """The desk at `/{place}/mcp`; None: there is nothing at that address."""
        ...

    def of_session(self, session: str) -> Desk | None:
        """The desk of the client that was given this session id; None: it has none any more."""
        ...


_ANYTHING: Mapping[str, Any] = {"type": "object"}


def make_server(desk_of: Callable[[Any], Desk]) -> "Server[Any]":
    """An MCP server whose requests are answered by the desk that `desk_of` finds for each."""

    async def list_tools(ctx: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_describe(definition) for definition in desk_of(ctx).offered()])

    async def call_tool(ctx: Any, params: CallToolRequestParams) -> CallToolResult:
        return await _answer(desk_of(ctx), params)

    server: Server[Any] = Server("seatrial", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware.append(_noting_malformed(desk_of))
    return server


def _noting_malformed(desk_of: Callable[[Any], Desk]) -> Any:
    """Calls whose arguments are no object are refused by the SDK; the desk hears of them all the same: they were made.
    (Whoever forgets to parse what the model wrote gives its text.)"""

    async def note(ctx: Any, call_next: Any) -> Any:
        params = ctx.params or {}
        name, arguments = params.get("name"), params.get("arguments")
        if ctx.method == "tools/call" and isinstance(name, str) and not isinstance(arguments, Mapping | None):
            with suppress(TrialError):
                await desk_of(ctx).call(name, arguments)
        return await call_next(ctx)

    return note


async def _answer(desk: Desk, params: CallToolRequestParams) -> CallToolResult:
    """A tool's error is a result that the model sees; a call that has no answer is an error of the protocol."""
    known = {definition["name"] for definition in desk.offered()}
    try:
        answer = await desk.call(params.name, dict(params.arguments or {}))
        return _result(answer)
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
        input_schema={**_ANYTHING, **(definition.get("parameters") or {})},
        output_schema=dict(output) if output and output.get("type") == "object" else None,
    )


async def serve_stdio(find_desk: Callable[[], Desk]) -> None:
    """Serve until the client closes our stdin. `find_desk` is asked only when a client asks for tools."""
    server = make_server(lambda ctx: find_desk())
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


async def relay(url: str) -> None:
    """Serve the tools at the address until the client closes our stdin. Raises UsageError where nobody answers."""
    client = Client(url)
    try:
        await client.__aenter__()
    except Exception as problem:  # whatever a wrong address leads to: it is the user's, and told as such
        raise UsageError(f"--connect {url}: no MCP server answers there: {_root(problem)}") from None
    try:
        desk = _RemoteDesk(client, (await client.list_tools()).tools)
        await serve_stdio(lambda: desk)
    finally:
        await client.__aexit__(None, None, None)


def _root(problem: BaseException) -> str:
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return f"{type(problem).__name__}: {problem}"


class _RemoteDesk:
    """Tools that are somewhere else."""

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

    async def _ask(self, name: str, arguments: Any) -> CallToolResult:
        if isinstance(arguments, Mapping | None):
            return await self._client.call_tool(name, arguments)  # type: ignore[arg-type]
        # The client refuses to send what is no object; the server refuses it too, but notes that the call was made.
        params = CallToolRequestParams.model_construct(name=name, arguments=arguments)
        return await self._client.session.send_request(CallToolRequest(params=params), CallToolResult)

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        try:
            answer = await self._ask(name, arguments)
        except MCPError as refused:
            raise TrialError(ErrorKind.TOOL, str(refused)) from None
        text = "\n".join(getattr(part, "text", "") for part in answer.content)
        if answer.is_error:
            return ToolAnswer(error=text)
        return ToolAnswer(result=text if answer.structured_content is None else answer.structured_content)

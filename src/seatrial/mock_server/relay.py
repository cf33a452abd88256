"""A server over stdin and stdout that passes everything on to another address: for agents that start their servers."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp import Client, MCPError
from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import ToolAnswer
from seatrial.model.trial_errors import TrialError

from .stdio_server import serve_stdio


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

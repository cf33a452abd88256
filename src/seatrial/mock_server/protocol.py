"""What is said over MCP: the list of tools, and the answers to calls, on top of the official SDK."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from seatrial.model.json_values import plain_value
from seatrial.model.protocols import ToolAnswer
from seatrial.model.trial_errors import TrialError
from seatrial.version import __version__

from .desk import Desk

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

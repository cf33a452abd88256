"""Record a real MCP server through `mock-server --record-from`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from seatrial.cli import main
from seatrial.mock_server.http_server import HttpServer
from seatrial.mock_server.mcp_server import CallLog, Sessions
from seatrial.model.scenario import Scenario
from seatrial.scenarios.build import make_tools

pytest.importorskip("mcp")


async def _use(url: str, file: Path) -> list[Any]:
    from mcp import Client, StdioServerParameters

    args = ["-m", "seatrial", "mock-server", "--record-from", url, "--record", str(file)]
    environ = {"API_TOKEN": "very-secret-token-1"}
    async with Client(StdioServerParameters(command=sys.executable, args=args, env=environ)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["count"]
        return [await client.call_tool("count", {"by": 1}) for _ in range(2)]


def test_the_calls_of_an_mcp_server_are_recorded_with_schema_and_without_secrets(tmp_path: Path) -> None:
    mocks = {"count": {"sequence": [{"returns": {"left": 3, "by": "very-secret-token-1"}}, {"raises": "busy"}]}}
    schema = {"type": "object", "properties": {"by": {"type": "integer"}}}
    scenario = Scenario(name="x", input="x", mocks=mocks, tools=[{"name": "count", "parameters": schema}])
    open_tools = make_tools(scenario, None)
    server = HttpServer(Sessions(lambda session: open_tools(session, 0), CallLog(None, scenario="x")))
    server.start()
    file = tmp_path / "calls.yaml"
    try:
        answers = asyncio.run(_use(server.url(), file))
    finally:
        server.stop()
    assert [answer.is_error for answer in answers] == [False, True]
    tool = yaml.safe_load(file.read_text())["tools"]["count"]
    assert tool["schema"] == schema
    assert tool["calls"] == [
        {"args": {"by": 1}, "sequence": [{"returns": {"left": 3, "by": "[redacted]"}}, {"raises": "busy"}]}
    ]


@pytest.mark.parametrize("more", [[], ["--record", "x.yaml", "--check"]])
def test_a_file_and_nothing_else_is_needed(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["mock-server", "--record-from", "http://127.0.0.1:1/mcp", *more])
    assert "--record-from: needs only a file" in capsys.readouterr().err

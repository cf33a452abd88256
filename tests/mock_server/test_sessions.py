"""`seatrial mock-server`: a real MCP server, used by the real client, with a session for each."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters

SUITE = """
suite: {name: shop, agent: "nowhere:agent"}
scenarios:
  - name: take a number
    input: "Next, please."
    mocks:
      draw: {sequence: [{returns: {number: 1}}, {raises: "out of paper"}, {returns: {number: 3}}]}
      lookup:
        when: [{args: {id: A-1}, returns: [1, 2]}]
        fault: rate_limited
      keep: {python: "shop_mocks:keep"}
    tools:
      - name: draw
        description: Draws a number.
        parameters: {type: object, properties: {queue: {type: string}}}
        output_schema: {type: object, required: [number]}
    trajectory: {mode: contains, expected: [{name: draw}], forbidden: [{name: lookup}]}
  - {name: nothing, input: hello}
  - {name: unasked, input: hello, mocks: {draw: {returns: 1}}}
"""
MOCKS = """
def keep(args, ctx):
    ctx.state.setdefault("kept", []).append(args["what"])
    return ctx.state["kept"]
"""


def fill(folder: Path) -> Path:
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "shop_mocks.py").write_text(MOCKS)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill(tmp_path)


def argv(*flags: str, scenario: str = "take a number") -> list[str]:
    return ["-m", "seatrial", "mock-server", "suite.yaml", "--scenario", scenario, *flags]


class Server:
    """A server in a process of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *argv(*flags)],
            cwd=folder,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        found = re.search(r"http://\S+", self.said)
        assert found, self.process.communicate()
        self.url = found[0]

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err

    def end(self) -> None:
        if self.process.poll() is None:
            self.stop()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def start(*flags: str) -> Server:
        started.append(Server(folder, *flags))
        return started[-1]

    yield start
    for server in started:
        server.end()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for many tests: it keeps clients apart, and that is what it is for."""
    server = Server(fill(tmp_path_factory.mktemp("shop")))
    yield server.url
    server.end()


def use(server: Any, work: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    async def connect() -> Any:
        async with Client(server, **options) as client:
            return await work(client)

    return asyncio.run(connect())


async def draw_thrice(client: Client) -> list[Any]:
    answers = [await client.call_tool("draw", {}) for _ in range(3)]
    return [answer.structured_content or (answer.is_error, answer.content[0].text) for answer in answers]


IN_ORDER = [{"number": 1}, (True, "out of paper"), {"number": 3}]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_fifty_sessions_side_by_side_keep_their_state_apart(url: str, mode: str) -> None:
    async def one(number: int) -> Any:
        async with Client(url, mode=mode) as client:
            drawn = await draw_thrice(client)
            kept = [await client.call_tool("keep", {"what": f"{number}{part}"}) for part in "ab"]
            return drawn, json.loads(kept[-1].content[0].text)

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*map(one, range(50)))

    assert asyncio.run(all_at_once()) == [(IN_ORDER, [f"{number}a", f"{number}b"]) for number in range(50)]


def test_clients_without_a_handshake_share_an_address_and_not_another(url: str) -> None:
    base = url.removesuffix("/mcp")

    async def draw(client: Client) -> Any:
        return (await client.call_tool("draw", {})).is_error

    drawn = [use(f"{base}/{name}/mcp", draw, mode="2026-07-28") for name in ("a", "a", "b")]
    assert drawn == [False, True, False]


def test_a_client_that_starts_the_server_talks_over_its_pipes(folder: Path) -> None:
    server = StdioServerParameters(command=sys.executable, args=argv("--transport", "stdio"), cwd=folder)

    assert use(server, draw_thrice) == IN_ORDER


@pytest.mark.parametrize(
    ("flags", "drawn"),
    [
        (["draw=timeout"], [(True, "timeout: the tool did not answer in time"), {"number": 1}, (True, "out of paper")]),
        (["draw=error", "--fault-occurs", "always"], [(True, "500 Internal Server Error: the tool failed")] * 3),
    ],
)
def test_a_tool_fails_once_or_always_in_a_session(folder: Path, flags: list[str], drawn: list[Any]) -> None:
    args = argv("--transport", "stdio", "--fault", *flags)
    server = StdioServerParameters(command=sys.executable, args=args, cwd=folder)

    assert use(server, draw_thrice) == drawn


def check_over_pipes(folder: Path, said: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *argv("--transport", "stdio", "--check", *flags)],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        input=said,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("said", ["", "hello?\n"], ids=["nothing", "nothing that is MCP"])
def test_a_check_over_pipes_to_which_no_client_came_ends_with_exit_code_1(folder: Path, said: str) -> None:
    suite = (folder / "suite.yaml").read_text().replace("expected: [{name: draw}], ", "")
    (folder / "suite.yaml").write_text(suite)

    ended = check_over_pipes(folder, said)

    assert ended.returncode == 1
    assert "no client connected, so nothing was checked" in ended.stderr


def test_a_check_over_pipes_holds_the_client_against_what_is_expected(folder: Path) -> None:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
    say: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "draw", "arguments": {}}},
    ]
    said = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in say)

    ended = check_over_pipes(folder, said)

    assert ended.returncode == 0, ended.stderr
    assert "✓ session stdio: called [draw]" in ended.stderr
    # A call that failed by the fault is no call that the trajectory asks for.
    assert check_over_pipes(folder, said, "--fault", "draw=timeout").returncode == 1


def test_a_check_covers_invariants_about_calls_and_names_the_others(folder: Path) -> None:
    rules = """
  invariants:
    - {name: keep first, never: draw, before: keep}
    - {name: polite, never: {says: {$contains: hurry}}}
"""
    suite = SUITE.replace('suite: {name: shop, agent: "nowhere:agent"}\n', f"suite:\n  name: shop{rules}")
    (folder / "suite.yaml").write_text(suite)
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
    say: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "draw", "arguments": {}}},
    ]

    ended = check_over_pipes(folder, "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in say))

    assert ended.returncode == 1
    assert "keep first: draw({}) in turn 1 without an earlier successful keep" in ended.stderr
    assert "not checked here, where only calls are known: invariant polite" in ended.stderr


WORLD = """
suite: {name: shop, world: {seed: {refunds: []}, tools: shop_tools}}
scenarios:
  - name: take a number
    input: "Refund W1."
    end_state: {as_after: [{refund: {order_id: W1}}]}
"""
TOOLS = """
def refund(state, order_id: str):
    state["refunds"].append(order_id)
    return "paid"
"""


@pytest.mark.parametrize(
    ("orders", "code", "line"),
    [
        (["W1"], 0, "✓ session stdio: called [refund]"),
        (["W2"], 1, "End state differs: refunds[0]: expected 'W1', got 'W2' (changed by refund in turn 1)"),
        ([], 1, "no client connected"),
    ],
)
def test_a_world_is_served_and_its_end_state_is_checked(folder: Path, orders: list[str], code: int, line: str) -> None:
    (folder / "suite.yaml").write_text(WORLD)
    (folder / "shop_tools.py").write_text(TOOLS)
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
    say: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        *(
            {"id": 2, "method": "tools/call", "params": {"name": "refund", "arguments": {"order_id": order}}}
            for order in orders
        ),
    ]

    ended = check_over_pipes(folder, "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in say))

    assert ended.returncode == code, ended.stderr
    assert line in ended.stderr


def test_a_wrong_gold_call_is_said_before_anything_is_served(folder: Path) -> None:
    (folder / "suite.yaml").write_text(WORLD.replace("{refund: {order_id: W1}}", "{refund: {order: W1}}"))
    (folder / "shop_tools.py").write_text(TOOLS)

    done = run(folder, "--check", scenario="take a number")

    assert done.returncode == 2
    assert "the world refuses gold call 1, refund: invalid arguments for 'refund': 'order_id' is missing" in done.stderr


def test_tools_are_listed_as_defined_or_as_derived(url: str) -> None:
    async def tools(client: Client) -> Any:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    found = use(url, tools)

    assert sorted(found) == ["draw", "keep", "lookup"]
    assert found["draw"].description == "Draws a number."
    assert found["draw"].input_schema == {"type": "object", "properties": {"queue": {"type": "string"}}}
    assert found["draw"].output_schema == {"type": "object", "required": ["number"]}
    assert found["lookup"].input_schema == {"type": "object", "properties": {"id": {}}}


def test_what_tools_do_wrong_is_a_result_and_what_has_no_answer_is_not(url: str) -> None:
    async def misuse(client: Client) -> Any:
        said = []
        for name, arguments in (("lookup", {"id": "A-1"}), ("lookup", {"id": "?"}), ("draw", {"queue": 7})):
            answer = await client.call_tool(name, arguments)
            said.append((answer.is_error, answer.content[0].text))
        for name in ("delete_all", "keep"):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name, {})
            said.append((refused.value.code, str(refused.value)))
        return said

    listed, limited, invalid, unknown, bug = use(url, misuse)

    assert listed == (False, "[1, 2]")
    assert limited[0] is True
    assert "429" in limited[1]
    assert invalid == (True, "invalid arguments for 'draw': queue: 7 is not of type 'string'")
    assert unknown == (-32602, "Tool 'delete_all' was called but no mock is defined")
    assert bug[0] == -32603
    assert "KeyError: 'what'" in bug[1]


def test_every_call_is_recorded_before_it_is_answered(serve: Callable[..., Server], folder: Path) -> None:
    server = serve("--record", "calls.jsonl")
    use(server.url, draw_thrice)
    use(server.url, draw_thrice)

    lines = [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]
    assert [(line["name"], line["result"], line["error"]) for line in lines[:2]] == [
        ("draw", {"number": 1}, None),
        ("draw", None, "out of paper"),
    ]
    assert len(lines) == 6
    assert len({line["session"] for line in lines}) == 2
    assert {line["scenario"] for line in lines} == {"take a number"}


def test_sessions_that_do_as_expected_end_with_exit_code_0(serve: Callable[..., Server]) -> None:
    server = serve("--check")
    use(server.url, draw_thrice)
    code, err = server.stop()

    assert code == 0
    assert re.fullmatch(r"✓ session \w+: called \[draw, draw, draw\]\n", err)


def test_a_session_that_does_not_ends_with_exit_code_1_and_why(serve: Callable[..., Server]) -> None:
    async def look_up(client: Client) -> None:
        await client.call_tool("lookup", {"id": "A-1"})

    server = serve("--check")
    use(server.url, draw_thrice)
    use(server.url, look_up)
    code, err = server.stop()

    assert code == 1
    assert "✗ session" in err
    assert "Missing tool calls: draw" in err
    assert "Forbidden tool calls: lookup" in err


def test_nobody_came_is_no_success(serve: Callable[..., Server]) -> None:
    code, err = serve("--check").stop()

    assert (code, err) == (1, "no client connected, so nothing was checked\n")


def test_a_call_without_answer_is_no_success(serve: Callable[..., Server]) -> None:
    async def call_another(client: Client) -> None:
        await client.call_tool("draw", {})
        with pytest.raises(MCPError):
            await client.call_tool("delete_all", {})

    server = serve("--check")
    use(server.url, call_another)
    code, err = server.stop()

    assert code == 1
    assert "ERROR tool: Tool 'delete_all' was called but no mock is defined" in err


@pytest.mark.parametrize(
    ("flags", "scenario", "problem"),
    [
        ([], "take a nap", "there is no such scenario. Choose one of: 'take a number', 'nothing', 'unasked'"),
        ([], "n", "3 scenarios contain it in their name"),
        ([], "nothing", "has no mocks and no world, so there is nothing to serve"),
        (["--check"], "unasked", "has no expectation about all its tool calls"),
        (["--record", "no/such/folder"], "unasked", "--record no/such/folder: cannot be written"),
        (["--port", "TAKEN"], "unasked", "cannot be used: Address already in use. Choose another: --port N"),
    ],
)
def test_a_mistake_is_said_before_anything_is_served(
    folder: Path, flags: list[str], scenario: str, problem: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run(folder, *(flag.replace("TAKEN", port) for flag in flags), scenario=scenario)

    assert done.returncode == 2
    assert problem in done.stderr


def run(folder: Path, *flags: str, scenario: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *argv(*flags, scenario=scenario)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

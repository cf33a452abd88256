"""Agents that speak MCP are tested unchanged: each trial has an address, and calls there are the trial's."""

import asyncio
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

import seatrial
from seatrial import Scenario, ToolError, UsageError
from seatrial.model.run import Status, Trial

COUNT = {"sequence": [{"returns": {"n": 1}}, {"raises": "busy"}, {"returns": {"n": 3}}]}


async def counts_thrice(messages: list[dict[str, Any]], ctx: Any) -> str:
    """An agent with an MCP client, as people write them."""
    from mcp import Client

    async with Client(ctx.mcp_url) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        answers = [await client.call_tool("count", {"by": number}) for number in (1, 2, 3)]
    said = [answer.content[0].text if answer.is_error else str(answer.structured_content["n"]) for answer in answers]
    return f"{names}: {', '.join(said)}"


def play(scenario: Scenario, agent: Any) -> Trial:
    report = seatrial.run(scenario, agent=agent, store=None)
    (outcome,) = report.record.outcome.scenarios
    return next(iter(report.record.trials(outcome.entry.key)))


def in_python(function: Any) -> dict[str, Any]:
    return {"type": "python", "target": function, "mcp": True}


def counting(**more: Any) -> Scenario:
    return Scenario(name="count", input="Count.", mocks={"count": COUNT}, **more)


def test_calls_over_mcp_are_the_trials_calls_with_their_answers() -> None:
    trial = play(counting(expected_tools=["count"]), in_python(counts_thrice))

    assert (trial.status, trial.transcript.reply) == (Status.PASSED, "['count']: 1, busy, 3")
    assert [(call.arguments, call.result, call.error) for call in trial.transcript.tool_calls or ()] == [
        ({"by": 1}, {"n": 1}, None),
        ({"by": 2}, None, "busy"),
        ({"by": 3}, {"n": 3}, None),
    ]


def test_a_plain_function_calls_over_mcp_as_well() -> None:
    def agent(messages: list[dict[str, Any]], ctx: Any) -> str:
        return asyncio.run(counts_thrice(messages, ctx))

    trial = play(counting(expected_tools=["count"]), in_python(agent))

    assert (trial.status, trial.transcript.reply) == (Status.PASSED, "['count']: 1, busy, 3")


def test_parallel_trials_keep_their_state_apart() -> None:
    report = seatrial.run(counting(trials=12), agent=in_python(counts_thrice), store=None, concurrency=12)

    (outcome,) = report.record.outcome.scenarios
    replies = {trial.transcript.reply for trial in report.record.trials(outcome.entry.key)}
    assert replies == {"['count']: 1, busy, 3"}


def test_an_agent_that_came_and_called_nothing_has_called_nothing() -> None:
    async def only_looks(messages: list[dict[str, Any]], ctx: Any) -> str:
        from mcp import Client

        async with Client(ctx.mcp_url) as client:
            await client.list_tools()
        return "I looked."

    scenario = counting(expect={"tool_calls_exclude": ["count"]})
    assert play(scenario, in_python(only_looks)).status is Status.PASSED


def test_an_agent_that_never_came_gives_no_evidence_about_tools() -> None:
    scenario = counting(expect={"tool_calls_exclude": ["count"]})

    trial = play(scenario, in_python(lambda messages, ctx: "no idea"))

    assert trial.status is Status.ERRORED
    assert trial.error is not None
    assert "tool calls were not recorded" in trial.error.message


def test_a_tool_without_mock_is_a_protocol_error_and_ends_the_trial() -> None:
    seen = []

    async def calls_another(messages: list[dict[str, Any]], ctx: Any) -> str:
        from mcp import Client, MCPError

        async with Client(ctx.mcp_url) as client:
            try:
                await client.call_tool("send_email", {"to": "a"})
            except MCPError as error:
                seen.append(error.code)
        return "sent"

    trial = play(counting(), in_python(calls_another))

    assert seen == [-32602]
    assert trial.error is not None
    assert trial.error.kind == "tool"
    assert trial.error.message == "Tool 'send_email' was called but no mock is defined"


def test_arguments_are_held_against_the_schema() -> None:
    async def calls_wrongly(messages: list[dict[str, Any]], ctx: Any) -> str:
        from mcp import Client

        async with Client(ctx.mcp_url) as client:
            (tool,) = (await client.list_tools()).tools
            answer = await client.call_tool("refund", {"amount": "ten"})
        return f"{tool.input_schema['required']} {answer.is_error} {answer.content[0].text}"

    schema = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
    scenario = Scenario(
        name="refund",
        input="Refund.",
        mocks={"refund": {"returns": {"receipt": 1}}},
        tools=[{"name": "refund", "parameters": schema}],
    )
    reply = play(scenario, in_python(calls_wrongly)).transcript.reply

    assert reply == "['amount'] True invalid arguments for 'refund': amount: 'ten' is not of type 'number'"


@pytest.mark.parametrize(
    ("arguments", "recorded"), [('{"by": 1}', {"by": 1}), ("by 1", "by 1"), ([1], [1])], ids=["JSON", "text", "list"]
)
def test_a_call_with_arguments_that_are_no_object_is_refused_and_recorded(arguments: Any, recorded: Any) -> None:
    def post(url: str, method: str, session: str | None = None, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        return httpx2.post(url, json=message, headers=headers | ({"mcp-session-id": session} if session else {}))

    def forgets_to_parse(messages: list[dict[str, Any]], ctx: Any) -> str:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        session = post(ctx.mcp_url, "initialize", **about).headers["mcp-session-id"]
        answer = post(ctx.mcp_url, "tools/call", session, name="count", arguments=arguments).json()
        return f"Refused: {answer['error']['message']}"

    trial = play(counting(expect={"tool_calls_exclude": ["count"]}), in_python(forgets_to_parse))

    assert "Refused: Invalid" in trial.transcript.reply
    assert trial.status is Status.FAILED
    assert [(call.name, call.arguments) for call in trial.transcript.tool_calls or ()] == [("count", recorded)]


def test_python_mocks_share_the_state_of_the_trial() -> None:
    def put(args: dict[str, Any], ctx: Any) -> str:
        """Puts something into the box."""
        if not args:
            raise ToolError("put what?")
        ctx.state["box"] = args
        return "ok"

    async def puts(messages: list[dict[str, Any]], ctx: Any) -> str:
        from mcp import Client

        async with Client(ctx.mcp_url) as client:
            (tool,) = (await client.list_tools()).tools
            await client.call_tool("put", {"what": "ring"})
        return str(tool.description)

    trial = play(
        Scenario(name="box", input="Put.", mocks={"put": put}, expected_state={"box": {"what": "ring"}}),
        in_python(puts),
    )

    assert (trial.status, trial.transcript.reply) == (Status.PASSED, "Puts something into the box.")


def test_an_address_without_the_setting_says_what_to_write() -> None:
    def asks(messages: list[dict[str, Any]], ctx: Any) -> str:
        return str(ctx.mcp_url)

    trial = play(counting(), asks)

    assert trial.error is not None
    assert trial.error.kind == "config"
    assert "mcp: true" in (trial.error.hint or "")


AGENT = """
    import asyncio, json, os, sys
    from mcp import Client

    async def count(url):
        async with Client(url) as client:
            return [(await client.call_tool("count", {})).structured_content for _ in range(1)]

    def answer(input, ctx=None):
        url = ctx.mcp_url if ctx else os.environ["MY_TOOLS"]
        return json.dumps(asyncio.run(count(url)))

    if __name__ == "__main__":
        assert os.environ["SEATRIAL_MCP_URL"] == os.environ["MY_TOOLS"] == sys.argv[1].partition("=")[2]
        for line in sys.stdin:
            print(json.dumps({"type": "reply", "content": answer("")}), flush=True)
"""


def test_a_program_is_told_the_address_by_arguments_and_environment(tmp_path: Path) -> None:
    file = tmp_path / "agent.py"
    file.write_text(textwrap.dedent(AGENT))
    spec = {
        "type": "command",
        "argv": [sys.executable, str(file), "--tools={{mcp_url}}"],
        "env": {"MY_TOOLS": "{{ mcp_url }}"},
        "mcp": True,
    }
    trial = play(counting(expected_tools=["count"]), spec)

    assert (trial.status, trial.transcript.reply) == (Status.PASSED, '[{"n": 1}]')


def test_an_agent_in_a_process_of_its_own_is_told_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "isolated_mcp_agent.py").write_text(textwrap.dedent(AGENT))
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = {"type": "python", "target": "isolated_mcp_agent:answer", "mcp": True}
    report = seatrial.run(counting(expected_tools=["count"]), agent=spec, store=None, isolation="process")

    assert report.passed, report.failure_reasons


@pytest.fixture
def service() -> Iterator[str]:
    """A chat service that uses whatever MCP server it is told of."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            import asyncio

            from mcp import Client

            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))

            async def count() -> str:
                async with Client(asked["tools"]) as client:
                    answer = await client.call_tool("count", {"by": asked["question"]})
                return str(answer.structured_content["n"])

            body = json.dumps({"output": asyncio.run(count())}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_service_behind_http_is_told_the_address_in_the_body(service: str) -> None:
    spec = {"type": "http", "url": service, "body": {"question": "{{input}}", "tools": "{{mcp_url}}"}, "mcp": True}
    trial = play(counting(expected_tool_args={"count": {"by": "Count."}}), spec)

    assert (trial.status, trial.transcript.reply) == (Status.PASSED, "1")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"type": "http", "url": "http://x", "mcp": True}, "put {{mcp_url}} into the body"),
        ({"type": "http", "url": "http://x", "body": ["{{input}}", "{{mcp_url}}"]}, "only with 'mcp: true' beside it"),
        ({"type": "command", "argv": ["x", "{{mcp_url}}"]}, "only with 'mcp: true' beside it"),
        ({"type": "command", "argv": ["x"], "mcp": "yes"}, "mcp: expected true or false, got 'yes'"),
        ({"type": "openai", "base_url": "http://x", "mcp": True}, "unknown key 'mcp'"),
    ],
)
def test_a_setting_without_effect_is_refused(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem.replace("{", r"\{")):
        seatrial.run(counting(), agent=spec, store=None)


async def starts_its_server(messages: list[dict[str, Any]], ctx: Any) -> str:
    """An agent that knows servers as programs only."""
    from mcp import Client, MCPError, StdioServerParameters

    args = ["-m", "seatrial", "mock-server", "--connect", ctx.mcp_url]
    async with Client(StdioServerParameters(command=sys.executable, args=args)) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        answers = [await client.call_tool("count", {"by": number}) for number in (1, 2)]
        with pytest.raises(MCPError):
            await client.call_tool("send_email", {})
    return f"{names} {answers[0].structured_content} {answers[1].is_error} {answers[1].content[0].text}"


def test_an_agent_that_starts_its_servers_reaches_the_trial_through_a_relay() -> None:
    trial = play(counting(), in_python(starts_its_server))
    calls = trial.transcript.tool_calls or ()

    assert [(call.name, call.arguments, call.error) for call in calls] == [
        ("count", {"by": 1}, None),
        ("count", {"by": 2}, "busy"),
        ("send_email", {}, "Tool 'send_email' was called but no mock is defined"),
    ]
    assert trial.error is not None
    assert trial.error.message == "Tool 'send_email' was called but no mock is defined"


def test_a_call_with_arguments_that_are_no_object_is_recorded_through_a_relay_as_well() -> None:
    def forgets_to_parse(messages: list[dict[str, Any]], ctx: Any) -> str:
        argv = [sys.executable, "-m", "seatrial", "mock-server", "--connect", ctx.mcp_url]
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        asked = [("initialize", about), ("tools/call", {"name": "count", "arguments": '{"by": 1}'})]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as relay:
            assert relay.stdin is not None
            assert relay.stdout is not None
            for number, (method, params) in enumerate(asked):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                print(json.dumps(message), file=relay.stdin, flush=True)
                answer = json.loads(relay.stdout.readline())
            relay.stdin.close()
        return f"Refused: {answer['error']['message']}"

    trial = play(counting(expect={"tool_calls_exclude": ["count"]}), in_python(forgets_to_parse))

    assert trial.status is Status.FAILED
    assert [(call.name, call.arguments) for call in trial.transcript.tool_calls or ()] == [("count", {"by": 1})]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--connect", "http://127.0.0.1:1/mcp"], "--connect http://127.0.0.1:1/mcp: no MCP server answers there"),
        (["--connect", "http://127.0.0.1:1/mcp", "--check"], "Leave out all other options"),
        ([], "give a suite file and a scenario"),
    ],
)
def test_a_relay_to_nowhere_says_so(flags: list[str], problem: str) -> None:
    argv = [sys.executable, "-m", "seatrial", "mock-server", *flags]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)

    assert done.returncode == 2
    assert problem in done.stderr


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises(UsageError, match=r"pip install 'seatrial\[mcp\]'"):
        seatrial.run(counting(), agent=in_python(counts_thrice), store=None)

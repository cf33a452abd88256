"""`seatrial mock-server`: the mocked tools of a scenario as an MCP server, with checks of the calls."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from seatrial import foreign
from seatrial.errors import MissingExtra, UsageError
from seatrial.evaluators.end_state import EndState
from seatrial.evaluators.limits import Limits
from seatrial.evaluators.tool_calls import ToolArgs, ToolCalls
from seatrial.model.conversation import PlayedTurn, StopReason, Transcript
from seatrial.model.protocols import Evaluator, ToolBox, TrialContext
from seatrial.model.results import EvalResult, TrialError
from seatrial.model.scenario import Expect, Scenario
from seatrial.reports.terminal import safe_text
from seatrial.reports.texts import counted
from seatrial.runs.attack import SessionAttacks
from seatrial.runs.faults import alter_tools, count_successful, read_session_faults
from seatrial.runs.gold_calls import check_gold_calls
from seatrial.scenarios.build import make_tools
from seatrial.scenarios.load import load
from seatrial.scenarios.worlds import world_of
from seatrial.tools.world import PreparedWorld

if TYPE_CHECKING:
    from seatrial.mock_server.mcp_server import Sessions, SessionTools


def tool_evaluators(scenario: Scenario) -> list[Evaluator]:
    """Evaluators of calls and state over a whole session. Turns and replies are not known here."""
    found: list[Evaluator] = []
    if scenario.trajectory is not None:
        found.append(scenario.trajectory)
    if scenario.expected_tools:
        found.append(ToolCalls(must_include=tuple(scenario.expected_tools)))
    for tool, args in (scenario.expected_tool_args or {}).items():
        found.append(ToolArgs(tool, args, calls="first"))
    if scenario.expect is not None:
        found += _of_expect(scenario.expect)
    if scenario.expected_state is not None:
        found.append(EndState(contains=scenario.expected_state))
    if scenario.end_state is not None:
        found.append(scenario.end_state)
    if scenario.limits is not None and scenario.limits.tool_calls is not None:
        found.append(Limits(tool_calls=scenario.limits.tool_calls))
    found += [rule for rule in scenario.invariants if rule.is_about_calls_only]
    return found


def _of_expect(expect: Expect) -> list[Evaluator]:
    found: list[Evaluator] = []
    if expect.tool_calls_include or expect.tool_calls_exclude:
        found.append(
            ToolCalls(
                must_include=expect.tool_calls_include,
                must_exclude=expect.tool_calls_exclude,
                ordered=expect.tool_calls_ordered,
            )
        )
    for entry in expect.tool_calls_args:
        if entry.args is not None:
            found.append(replace(entry, judge=None))
    return found


async def check_session(
    tools: "SessionTools", scenario: Scenario, evaluators: Sequence[Evaluator], world: PreparedWorld | None = None
) -> list[EvalResult]:
    """The results of the evaluators for one session. Raises TrialError if the world was changed outside of calls."""
    record = tools.tools.record_world()
    turn = PlayedTurn(index=0, user="", reply=None, tool_calls=tuple(tools.calls))
    state = tools.tools.state or None
    transcript = Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED, state=state, world=record)
    view = None if world is None or record is None else await world.view(record)
    ctx = TrialContext(transcript=transcript, scenario=scenario, world=view)
    return [await evaluator.evaluate(ctx) for evaluator in evaluators]


@click.command("mock-server")
@click.argument("suite", required=False)
@click.option("--scenario", "name", metavar="NAME", help="Scenario whose mocked tools and world are served.")
@click.option(
    "--transport", type=click.Choice(["http", "stdio"]), default="http", show_default=True, help="MCP transport."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="With http: the port. Default: a free one.")
@click.option("--record", metavar="FILE", help="Append every call to FILE as a JSON line.")
@click.option("--check", is_flag=True, help="At the end, check each session against the scenario's tool expectations.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="TOOL=FAULT",
    help="Let a tool fail in each session, such as search=timeout. Repeatable.",
)
@click.option(
    "--fault-occurs",
    "occurs",
    type=click.Choice(["once", "always"]),
    help="With --fault: whether a tool fails in the first call of a session, or in all (once).",
)
@click.option(
    "--attack",
    "family",
    metavar="FAMILY",
    help="Put payloads of this family into answers, as the scenario's `attacks:` say: one in each session.",
)
@click.option(
    "--connect", metavar="URL", help="Serve the tools of a running trial on stdin and stdout: its {{mcp_url}}."
)
@click.option(
    "--record-from",
    metavar="URL",
    help="Serve a real MCP server on stdin and stdout, and record its calls in --record FILE, for `mocks_from`.",
)
def command(
    suite: str | None,
    name: str | None,
    transport: str,
    port: int,
    record: str | None,
    check: bool,
    **more: Any,
) -> int:
    """Serve the mocked tools of a scenario of SUITE as an MCP server, until Ctrl-C or until stdin closes.

    Each client has its own session, with its own sequences, faults and state. To record calls in trials, run the agent
    with `mcp: true` in its settings instead.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", needed_for="seatrial mock-server")
    connect, record_from, faults = more["connect"], more["record_from"], more["faults"]
    if record_from is not None:
        return _record_from(record_from, record, suite or name or check or port or connect or faults or more["family"])
    if connect is not None:
        return _relay(connect, suite or name or record or check or port or faults or more["family"])
    if more["occurs"] is not None and not faults:
        raise UsageError("--fault-occurs: needs --fault TOOL=FAULT")
    if suite is None or name is None:
        raise UsageError("give a suite file and a scenario: seatrial mock-server SUITE --scenario NAME")
    scenario = _find(suite, name)
    world = world_of(scenario)
    attacks = None if more["family"] is None else SessionAttacks(scenario, more["family"])
    evaluators = _evaluators(scenario, attacks) if check else []
    if check:
        check_gold_calls([(scenario, world)])
    from seatrial.mock_server.mcp_server import CallLog, Sessions

    open_tools = make_tools(scenario, world)
    choices = read_session_faults(faults, open_tools("", 0)) if faults else ()
    evaluators = count_successful(evaluators, choices, scenario)
    once = more["occurs"] != "always"
    log = CallLog(record, scenario=scenario.name)

    def open_session(session: str) -> ToolBox:
        tools = alter_tools(open_tools(session, 0), choices, scenario, world, once=once)
        return tools if attacks is None else attacks.open(session, tools)

    sessions = Sessions(open_session, log)
    try:
        if transport == "stdio":
            _serve_stdio(sessions)
        else:
            _serve_http(sessions, scenario, port, world)
    finally:
        log.close()
    checks = {} if attacks is None else attacks.checks
    return _report(sessions.clients.values(), scenario, evaluators, world, checks) if check else 0


def _relay(url: str, more: object) -> int:
    """Forward messages to the server of a trial, which answers and records the calls."""
    if more:
        raise UsageError("--connect: uses the tools of a running trial. Leave out all other options")
    from seatrial.mock_server.mcp_server import relay

    asyncio.run(relay(url))
    return 0


def _record_from(url: str, file: str | None, more: object) -> int:
    """Forward messages to a real MCP server, and write its calls as a recording."""
    if file is None or more:
        raise UsageError("--record-from: needs only a file: seatrial mock-server --record-from URL --record FILE")
    from seatrial.engine.redact import Redaction
    from seatrial.mock_server.mcp_server import record_from
    from seatrial.runs.recorded_calls import write_calls
    from seatrial.runs.secrets import find_secrets

    calls, schemas = asyncio.run(record_from(url))
    redaction = Redaction(find_secrets(dict(os.environ), ()))
    recording = write_calls({"stdio": calls}, file, schemas=schemas, redaction=redaction)
    click.echo(f"recorded {counted(recording.count, 'call')} in {file}", err=True)
    return 0 if recording.count else 1


def _find(suite: str, name: str) -> Scenario:
    """The scenario with that name, or the only one whose name contains it."""
    found = [scenario for loaded in load([suite], check_agents=False) for scenario in loaded.scenarios]
    exact = [scenario for scenario in found if scenario.name == name]
    like = exact or [scenario for scenario in found if name.lower() in scenario.name.lower()]
    if len(like) != 1:
        names = ", ".join(repr(scenario.name) for scenario in (like or found)[:20])
        problem = f"{len(like)} scenarios contain it in their name" if like else "there is no such scenario"
        raise UsageError(f"{suite}: --scenario {name!r}: {problem}. Choose one of: {names}")
    if not like[0].mocks and not like[0].mocks_from and like[0].world is None:
        problem = "has no mocks and no world, so there is nothing to serve"
        raise UsageError(f"{suite}: scenario {like[0].name!r} {problem}. Add `mocks:` or `world:`")
    return like[0]


def _evaluators(scenario: Scenario, attacks: SessionAttacks | None) -> list[Evaluator]:
    found = tool_evaluators(scenario)
    if not found and attacks is None:
        raise UsageError(
            f"--check: scenario {scenario.name!r} has no expectation about all its tool calls. Add `trajectory`, "
            "`expected_tools`, `expected_tool_args`, `end_state`, `invariants` or tool_calls_* under `expect`"
        )
    return found


def _serve_stdio(sessions: "Sessions") -> None:
    from seatrial.mock_server.mcp_server import serve_stdio

    asyncio.run(serve_stdio(lambda: sessions.find("stdio")))


def _serve_http(sessions: "Sessions", scenario: Scenario, port: int, world: PreparedWorld | None) -> None:
    from seatrial.mock_server.http_server import HttpServer

    server = HttpServer(sessions, port=port)
    over = threading.Event()
    before = {which: signal.signal(which, lambda *_: over.set()) for which in (signal.SIGINT, signal.SIGTERM)}
    server.start()
    try:
        tools = ", ".join(dict.fromkeys([*(scenario.mocks or ()), *(world.tools if world is not None else ())]))
        click.echo(f"serving {tools} of {scenario.name!r} at {server.url()}  (Ctrl-C to stop)")
        while not over.wait(0.5):  # on Windows a wait without timeout cannot be interrupted
            pass
    finally:
        server.stop()
        for which, handler in before.items():
            signal.signal(which, handler)


def _report(
    clients: "Iterable[SessionTools]",
    scenario: Scenario,
    evaluators: list[Evaluator],
    world: PreparedWorld | None,
    checks: Mapping[str, Evaluator],
) -> int:
    """Print the result of each session. 0 only if there was a session and all passed.

    `checks`: further evaluators of single sessions.
    """
    for rule in scenario.invariants:
        if not rule.is_about_calls_only:
            click.echo(safe_text(f"not checked here, where only calls are known: invariant {rule.title}"), err=True)
    passed = []
    for client in clients:
        results: list[EvalResult] = []
        error = client.error
        own = [checks[client.session]] if client.session in checks else []
        try:
            with foreign.in_use():
                results = asyncio.run(check_session(client, scenario, [*evaluators, *own], world))
        except TrialError as failure:
            error = error or failure
        right = error is None and all(result.passed for result in results)
        passed.append(right)
        called = ", ".join(call.name for call in client.calls)
        lines = [f"{'✓' if right else '✗'} session {client.session}: called [{called}]"]
        if error is not None:
            lines.append(f"    ERROR {error.info.kind.value}: {error}")
        lines += [f"    {result.reasoning}" for result in results if not result.passed]
        click.echo(safe_text("\n".join(lines)), err=True)
    if not passed:
        click.echo("no client connected, so nothing was checked", err=True)
    return 0 if passed and all(passed) else 1

"""Agents that are programs, as real processes."""

import asyncio
import json
import os
import select
import shutil
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from seatrial import Scenario, Turn, run
from seatrial.agents.command import CommandAgent
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, ToolCall, Usage
from seatrial.model.protocols import AgentReply, AgentSession, TrialStart
from seatrial.model.results import AgentFailure, TrialError

USER = {"role": "user", "content": "hello"}
SAY = "import json, os, sys, time\ndef say(**message): print(json.dumps(message), flush=True)\n"


def start(schemas: Any = ()) -> TrialStart:
    nothing: Any = None
    return TrialStart(
        trial_id="t-1",
        scenario="s",
        index=0,
        seed=0,
        tools=nothing,
        record=nothing,
        turn=lambda: 0,
        elapsed_ms=lambda: 0.0,
        tool_schemas=schemas,
    )


def python(code: str, **settings: Any) -> CommandAgent:
    return CommandAgent(argv=[sys.executable, "-S", "-c", textwrap.dedent(code)], **settings)


def each_line(code: str, after: str = "", **settings: Any) -> CommandAgent:
    """A program that runs the code for each message, which it calls `got`, and then what comes after."""
    body = textwrap.indent(textwrap.dedent(code), "    ")
    return python(f"{SAY}for line in sys.stdin:\n    got = json.loads(line)\n{body}\n{after}", **settings)


def with_session(agent: CommandAgent, talk: Callable[[AgentSession], Awaitable[Any]], schemas: Any = ()) -> Any:
    async def run() -> Any:
        session = agent.open(start(schemas))
        try:
            return await talk(session)
        finally:
            await session.close()
            await agent.close()

    return asyncio.run(run())


def respond(agent: CommandAgent, messages: Any = (USER,), *, timeout: float = 10.0, schemas: Any = ()) -> AgentReply:
    async def talk(session: AgentSession) -> AgentReply:
        return await session.respond(list(messages), timeout=timeout)

    reply: AgentReply = with_session(agent, talk, schemas)
    return reply


def failure(agent: CommandAgent) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        respond(agent)
    return caught.value


def test_a_process_is_given_the_turn_and_its_reply_is_taken():
    tools = [{"name": "search"}]
    got = respond(each_line("say(type='reply', content=json.dumps(got))"), schemas=tools)
    turn = {"type": "turn", "trial_id": "t-1", "input": "hello", "messages": [USER], "tools": tools}
    assert json.loads(got.reply or "") == turn
    assert got.tool_calls == ()


def test_usage_and_cost_are_kept():
    got = respond(
        each_line("say(type='reply', content='x', usage={'input_tokens': 1, 'output_tokens': 2}, cost_usd=0.5)")
    )
    assert (got.usage, got.cost_usd) == (Usage(input_tokens=1, output_tokens=2), 0.5)


@pytest.mark.parametrize(("told", "tokens"), [("", 10), (", usage={'input_tokens': 3, 'output_tokens': 4}", 17)])
def test_the_reply_tells_what_a_turn_with_tool_calls_took(told: str, tokens: int):
    agent = each_line(f"""
        if got['type'] == 'turn':
            say(type='tool_calls', tool_calls=[{{'name': 'look'}}]{told})
        else:
            say(type='reply', content='x', usage={{'input_tokens': 4, 'output_tokens': 6}}, cost_usd=0.5)
    """)
    scenario = Scenario(
        name="s", input="hi", mocks={"look": {"returns": 1}}, limits={"cost_usd": 0.5, "tokens": tokens}
    )
    report = run(scenario, agent={"type": "command", "argv": agent.argv}, store=None)
    (trial,) = report.trials()
    assert report.passed, report.failure_reasons
    assert (trial.transcript.cost_usd, trial.transcript.usage.total_tokens) == (0.5, tokens)


def test_a_turn_with_tool_calls_whose_reply_tells_no_cost_has_none():
    agent = each_line("""
        if got['type'] == 'turn':
            say(type='tool_calls', tool_calls=[{'name': 'look'}])
        else:
            say(type='reply', content='x')
    """)
    scenario = Scenario(name="s", input="hi", mocks={"look": {"returns": 1}}, limits={"cost_usd": 0.5})
    (trial,) = run(scenario, agent={"type": "command", "argv": agent.argv}, store=None).trials()
    assert trial.transcript.cost_usd is None
    assert trial.error.kind is ErrorKind.CONFIG


def test_nobody_knows_what_a_turn_took_that_broke_off_after_its_tool_calls():
    agent = each_line("say(type='tool_calls', tool_calls=[{'name': 'unknown'}])")
    report = run(Scenario(name="s", input="hi"), agent={"type": "command", "argv": agent.argv}, store=None)
    (trial,) = report.trials()
    assert trial.error.kind is ErrorKind.TOOL
    assert (trial.transcript.cost_usd, trial.transcript.usage) == (None, None)


def test_one_process_lives_through_the_trial():
    async def talk(session: AgentSession) -> list[str | None]:
        return [(await session.respond([USER], timeout=10)).reply for _ in range(2)]

    first, second = with_session(each_line("say(type='reply', content=str(os.getpid()))"), talk)
    assert first == second


def test_each_trial_has_a_process_of_its_own():
    agent = each_line("say(type='reply', content=str(os.getpid()))")
    assert respond(agent).reply != respond(agent).reply


def test_tool_calls_are_requested_and_their_results_handed_back():
    agent = each_line(
        """
        if got["type"] == "turn":
            say(type="tool_calls", tool_calls=[{"name": "a", "arguments": {"q": 1}}, {"id": "x", "name": "b"}])
        else:
            say(type="reply", content=json.dumps(got))
        """
    )

    async def talk(session: AgentSession) -> tuple[AgentReply, AgentReply]:
        asked = await session.respond([USER], timeout=10)
        results = [{"role": "tool", "tool_call_id": call.id, "content": f"did {call.name}"} for call in asked.requested]
        return asked, await session.respond([USER, *asked.messages, *results], timeout=10)

    asked, answered = with_session(agent, talk)
    assert asked.requested == (ToolCall("a", {"q": 1}, id="call_1_0"), ToolCall("b", {}, id="x"))
    assert asked.messages[0]["tool_calls"][0]["function"] == {"name": "a", "arguments": '{"q": 1}'}
    assert json.loads(answered.reply) == {
        "type": "tool_results",
        "results": [
            {"id": "call_1_0", "name": "a", "content": "did a"},
            {"id": "x", "name": "b", "content": "did b"},
        ],
    }


def test_broken_arguments_are_kept_as_they_came():
    agent = each_line("""say(type="tool_calls", tool_calls=[{"name": "a", "arguments": "{broken"}])""")
    assert respond(agent).requested[0].arguments == "{broken"


def test_an_answer_that_nobody_asked_for_leaves_no_turn_with_an_answer():
    agent = each_line("""
        if got['input'] == 'hi':
            say(type='reply', content='One moment.')
        say(type='reply', content=got['input'])
    """)
    deleted = Turn(user="I deleted it.", expect={"reply_excludes": ["deleted"]})
    scenario = Scenario(name="s", turns=[Turn(user="hi"), deleted])
    (trial,) = run(scenario, agent={"type": "command", "argv": agent.argv}, store=None).trials()
    assert trial.error.kind is ErrorKind.AGENT
    assert "more answers than it was asked for" in trial.error.message
    assert "I deleted it." in trial.error.message


def test_what_a_process_writes_at_its_end_is_no_answer():
    agent = each_line("say(type='reply', content='x')", after="print('bye'); say(log='ended')")
    assert run(Scenario(name="s", input="hi"), agent={"type": "command", "argv": agent.argv}, store=None).passed


def test_calls_that_the_process_made_itself_may_be_reported():
    agent = each_line("""say(type="reply", content="x", tool_calls=[{"name": "a", "arguments": {}, "result": 1}])""")
    assert respond(agent).tool_calls == (ToolCall("a", {}, 1),)


def test_a_process_may_say_that_its_calls_are_not_recorded():
    assert respond(each_line("say(type='reply', content='x', tool_calls=None)")).tool_calls is None


def test_a_reply_may_be_empty_but_must_be_text():
    assert respond(each_line("say(type='reply', content='')")).reply == ""
    assert "content that is no text: None" in str(failure(each_line("say(type='reply')")))


def test_blank_lines_are_skipped():
    assert respond(each_line("print(); print('  '); say(type='reply', content='x')")).reply == "x"


def test_strange_text_survives():
    strange = {"role": "user", "content": "\ud800 \x00 \u2028 \n é"}
    assert respond(each_line("say(type='reply', content=got['input'])"), [strange]).reply == strange["content"]


def test_an_error_that_the_process_reports_is_a_failure():
    caught = failure(each_line("say(type='error', message='no quota')"))
    assert str(caught) == "the process reported an error: no quota"


@pytest.mark.parametrize(
    "message", ["type='answer'", "content='x'", "type='tool_calls'", "type='tool_calls', tool_calls=[{}]"]
)
def test_a_message_that_makes_no_sense_is_a_failure(message: str):
    failure(each_line(f"say({message})"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("type='reply', content='x', tool_call=['cancel']", "'reply' with the unknown key 'tool_call'. Did you mean"),
        ("type='tool_calls', tool_calls=[{'name': 'f'}], text='x'", "'tool_calls' with the unknown key 'text'. Known:"),
    ],
)
def test_a_key_that_nobody_reads_is_a_failure(line: str, problem: str):
    caught = failure(each_line(f"say({line})"))
    assert problem in str(caught)
    assert caught.final


@pytest.mark.parametrize("line", ["Loading model...", "[1]", "{", "[" * 100_000])
def test_a_line_that_is_no_json_object_is_a_failure(line: str):
    caught = failure(each_line(f"print({line!r}, flush=True)"))
    assert str(caught).startswith(f"the process wrote a line that is no JSON object: {line[:400]}")
    assert "stderr" in (caught.info.hint or "")


def test_a_line_of_more_than_10_mb_is_a_failure():
    caught = failure(each_line("print('x' * 11_000_000, flush=True)"))
    assert str(caught) == "the process wrote a line of more than 10 MB"


def test_a_process_that_exits_early_shows_its_code_and_its_last_words():
    caught = failure(
        python("import sys; sys.stdin.readline(); sys.stderr.write('x' * 9000 + 'KeyError: q'); sys.exit(3)")
    )
    assert str(caught).startswith("the process exited with code 3 before it replied; stderr ends: xxx")
    assert str(caught).endswith("xxxKeyError: q")
    assert len(caught.info.traceback or "") == 4_000


def test_an_exit_without_reply_is_a_failure_even_with_code_0():
    assert (
        str(failure(python("import sys; sys.stdin.readline()"))) == "the process exited with code 0 before it replied"
    )


def test_a_process_that_never_listens_is_a_failure():
    assert "the process exited with code 0 before" in str(failure(python("pass")))


def test_a_process_that_is_killed_is_a_failure():
    assert "was killed by signal 9" in str(failure(each_line("import os; os.kill(os.getpid(), 9)")))


def test_a_program_that_does_not_exist_is_an_error_of_the_set_up():
    with pytest.raises(TrialError, match="'no-such-program' cannot be started: No such file") as caught:
        respond(CommandAgent(argv=["no-such-program"]))
    assert caught.value.info.kind is ErrorKind.CONFIG


def wait_until_gone(pid: int) -> None:
    """Return when the process is dead; fails if it outlives ten seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], 10)[0], f"process {pid} is still there"
    finally:
        os.close(descriptor)


# Replies with its process id and that of a child, which would sleep for long; hangs when told so.
FAMILY = """
    import subprocess
    if got["input"] == "hang":
        time.sleep(600)
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    say(type="reply", content=f"{os.getpid()} {child.pid}")
"""
needs_pidfd = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="pidfd_open is Linux only")


@needs_pidfd
def test_a_process_that_hangs_is_killed_with_its_children():
    async def talk(session: AgentSession) -> str | None:
        family = await session.respond([USER], timeout=10)
        with pytest.raises(TrialError, match=r"did not answer within 0.1 s") as caught:
            await session.respond([{"role": "user", "content": "hang"}], timeout=0.1)
        assert caught.value.info.kind is ErrorKind.LIMIT
        return family.reply

    for pid in with_session(each_line(FAMILY, close_seconds=600), talk).split():
        wait_until_gone(int(pid))


@needs_pidfd
def test_a_process_that_does_not_end_at_close_is_killed_with_its_children():
    family = respond(each_line(FAMILY, after="time.sleep(600)", close_seconds=0.1)).reply or ""
    for pid in family.split():
        wait_until_gone(int(pid))


@needs_pidfd
def test_cancelling_kills_the_process():
    async def talk(session: AgentSession) -> str | None:
        family = await session.respond([USER], timeout=10)
        hanging = asyncio.create_task(session.respond([{"role": "user", "content": "hang"}], timeout=600))
        await asyncio.sleep(0)
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        return family.reply

    for pid in with_session(each_line(FAMILY, close_seconds=600), talk).split():
        wait_until_gone(int(pid))


def test_a_descendant_that_holds_the_pipes_does_not_hold_the_trial():
    code = """
    import subprocess
    sleep = [sys.executable, "-S", "-c", "import time; time.sleep(3)"]
    subprocess.Popen(sleep, start_new_session=True)
    say(type="reply", content="x")
    """
    assert respond(each_line(code, close_seconds=0.1)).reply == "x"


def test_a_process_ends_by_itself_when_its_stdin_is_closed(tmp_path: Path):
    done = tmp_path / "done"
    respond(each_line("say(type='reply', content='x')", after=f"open({str(done)!r}, 'w').close()", close_seconds=600))
    assert done.exists()


def test_after_a_failure_the_process_is_started_anew():
    agent = each_line(
        """
        if len(got["messages"]) > 1:
            say(type="reply", content="back")
        else:
            print("nonsense", flush=True)
        """
    )

    async def talk(session: AgentSession) -> AgentReply:
        with pytest.raises(AgentFailure):
            await session.respond([USER], timeout=10)
        return await session.respond([USER, USER], timeout=10)

    assert with_session(agent, talk).reply == "back"


def test_much_stderr_does_not_block_the_process():
    assert respond(each_line("sys.stderr.write('x' * 3_000_000); say(type='reply', content='ok')")).reply == "ok"


def test_environment_and_folder_are_set(tmp_path: Path):
    code = "say(type='reply', content=os.environ['SHOP'] + ' ' + os.getcwd() + ' ' + str('PATH' in os.environ))"
    got = respond(each_line(code, env={"SHOP": "open"}, cwd=str(tmp_path)))
    assert got.reply == f"open {tmp_path.resolve()} True"


def from_the_documents(fence: str) -> str:
    page = Path(__file__).parents[2] / "docs" / "command-protocol.md"
    return page.read_text(encoding="utf-8").split(fence)[1].split("```")[0]


def test_the_schema_of_the_documents_fits_their_conversation():
    validator = Draft202012Validator(json.loads(from_the_documents("```json\n")))
    lines = [line.partition("{") for line in from_the_documents("```text\n").splitlines() if "{" in line]
    assert len(lines) == 4
    for _, brace, rest in lines:
        validator.validate(json.loads(brace + rest))
    assert not validator.is_valid({"type": "reply"})
    assert not validator.is_valid({"type": "reply", "content": "x", "tool_call": []})


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_node_agent_of_the_documents_works(tmp_path: Path):
    program = tmp_path / "agent.js"
    program.write_text(from_the_documents('```js title="agent.js"\n'), encoding="utf-8")

    async def talk(session: AgentSession) -> tuple[AgentReply, AgentReply]:
        asked = await session.respond([{"role": "user", "content": "Where is ORD-789?"}], timeout=30)
        results = [{"role": "tool", "tool_call_id": asked.requested[0].id, "content": '{"status": "shipped"}'}]
        return asked, await session.respond([USER, *asked.messages, *results], timeout=30)

    asked, answered = with_session(CommandAgent(argv=["node", str(program)]), talk)
    assert asked.requested[0].name == "lookup_order"
    assert asked.requested[0].arguments == {"order_id": "ORD-789"}
    assert answered.reply == "Your order is shipped."


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"argv": "node agent.js"}, "argv: expected a program and its arguments as a list"),
        ({"argv": []}, "argv: expected"),
        ({"argv": [""]}, "argv: expected"),
        ({"argv": ["node", 5]}, "argv: expected"),
        ({"argv": ["x"], "env": {"A": 1}}, "env: expected a mapping"),
        ({"argv": ["x"], "cwd": 5}, "cwd: expected a folder"),
    ],
)
def test_a_mistake_in_the_settings_is_refused_at_once(settings: Any, part: str):
    with pytest.raises(UsageError) as caught:
        CommandAgent(name="shop", **settings)
    assert part in str(caught.value)

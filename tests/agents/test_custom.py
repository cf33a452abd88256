"""Agents of users and installed packages that implement the Agent protocol."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import AgentReply, Scenario, ToolCall
from seatrial.agents.resolve import check_agent_spec, resolve_agent
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind

ADAPTER = """
from seatrial import AgentReply


class Session:
    def __init__(self, agent, start):
        self.agent = agent

    async def respond(self, messages, *, timeout):
        return AgentReply(reply=f"{self.agent.greeting} {messages[-1]['content']}", tool_calls=())

    async def close(self):
        pass


class Echo:
    answers_own_tools = True
    keeps_conversation = True

    def __init__(self, *, name="echo", greeting="Hello."):
        if greeting == "":
            raise ValueError("an empty greeting")
        self.name = name
        self.greeting = greeting

    def open(self, start):
        return Session(self, start)

    async def close(self):
        pass


agent = Echo()
no_agent = dict
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the Python path with an installed package that adds agent types."""
    (tmp_path / "echo_adapter.py").write_text(ADAPTER)
    info = tmp_path / "echo_adapter-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-adapter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[seatrial.agents]\necho = echo_adapter:Echo\nopenai = echo_adapter:Echo\n"
        "wrong = echo_adapter:no_agent\nmissing = no_such_adapter:Agent\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


class Session:
    """One trial with an agent that a test describes by a function of the messages."""

    def __init__(self, agent: "Mine", start: Any) -> None:
        self.agent = agent
        self.start = start

    async def respond(self, messages: Any, *, timeout: float) -> Any:
        return await self.agent.answer(self, messages)

    async def close(self) -> None:
        self.agent.closed.append("session")


class Mine:
    name = "mine"
    answers_own_tools = False
    keeps_conversation = True

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.closed: list[str] = []

    def open(self, start: Any) -> Session:
        return Session(self, start)

    async def close(self) -> None:
        self.closed.append("agent")


def play(answer: Any, **more: Any) -> Any:
    """The only trial with an agent that answers like this."""
    (trial,) = seatrial.run(Scenario(name="one", input="Hello?", **more), agent=Mine(answer), store=None).trials()
    return trial


def test_an_installed_package_adds_a_type(installed: Path) -> None:
    report = seatrial.run(
        Scenario(name="one", input="Where?", expected_output="Hi. Where?"),
        agent={"type": "echo", "greeting": "Hi."},
        store=None,
    )
    assert report.passed
    assert check_agent_spec({"type": "echo", "greeting": "Hi."}) == []


def test_an_unknown_type_lists_those_of_installed_packages(installed: Path) -> None:
    (problem,) = check_agent_spec({"type": "ecco"})
    assert "unknown type 'ecco'. Did you mean 'echo'? Known: python, openai," in problem
    assert problem.endswith("echo, wrong, missing.")


def test_a_built_in_type_cannot_be_replaced(installed: Path) -> None:
    assert check_agent_spec({"type": "openai"}) == ["type 'openai' needs 'base_url'"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"type": "echo", "greting": "Hi."},
            "cannot be made: TypeError: .*unexpected keyword argument 'greting'",
        ),
        ({"type": "echo", "greeting": ""}, "type 'echo' of echo_adapter:Echo cannot be made: ValueError: an empty gr"),
        ({"type": "wrong"}, "made an object of type dict, which is no agent"),
        ({"type": "missing"}, "cannot be made: ModuleNotFoundError: No module named 'no_such_adapter'"),
    ],
)
def test_a_wrong_type_or_setting_is_a_usage_error(installed: Path, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_agent(spec, name="mine")


@pytest.mark.parametrize("path", ["echo_adapter:agent", "echo_adapter:Echo"])
def test_an_import_path_may_lead_to_an_adapter(installed: Path, path: str) -> None:
    scenario = Scenario(name="one", input="Where?", expected_output="Hello. Where?")
    assert seatrial.run(scenario, agent=path, store=None).passed


def test_process_isolation_refuses_an_adapter(installed: Path) -> None:
    with pytest.raises(UsageError, match="isolation: process runs functions"):
        resolve_agent("echo_adapter:agent", isolated=True)


def test_seatrial_answers_the_calls_that_an_adapter_requests() -> None:
    async def answer(session: Session, messages: Any) -> AgentReply:
        if messages[-1]["role"] == "tool":
            return AgentReply(reply=messages[-1]["content"], tool_calls=())
        return AgentReply(requested=(ToolCall("look_up", {"order": 1}, id="a"),), tool_calls=())

    trial = play(answer, mocks={"look_up": {"returns": "shipped"}}, expected_tools=["look_up"])
    assert trial.transcript.reply == "shipped"
    assert [call.result for call in trial.transcript.tool_calls] == ["shipped"]


def test_an_adapter_runs_outside_of_the_event_loop_of_the_run() -> None:
    threads = []

    async def answer(session: Session, messages: Any) -> AgentReply:
        threads.append(threading.current_thread().name)
        return AgentReply(reply="hello")

    play(answer)
    assert [name.startswith("seatrial-agent") for name in threads] == [True]


def test_an_exception_of_an_adapter_is_the_agents_error() -> None:
    async def answer(session: Session, messages: Any) -> AgentReply:
        raise ValueError("no key")

    error = play(answer).error
    assert (error.kind, error.message) == (ErrorKind.AGENT, "ValueError: no key")


def test_an_adapter_that_blocks_is_stopped_by_its_timeout() -> None:
    async def answer(session: Session, messages: Any) -> AgentReply:
        time.sleep(3)
        return AgentReply(reply="late")

    assert play(answer, timeout_seconds=0.3).error.kind is ErrorKind.LIMIT


def test_a_reply_of_another_type_is_the_agents_error() -> None:
    async def answer(session: Session, messages: Any) -> str:
        return "hello"

    assert "must return a seatrial.AgentReply, got str" in play(answer).error.message


def test_evidence_of_an_adapter_is_stored_as_plain_values() -> None:
    async def answer(session: Session, messages: Any) -> AgentReply:
        messages[-1]["content"] = "changed"
        session.start.record(ToolCall("seen", {"at": Path("a")}))
        return AgentReply(reply="hello", tool_calls=(ToolCall("told", {"at": Path("b")}),))

    transcript = play(answer).transcript
    assert {call.name: call.arguments for call in transcript.tool_calls} == {"seen": {"at": "a"}, "told": {"at": "b"}}
    assert transcript.turns[0].user == "Hello?"


def test_sessions_and_the_agent_are_closed() -> None:
    async def answer(session: Session, messages: Any) -> AgentReply:
        return AgentReply(reply="hello")

    mine = Mine(answer)
    seatrial.run(Scenario(name="one", input="Hello?", trials=2), agent=mine, store=None)
    assert sorted(mine.closed) == ["agent", "session", "session"]


def test_an_adapter_may_name_its_tools() -> None:
    async def answer(session: Session, messages: Any) -> AgentReply:
        return AgentReply(reply="hello")

    mine = Mine(answer)
    mine.tool_names = frozenset({"look_up"})  # type: ignore[attr-defined]
    agent: Any = resolve_agent(mine)
    asyncio.run(agent.close())
    assert agent.tool_names == {"look_up"}

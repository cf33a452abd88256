"""Simulated users from end to end: a model plays the user, the agent is an endpoint, a judge looks on."""

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

USER = {
    "profile": "Busy professional, direct.",
    "goal": "Book a haircut for Tuesday.",
    "knowledge": ["The salon opens at 08:00."],
}
HIDDEN = {
    "mocks": {"secret_tool": {"returns": {"hidden": "MOCKED-RESULT"}}},
    "tools": [{"name": "secret_tool", "description": "TOOL-DESCRIPTION", "parameters": {"type": "object"}}],
    "trajectory": {"mode": "in_order", "expected": [{"name": "secret_tool", "args": {"q": "EXPECTED-ARGUMENT"}}]},
    "expected_outcomes": ["The reference EXPECTED-OUTCOME was given."],
    "expect": {"reply_contains_any": ["EXPECTED-TEXT", "booked"]},
    "metadata": {"note": "META-NOTE"},
    "description": "SCENARIO-DESCRIPTION",
    "system": "SYSTEM-PROMPT-OF-THE-AGENT",
}
SECRETS = ("EXPECTED-", "MOCKED-RESULT", "secret_tool", "TOOL-DESCRIPTION", "META-NOTE", "SCENARIO-", "SYSTEM-")
HELD = threading.Event()
"""Never set: the server lets go of what is held when it closes."""


def move(message: str, *, goal_met: bool = False, stop: bool = False) -> str:
    return json.dumps({"message": message, "goal_met": goal_met, "stop": stop})


def user_by_turn(*moves: str) -> Callable[[ReceivedRequest], str]:
    """What the user does in each turn, whichever trial asks."""

    def decide(request: ReceivedRequest) -> str:
        turn = sum(role == "assistant" for role, _ in request.messages)
        return moves[min(turn, len(moves) - 1)]

    return decide


def agent_says(request: ReceivedRequest) -> ServerReply | str:
    """An agent that calls its tool in the first turn."""
    messages = request.body["messages"]
    if "MOCKED-RESULT" in json.dumps(messages) or "tools" not in request.body:
        return "It is booked."
    arguments = json.dumps({"q": "EXPECTED-ARGUMENT"})
    call = {"id": "c1", "type": "function", "function": {"name": "secret_tool", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return ServerReply(body=json.dumps({"choices": [{"message": message}]}))


def judge_says(request: ReceivedRequest) -> str:
    return json.dumps({"outcomes": {"o1": {"passed": True, "justification": "It was."}}, "summary": "fine"})


@dataclass(frozen=True)
class ModelServers:
    agent: ModelServer
    user: ModelServer
    judge: ModelServer


@pytest.fixture
def open_servers() -> Iterator[Callable[..., ModelServers]]:
    """Opens a server each for the agent, the user and the judge, with their answers."""
    opened: list[ModelServer] = []

    def open_all(user: Any, *, agent: Any = agent_says, judge: Any = judge_says) -> ModelServers:
        servers = [ModelServer(answers) for answers in (agent, user, judge)]
        opened.extend(server.__enter__() for server in servers)
        return ModelServers(*servers)

    yield open_all
    for server in opened:
        server.__exit__(None, None, None)


def run(
    folder: Any, servers: ModelServers, *scenarios: dict[str, Any], flags: tuple[str, ...] = (), **config: Any
) -> Any:
    """How the run ended; trials are in `folder.results()`."""
    models = {
        "user": {"model": "openai:user", "base_url": servers.user.base_url, "api_key": "k"},
        "judge": f"openai:judge@{servers.judge.base_url}",
    }
    suite = {
        "name": "salon",
        "agent": {"type": "openai", "base_url": servers.agent.base_url},
        "config": {"trials": 1, "models": models, **config},
    }
    written = [{"name": f"s{number}", "user": USER, **keys} for number, keys in enumerate(scenarios)]
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": written}))
    return folder.seatrial("run", "suite.yaml", "--report", "json", *flags)


def trial_of(folder: Any, scenario: int = 0) -> Any:
    return folder.results()["scenarios"][scenario]["trials"][0]


SAYS_BOOKED = {"expect": {"reply_contains_any": ["booked"]}}


@pytest.mark.parametrize(
    ("moves", "keys", "stop_reason", "turns", "shown"),
    [
        ([move("Hi"), move("Thanks", goal_met=True)], {}, "goal_met", 1, "(1 turn, goal met)"),
        ([move("Hi"), move("", stop=True)], {}, "user_stopped", 1, "(1 turn, goal NOT met)"),
        ([move("Hi"), move("And?")], {"max_turns": 3}, "max_turns", 3, "(3 turns, stopped at max turns)"),
    ],
)
def test_a_conversation_stops_where_the_user_stops_it_or_at_max_turns(
    folder: Any, open_servers: Any, moves: list[str], keys: Any, stop_reason: str, turns: int, shown: str
) -> None:
    ended = run(folder, open_servers(user_by_turn(*moves)), {**SAYS_BOOKED, **keys})

    assert ended.code == 0, ended.out
    trial = trial_of(folder)
    assert (trial["stop_reason"], len(trial["turns"])) == (stop_reason, turns)
    assert shown in ended.out


def test_the_user_is_told_nothing_that_only_the_judge_may_know(folder: Any, open_servers: Any) -> None:
    servers = open_servers(user_by_turn(move("I need a haircut."), move("Tuesday."), move("Thanks!", goal_met=True)))

    ended = run(folder, servers, HIDDEN, trials=2)

    assert ended.code == 0, ended.out
    assert len(servers.user.requests) == 6
    for request in servers.user.requests:
        sent = json.dumps(request.body) + json.dumps(dict(request.headers))
        assert "Book a haircut for Tuesday." in sent
        for word in SECRETS:
            assert word not in sent
    (request,) = servers.judge.requests[:1]
    assert "EXPECTED-OUTCOME" in json.dumps(request.body), "the judge does know it"


def test_the_user_speaks_as_the_assistant_and_hears_the_agent_as_the_user(folder: Any, open_servers: Any) -> None:
    servers = open_servers(user_by_turn(move("I need a haircut."), move("Thanks!", goal_met=True)))

    run(folder, servers, SAYS_BOOKED)

    _, *said = servers.user.requests[-1].messages
    assert [role for role, _ in said] == ["user", "assistant", "user"]
    assert json.loads(said[1][1])["message"] == "I need a haircut."
    assert json.loads(said[2][1]) == {"agent": "It is booked."}
    assert [role for role, _ in servers.agent.requests[0].messages] == ["user"]


@pytest.mark.parametrize(
    ("answers", "message", "requests"),
    [
        (["Hello, I would like a haircut."], "the simulated user gave no answer after 2 requests", 2),
        ([ServerReply(status=401, body='{"error": {"message": "bad key"}}')], "HTTP 401: bad key", 1),
    ],
)
def test_a_user_that_cannot_be_played_is_no_fault_of_the_agent(
    folder: Any, open_servers: Any, answers: list[Any], message: str, requests: int
) -> None:
    servers = open_servers(answers)

    ended = run(folder, servers, SAYS_BOOKED)

    assert ended.code == 1
    trial = trial_of(folder)
    assert (trial["status"], trial["error"]["kind"]) == ("errored", "simulator")
    assert message in trial["error"]["message"]
    assert "✗ s0  ERROR simulator: the simulated user gave no answer" in ended.out
    assert len(servers.user.requests) == requests
    assert servers.agent.requests == []


def test_one_malformed_answer_is_repaired(folder: Any, open_servers: Any) -> None:
    servers = open_servers(["Hello there", move("Hi"), move("Bye", goal_met=True)])

    ended = run(folder, servers, SAYS_BOOKED)

    assert ended.code == 0, ended.out
    assert trial_of(folder)["instruments"]["calls"] == 3


def test_a_trial_that_takes_too_long_is_errored_and_keeps_what_was_said(folder: Any, open_servers: Any) -> None:
    servers = open_servers(
        user_by_turn(move("Hi"), move("And?")), agent=["Wait.", ServerReply(content="late", hold=HELD)]
    )

    ended = run(folder, servers, {**SAYS_BOOKED, "trial_timeout_seconds": 5})

    assert ended.code == 1
    trial = trial_of(folder)
    assert (trial["error"]["kind"], trial["stop_reason"]) == ("limit", "limit")
    assert [turn["reply"] for turn in trial["turns"]] == ["Wait.", None]
    assert "ERROR limit: the trial took longer than 5 s" in ended.out


def test_a_second_run_asks_no_user_model(folder: Any, open_servers: Any) -> None:
    servers = open_servers(user_by_turn(move("Hi"), move("And?"), move("Thanks", goal_met=True)))
    first = run(folder, servers, SAYS_BOOKED, trials=2)
    before = (len(servers.user.requests), len(servers.agent.requests))

    second = run(folder, servers, SAYS_BOOKED, trials=2)

    assert (first.code, second.code) == (0, 0)
    assert before == (6, 4), "trials do not share what was cached"
    assert (len(servers.user.requests), len(servers.agent.requests)) == (6, 8), "the agent is asked again, as ever"
    assert trial_of(folder)["instruments"] == {
        "calls": 0,
        "cached": 3,
        "usage": None,
        "cost_usd": 0.0,
    }


def test_a_missing_key_is_found_by_name_before_the_first_trial(
    folder: Any, open_servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    servers = open_servers([move("Hi")])

    ended = run(folder, servers, SAYS_BOOKED, flags=("--user-model", "openai:gpt-5-mini"))

    assert ended.code == 2
    assert "no API key, the environment variable OPENAI_API_KEY is not set" in ended.err
    assert servers.agent.requests == []


def test_no_model_for_the_user_is_found_before_the_first_trial(folder: Any, open_servers: Any) -> None:
    servers = open_servers([move("Hi")])
    content = {
        "suite": {"name": "salon", "agent": {"type": "openai", "base_url": servers.agent.base_url}},
        "scenarios": [{"name": "s", "user": USER, **SAYS_BOOKED}],
    }
    folder.write("suite.yaml", json.dumps(content))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 2
    assert "scenario 's' needs a model for the user. Give --user-model" in ended.err
    assert servers.agent.requests == []


FUNCTIONS = """
    def polite(conversation, trial, seed):
        if not conversation: return f"Hello from {trial}"
        return {"message": None, "goal_met": "booked" in conversation[-1][1], "stop": True}

    def broken(conversation): raise RuntimeError("no idea what to say")

    async def patient(conversation): return "And?"
"""


@pytest.mark.parametrize(
    ("function", "stop_reason", "turns", "error"),
    [("polite", "goal_met", 1, None), ("patient", "max_turns", 8, None), ("broken", "error", 0, "simulator")],
)
def test_a_user_may_be_a_function(
    folder: Any, open_servers: Any, function: str, stop_reason: str, turns: int, error: str | None
) -> None:
    folder.write("people.py", FUNCTIONS)
    servers = open_servers([move("never asked")])

    ended = run(folder, servers, {"user": f"people:{function}", "trials": 1, **SAYS_BOOKED})

    trial = trial_of(folder)
    assert (trial["stop_reason"], len(trial["turns"])) == (stop_reason, turns), ended.out
    assert (trial["error"] or {}).get("kind") == error
    assert servers.user.requests == []


def test_a_function_that_does_not_exist_is_found_before_the_first_trial(folder: Any, open_servers: Any) -> None:
    folder.write("people.py", FUNCTIONS)

    ended = run(folder, open_servers([]), {"user": "people:polit", **SAYS_BOOKED})

    assert ended.code == 2
    assert "user 'people:polit': 'people' has no attribute 'polit'. Did you mean 'polite'?" in ended.err

"""A stored conversation continues from a turn or a call, with its messages, mocks and world restored."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from seatrial.cli.fork import command
from seatrial.model.run import Trial
from seatrial.store.store import open_store
from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply

AGENT = """
import json

def agent(messages, ctx):
    done = [m for m in messages[[m["role"] for m in messages].index("user"):] if m["role"] == "tool"]
    if messages[-1]["role"] == "user":
        first = ctx.call_tool("lookup", id="W1")
    else:
        first = json.loads(done[-1]["content"])
    if len([m for m in messages if m["role"] == "user"]) == 1:
        return f"first: {first}"
    if ctx.seed % 2 and not ctx.scenario.startswith("good"):
        return "I do not know"
    return f"second: {ctx.call_tool('lookup', id='W1')}"

def good(messages, ctx):
    return "second: 9" if messages[-1]["role"] == "user" else f"second: {ctx.call_tool('lookup', id='W1')}"

def bare(input):
    return "second: 1"

def lookup(state, id: str) -> int:
    state["taken"] = state.get("taken", 0) + 1
    return state["taken"]
"""
SUITE = """
suite: {name: shop, agent: "forked_agent:agent"}
scenarios:
  - name: ask twice
    trials: 4
    mocks: {lookup: {sequence: [1, 2, 3, 4, 5]}}
    turns:
      - {user: "and now?"}
      - {user: "and again?", expect: {reply_contains_any: ["second: 3", "second: 9"]}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "forked_agent", raising=False)
    (tmp_path / "forked_agent.py").write_text(AGENT)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def _run() -> None:
    from seatrial.cli.run import command as run

    CliRunner().invoke(run, ["suite.yaml", "--set", "seed=3"], standalone_mode=False, catch_exceptions=False)


def _fork(*args: str) -> Result:
    return CliRunner().invoke(command, ["latest", "ask twice", *args], standalone_mode=False)


def _forked() -> list[Trial]:
    with open_store(".seatrial/runs.db") as store:
        run = store.runs(1)[0]
        assert run.config is not None
        assert run.config["fork"]
        return [trial for entry in store.entries(run.id) for trial in store.trials(run.id, entry.key)]


def test_a_fork_at_a_turn_keeps_the_turns_before_it_and_the_mocks_go_on_in_their_sequence(folder: Path) -> None:
    _run()
    result = _fork("1", "--at", "2", "--trials", "6")
    assert "from turn 2:" in result.output, (result.output, result.exception)
    trials = _forked()
    assert len(trials) == 6
    assert {trial.transcript.turns[0].reply for trial in trials} == {"first: 1"}
    assert {trial.transcript.turns[1].reply for trial in trials} == {"I do not know", "second: 3"}
    assert [call.result for call in trials[0].transcript.seen_calls][:2] == [1, 2]


def test_a_fork_at_a_call_keeps_the_calls_before_it(folder: Path) -> None:
    _run()
    with open_store(".seatrial/runs.db") as store:
        run = store.runs(1)[0]
        [entry] = store.entries(run.id)
        long = next(one for one in store.trials(run.id, entry.key) if len(one.transcript.seen_calls) == 3)
    result = _fork(str(long.index + 1), "--at", "call:3", "--trials", "2", "--agent", "forked_agent:good")
    assert "from call 3" in result.output, (result.output, result.exception)
    trials = _forked()
    assert [call.result for call in trials[0].transcript.seen_calls] == [1, 2, 3]
    assert trials[0].transcript.reply == "second: 3"


def test_a_fork_is_not_the_latest_run_of_a_comparison_and_cannot_be_resumed(folder: Path) -> None:
    from seatrial.cli.run import command as run
    from seatrial.runs.compare_runs import newest_run

    _run()
    _fork("1", "--at", "2", "--trials", "1")
    with open_store(".seatrial/runs.db") as store:
        forked = store.runs(1)[0]
        assert newest_run(store).id != forked.id
    result = CliRunner().invoke(run, ["--resume", forked.id], standalone_mode=False)
    assert "continues a stored conversation" in str(result.exception)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["1", "--at", "2", "--agent", "forked_agent:bare"], "takes only the latest one"),
        (["1", "--at", "3"], "has 2 turns, so it has no turn 3"),
        (["1", "--at", "call:9"], "so it has no call 9"),
        (["1", "--at", "two"], "expected a turn such as 2"),
        (["9", "--at", "2"], "has no trial '9'"),
    ],
)
def test_what_cannot_be_forked_is_refused_with_the_reason(folder: Path, args: list[str], reason: str) -> None:
    _run()
    assert reason in str(_fork(*args).exception)


def test_an_agent_that_gets_only_the_latest_text_is_refused(folder: Path) -> None:
    (folder / "forked_agent.py").write_text(AGENT + "\nclass Keeps:\n    def run(self, input): return 'second: 1'\n")
    _run()
    result = _fork("1", "--at", "2", "--agent", "forked_agent:Keeps")
    assert "does not take messages" in str(result.exception)


def test_mocks_that_changed_since_make_the_trials_errored(folder: Path) -> None:
    _run()
    (folder / "suite.yaml").write_text(SUITE.replace("[1, 2", "[7, 8"))
    _fork("1", "--at", "2", "--trials", "1")
    [trial] = _forked()
    assert trial.error is not None
    assert "lookup answered 1 then, and 7 now" in trial.error.message


def test_a_fork_restores_the_world(folder: Path) -> None:
    world = 'world: {seed: {taken: 0}, tools: "forked_agent:lookup"}'
    (folder / "suite.yaml").write_text(SUITE.replace("mocks: {lookup: {sequence: [1, 2, 3, 4, 5]}}", world))
    _run()
    result = _fork("1", "--at", "2", "--trials", "4")
    assert "from turn 2:" in result.output, (result.output, result.exception)
    assert {trial.transcript.turns[1].reply for trial in _forked()} <= {"I do not know", "second: 3"}


def test_an_endpoint_gets_the_restored_calls_and_goes_on(folder: Path) -> None:
    def answer(request: ReceivedRequest) -> ServerReply:
        results = [m["content"] for m in request.body["messages"] if m["role"] == "tool"]
        if len(results) < 2:
            function = {"name": "lookup", "arguments": '{"id": "W1"}'}
            message = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
        else:
            message = {"role": "assistant", "content": f"second: {results[-1]} of {len(results)}"}
        return ServerReply(
            body=json.dumps({"choices": [{"message": message}]}), headers={"content-type": "application/json"}
        )

    with ModelServer(answer) as server:
        agent = f'{{type: openai, base_url: "{server.base_url}", model: m}}'
        (folder / "suite.yaml").write_text(SUITE.replace('"forked_agent:agent"', agent))
        _run()
        before = len(server.requests)
        result = _fork("1", "--at", "call:2", "--trials", "1")
        assert "from call 2" in result.output, (result.output, result.exception)
        [trial] = _forked()
        assert [call.result for call in trial.transcript.seen_calls] == [1, 2]
        first = server.requests[before].body["messages"]
        assert [message["role"] for message in first] == ["user", "assistant", "tool"]
        assert first[-1]["content"] == "1"

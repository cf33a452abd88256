"""A sweep plays variants of scenarios: a run of its own, with altered tool answers, that other runs do not see."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.protocols import PreparedScenario, ToolAnswer
from seatrial.model.run import Trial, Variant
from seatrial.runs import sweeps
from seatrial.runs.compare_runs import newest_run
from seatrial.runs.execute_run import execute
from seatrial.runs.history import find_flaky
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import RunPlan
from seatrial.scenarios.models import RunModels
from seatrial.store.store import open_store
from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply
from seatrial.tools.altered_tools import Call

SUITE = """
suite: {name: mail, agent: "swept_agent:agent", config: {seed: 3}}
scenarios:
  - name: reads
    input: What is new?
    mocks: {read: {returns: {body: lunch}}, list: {returns: [a]}}
    expect: {reply_contains_any: [lunch]}
  - {name: rests, skip: later, input: hello}
"""
AGENT = """
def agent(messages, ctx):
    ctx.call_tool("list")
    return f"{ctx.scenario}: {ctx.call_tool('read')['body']}"
"""


class Shout:
    """Writes what `read` answers in capital letters, or does not call it at all."""

    def __init__(self, *, calls: bool) -> None:
        self.calls = calls

    async def answer(self, name: str, arguments: Any, turn: int, call: Call) -> ToolAnswer:
        if name != "read":
            return await call()
        body = (await call()).result["body"].upper() if self.calls else "NOTHING"
        return ToolAnswer(result={"body": body}, altered="shout-1")


def variants(
    prepared: Sequence[PreparedScenario], sweep: Mapping[str, Any], models: RunModels
) -> Iterator[PreparedScenario]:
    for each, calls in product(prepared, (True, False)):
        settings = {"calls": calls, "tool": "read", "fault": "malformed"}
        variant = Variant(kind="fault", scenario=each.scenario.name, settings=settings)
        yield sweeps.make_variant(each, variant, f"calls={calls}", lambda calls=calls: Shout(calls=calls))


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRequest:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "swept_agent", raising=False)
    monkeypatch.setattr(sweeps, "_find_expander", lambda kind: variants)
    (tmp_path / "swept_agent.py").write_text(AGENT)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return RunRequest(sources=("suite.yaml",), sweep={"kind": "fault"})


def _trials() -> list[Trial]:
    with open_store(".seatrial/runs.db") as store:
        run = store.runs(1)[0]
        return [trial for entry in store.entries(run.id) for trial in store.trials(run.id, entry.key)]


def test_a_variant_changes_what_the_agent_gets_and_says_so_on_the_call(request_: RunRequest) -> None:
    execute(request_)
    trials = _trials()
    assert [trial.key.name for trial in trials] == ["reads / calls=True", "reads / calls=False"]
    assert [trial.transcript.reply for trial in trials] == ["reads: LUNCH", "reads: NOTHING"]
    assert [[call.altered for call in trial.transcript.seen_calls] for trial in trials] == [[None, "shout-1"]] * 2


def test_an_endpoint_gets_the_altered_answer_too(request_: RunRequest) -> None:
    def answer(received: ReceivedRequest) -> ServerReply:
        called = {"id": "1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        asks = received.body["messages"][-1]["role"] == "user"
        message = {"role": "assistant", "content": "lunch"} | ({"tool_calls": [called]} if asks else {})
        body = json.dumps({"choices": [{"message": message}]})
        return ServerReply(body=body, headers={"content-type": "application/json"})

    with ModelServer(answer) as server:
        execute(replace(request_, agent={"type": "openai", "base_url": server.base_url, "model": "m"}))
        last = [received.body["messages"][-1]["content"] for received in server.requests]
    assert '{"body": "LUNCH"}' in last
    assert [call.altered for call in _trials()[0].transcript.seen_calls] == ["shout-1"]


def test_the_unchanged_scenario_has_other_fingerprints(request_: RunRequest) -> None:
    first, second = (each.entry for each in RunPlan(request_).scenarios())
    plain = next(RunPlan(replace(request_, sweep=None)).scenarios()).entry
    assert len({plain.fingerprint, first.fingerprint, second.fingerprint}) == 3
    assert len({plain.trial_fingerprint, first.trial_fingerprint, second.trial_fingerprint}) == 3


def test_a_limit_takes_the_same_variants_each_time(request_: RunRequest) -> None:
    def drawn(seed: int) -> list[str]:
        found = sweeps.sample(RunPlan(request_).scenarios(), 1, seed=seed)
        return [each.entry.key.name for each in found]

    assert len(drawn(0)) == 1
    assert drawn(0) == drawn(0)
    assert {drawn(seed)[0] for seed in range(20)} == {"reads / calls=True", "reads / calls=False"}


def test_a_sweep_is_no_latest_run_no_baseline_and_no_history(request_: RunRequest) -> None:
    execute(replace(request_, sweep=None))
    execute(request_)
    with open_store(".seatrial/runs.db") as store:
        swept, plain = store.runs(2)
        assert swept.sweep
        assert newest_run(store).id == plain.id
        assert find_flaky(store) == []
        with pytest.raises(UsageError, match="is a sweep of changed scenarios"):
            store.set_baseline(swept.id)


def test_a_stored_sweep_resumes_with_the_same_variants(request_: RunRequest) -> None:
    from seatrial.runs.resume import request_again

    execute(request_)
    with open_store(".seatrial/runs.db") as store:
        run = store.runs(1)[0]
    again = request_again(run, RunRequest(sources=(), resume=run.id))
    assert again.sweep == {"kind": "fault"}
    report = execute(again)
    assert report.record.run.id == run.id
    assert len(_trials()) == 2


@pytest.mark.parametrize(("field", "value"), [("executor", "ray"), ("against", "baseline"), ("record", "calls.json")])
def test_what_no_sweep_can_do_is_refused_in_one_line(request_: RunRequest, field: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"--{field}[^\n]+$"):
        RunPlan(replace(request_, **{field: value}))


def test_an_unknown_sweep_is_refused(request_: RunRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with pytest.raises(UsageError, match="'storm' is not known"):
        list(sweeps.expand((), {"kind": "storm"}, models=RunModels()))

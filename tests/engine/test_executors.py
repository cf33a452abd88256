"""All trials of a run: how many at once, when it stops, and that one agent's fault is not another's."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.agents.context import AgentContext
from seatrial.agents.resolve import resolve_agent
from seatrial.engine.executors import LocalExecutor
from seatrial.engine.redact import Redaction, Secret
from seatrial.engine.schedule import Job, TrialSchedule
from seatrial.engine.trial import TrialSettings
from seatrial.evaluators.matchers import matches
from seatrial.evaluators.passfail import PassFail
from seatrial.model.conversation import AgentResult, ErrorKind, ToolCall
from seatrial.model.protocols import AgentReply, PreparedScenario, TrialStart
from seatrial.model.results import RepeatTrial
from seatrial.model.run import Gates, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.model.scenario import Scenario
from seatrial.tools.tool_box import MockSet
from seatrial.users.scripted import ScriptedUser


def a_scenario(
    agent: Any, name: str = "s", *, trials: int = 1, timeout: float = 20.0, **fields: Any
) -> PreparedScenario:
    resolved = resolve_agent(agent)
    return PreparedScenario(
        entry=ScenarioEntry(key=ScenarioKey("suite", name), position=0, fingerprint="f", trials=trials, **fields),
        scenario=Scenario(name=name, input="hello"),
        agent=resolved,
        make_user=lambda index, seed: ScriptedUser(("hello",)),
        make_tools=MockSet.parse(None, matches=matches).open,
        trial_evaluators=(PassFail(),),
        timeout_seconds=timeout,
    )


def finished(
    scenarios: Iterable[PreparedScenario],
    *,
    concurrency: int = 20,
    settings: TrialSettings | None = None,
    **plan: Any,
) -> AsyncGenerator[tuple[Job, Trial], None]:
    schedule = TrialSchedule(scenarios, **plan)
    return LocalExecutor(settings or TrialSettings()).run(schedule, concurrency=concurrency)


def run(scenarios: Iterable[PreparedScenario], **options: Any) -> list[Trial]:
    planned = list(scenarios)

    async def play() -> list[Trial]:
        try:
            return [trial async for _, trial in finished(planned, **options)]
        finally:
            for prepared in planned:
                await prepared.agent.close()

    return asyncio.run(play())


def statuses(trials: Iterable[Trial]) -> list[Status]:
    return [trial.status for trial in sorted(trials, key=lambda trial: trial.index)]


def test_every_trial_is_played_once() -> None:
    trials = run([a_scenario(lambda input: "hi", "a", trials=30), a_scenario(lambda input: "hi", "b", trials=3)])
    assert sorted((trial.key.name, trial.index) for trial in trials) == [
        *(("a", index) for index in range(30)),
        *(("b", index) for index in range(3)),
    ]
    assert {trial.status for trial in trials} == {Status.PASSED}


def test_nothing_to_play_ends_at_once() -> None:
    assert run([]) == []
    assert run([a_scenario(lambda input: "hi", skip="not yet")]) == []


@pytest.mark.parametrize("concurrency", [1, 4])
def test_no_more_trials_run_at_once_than_the_concurrency_allows(concurrency: int) -> None:
    lock = threading.Lock()
    now = most = 0

    def agent(input: str) -> str:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.002)
        with lock:
            now -= 1
        return "hi"

    run([a_scenario(agent, trials=20)], concurrency=concurrency)
    assert most <= concurrency


def test_as_many_trials_run_at_once_as_the_concurrency_allows() -> None:
    together = threading.Barrier(5)

    def agent(input: str) -> str:
        together.wait(20)
        return "hi"

    assert set(statuses(run([a_scenario(agent, trials=5)], concurrency=5))) == {Status.PASSED}


def test_fail_fast_starts_nothing_more() -> None:
    trials = run([a_scenario(lambda input: "", trials=50)], concurrency=1, fail_fast=True)
    assert statuses(trials) == [Status.FAILED]


def test_fail_fast_with_a_lower_threshold_stops_only_when_it_is_lost() -> None:
    scenario = a_scenario(lambda input: "", trials=10, gates=Gates(threshold=0.7))
    assert len(run([scenario], concurrency=1, fail_fast=True)) == 4


def test_known_answers_are_not_played_again() -> None:
    scenario = a_scenario(lambda input: "hi", trials=5)
    trials = run([scenario], known={scenario.entry.key: {0: True, 3: False}})
    assert sorted(trial.index for trial in trials) == [1, 2, 4]


def test_a_sequential_test_ends_when_it_is_decided() -> None:
    auto = {"good": 0.9, "bad": 0.7, "alpha": 0.05, "beta": 0.05, "max_trials": 60, "rule": 2}
    assert len(run([a_scenario(lambda input: "hi", trials=60, sequential=auto)])) == 10
    assert len(run([a_scenario(lambda input: "", trials=60, sequential=auto)])) == 3


def test_a_run_whose_trials_are_taken_slowly_holds_back() -> None:
    played = []
    scenario = a_scenario(lambda input: played.append(1) or "hi", trials=500)

    async def play() -> int:
        trials = finished([scenario], concurrency=2)
        await anext(trials)
        for _ in range(200):
            await asyncio.sleep(0.001)
        ahead = len(played)
        await trials.aclose()
        await scenario.agent.close()
        return ahead

    assert asyncio.run(play()) < 20


def test_closing_the_run_cancels_the_trials_in_flight() -> None:
    ended = threading.Event()

    async def agent(input: str) -> str:
        if not begun:
            begun.append(asyncio.Event())
            await begun[0].wait()
            return "the first"
        begun[0].set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    begun: list[asyncio.Event] = []
    scenario = a_scenario(agent, trials=3)

    async def play() -> None:
        trials = finished([scenario], concurrency=3)
        await anext(trials)
        await trials.aclose()
        await scenario.agent.close()

    asyncio.run(play())
    assert ended.wait(20)


# Agents that misbehave.


def test_one_agent_that_blocks_its_loop_for_ever_is_the_only_one_to_time_out() -> None:
    release = threading.Event()

    async def agent(ctx: AgentContext) -> str:
        await asyncio.sleep(0.01)
        if ctx.trial_id.endswith("-4"):
            while not release.is_set():
                time.sleep(0.005)
        for _ in range(20):
            await asyncio.sleep(0.01)
        return "hi"

    trials = run([a_scenario(agent, trials=10, timeout=2.0)], concurrency=10)
    release.set()
    expected = [Status.PASSED] * 10
    expected[3] = Status.ERRORED
    assert statuses(trials) == expected
    culprit = next(trial for trial in trials if trial.index == 3)
    assert culprit.error is not None
    assert culprit.error.kind is ErrorKind.LIMIT


def test_agents_that_exit_interrupt_or_cancel_are_errored_and_the_others_pass() -> None:
    async def sub_task() -> None:
        sys.exit(0)

    async def agent(ctx: AgentContext) -> str:
        match ctx.trial_id[-1]:
            case "1":
                sys.exit(0)
            case "2":
                raise KeyboardInterrupt
            case "3":
                await asyncio.create_task(sub_task())
            case "4":
                raise asyncio.CancelledError
            case "5":
                raise GeneratorExit
        return "hi"

    trials = run([a_scenario(agent, trials=8)], concurrency=8)
    assert statuses(trials) == [Status.ERRORED] * 5 + [Status.PASSED] * 3
    assert {trial.error.kind for trial in trials if trial.error} == {ErrorKind.AGENT}


def test_a_trial_that_is_disturbed_is_played_again() -> None:
    class Disturbed:
        name = "disturbed"
        answers_own_tools = keeps_conversation = True
        times = 0

        def open(self, start: Any) -> "Disturbed":
            return self

        async def respond(self, messages: Any, *, timeout: float) -> AgentReply:
            self.times += 1
            if self.times < 4:
                raise RepeatTrial("another blocked")
            return AgentReply(reply="hi")

        async def close(self) -> None: ...

    agent = Disturbed()
    assert statuses(run([a_scenario(agent)])) == [Status.PASSED]
    assert agent.times == 4


def test_a_trial_that_is_disturbed_for_ever_is_errored_in_the_end() -> None:
    class Disturbed:
        name = "disturbed"
        answers_own_tools = keeps_conversation = True

        def open(self, start: Any) -> "Disturbed":
            return self

        async def respond(self, messages: Any, *, timeout: float) -> AgentReply:
            raise RepeatTrial("another blocked")

        async def close(self) -> None: ...

    (trial,) = run([a_scenario(Disturbed())])
    assert trial.error is not None
    assert (trial.status, trial.error.kind) == (Status.ERRORED, ErrorKind.INFRA)


def test_a_fault_in_the_schedule_ends_the_run_instead_of_holding_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*args: Any) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(TrialSchedule, "note", fault)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        run([a_scenario(lambda input: "hi", trials=30)])


def test_scenarios_that_break_off_on_the_way_end_the_run_with_their_own_error() -> None:
    def scenarios() -> Iterator[PreparedScenario]:
        yield a_scenario(lambda input: "hi", trials=50)
        raise RuntimeError("the file is gone")

    async def play() -> list[Trial]:
        return [trial async for _, trial in finished(scenarios())]

    with pytest.raises(RuntimeError, match="the file is gone"):
        asyncio.run(play())


def test_a_trial_is_gone_when_it_is_over_without_help_of_the_garbage_collector() -> None:
    gc.disable()
    try:
        run([a_scenario(lambda input: AgentResult("hi", [ToolCall("t")]), "let go", trials=20)])
        held = [one for one in gc.get_objects() if isinstance(one, TrialStart) and one.scenario == "let go"]
        assert len(held) <= 1  # the thread that answered last may not have let go yet
    finally:
        gc.enable()


def test_redaction_is_applied_to_what_is_yielded() -> None:
    redaction = Redaction([Secret("KEY", "sk-1234567890")])
    (trial,) = run([a_scenario(lambda input: "sk-1234567890")], settings=TrialSettings(redaction=redaction))
    assert trial.transcript.reply == "[redacted]"


# Whole processes.

AGENT = """
import os, sys, threading
def prints(input):
    print("from the agent"); os.write(1, b"raw bytes\\n"); sys.stderr.write("noise\\n"); return "hi"
def exits(input): sys.exit(0)
def never(input): threading.Event().wait()
"""

RUN = """
import json, sys, seatrial
from seatrial import Scenario, Suite, SuiteConfig
suite = Suite(name="s", scenarios=[Scenario(name="a", input="hello", timeout_seconds=0.2)])
report = seatrial.run(suite, agent=f"misbehaving:{sys.argv[1]}", store=None)
with open("verdict.json", "w") as out:
    json.dump([report.passed, list(report.failure_reasons)], out)
sys.exit(0 if report.passed else 1)
"""


@pytest.mark.parametrize(("agent", "code"), [("prints", 0), ("exits", 1), ("never", 1)])
def test_a_process_ends_with_the_verdict_whatever_the_agent_does(agent: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "misbehaving.py").write_text(AGENT)
    done = subprocess.run(
        [sys.executable, "-c", RUN, agent],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    passed, _ = json.loads((tmp_path / "verdict.json").read_text())
    assert passed is (code == 0)

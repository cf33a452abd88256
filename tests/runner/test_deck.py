"""Plain trials, played in threads without an event loop: what a user would notice if it were done wrong."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Iterator
from contextvars import ContextVar
from typing import Any, ClassVar

import pytest

from seatrial import AgentResult, EvalResult, Scenario, Suite, ToolCall, Turn, arun, evaluator
from seatrial import run as run_suite
from seatrial.agents import AgentContext
from seatrial.session import Report
from seatrial.vocabulary.conversation import ErrorKind
from seatrial.vocabulary.run import Status, Trial

PATIENCE = 20.0
"""For what must end well: never reached, and long enough for a busy machine."""


def scenarios(count: int, **fields: Any) -> list[Scenario]:
    return [Scenario(name=f"s{number}", input=f"hello {number}", **fields) for number in range(count)]


def play(agent: Any, *scenarios: Scenario, **options: Any) -> Report:
    return run_suite(Suite(name="suite", scenarios=scenarios), agent=agent, store=None, **options)


def trials_of(report: Report) -> Iterator[Trial]:
    for outcome in report.outcome.scenarios:
        yield from report.record.trials(outcome.entry.key)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Lets agents go that hang."""
    event = threading.Event()
    yield event
    event.set()


class Crowd:
    """Counts how many are inside at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = self.most = 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._now -= 1


def test_quick_trials_are_played_by_one_thread_that_is_not_the_main_one() -> None:
    def threads_of_a_run() -> set[threading.Thread]:
        threads = set()

        def agent(input: str) -> str:
            threads.add(threading.current_thread())
            return input

        assert play(agent, *scenarios(500)).passed
        return threads

    # On a busy machine an agent may look as if it blocked: not each time.
    found = [threads_of_a_run() for _ in range(5)]
    assert min(map(len, found)) == 1
    assert all(thread.daemon and thread is not threading.main_thread() for threads in found for thread in threads)


def test_trials_that_block_are_played_side_by_side_even_after_quick_ones() -> None:
    together = threading.Barrier(5)

    def agent(input: str) -> str:
        if int(input.split()[1]) >= 100:
            together.wait(PATIENCE)
        return input

    assert play(agent, *scenarios(105), concurrency=5).passed


def test_at_no_time_are_more_trials_under_way_than_allowed_wherever_they_are_played() -> None:
    crowd = Crowd()

    def agent(input: str) -> str:
        with crowd:
            time.sleep(0.003)
        return input

    @evaluator
    def foreign(ctx: Any) -> bool:
        return True

    mixed = [
        Scenario(name=f"s{number}", input="hello", scorers=["passfail", foreign] if number % 3 else None)
        for number in range(60)
    ]
    report = play(agent, *mixed, concurrency=3)
    assert report.passed, report.failure_reasons
    assert 1 < crowd.most <= 3


def test_quick_trials_that_wait_get_no_more_threads_than_allowed_when_the_agent_slows_down() -> None:
    crowd = Crowd()

    def agent(input: str) -> str:
        if int(input.split()[1]) > 20:
            with crowd:
                time.sleep(0.003)
        return input

    assert play(agent, *scenarios(80), concurrency=3).passed
    assert 1 < crowd.most <= 3


def test_an_agent_that_hangs_after_many_quick_answers_times_out_alone(release: threading.Event) -> None:
    def agent(input: str) -> str:
        if input == "hello 250":
            release.wait(PATIENCE)
        return input

    report = play(agent, *scenarios(400, timeout_seconds=1.0))
    assert report.outcome.totals.passed_count == 399
    [errored] = [trial for trial in trials_of(report) if trial.status is Status.ERRORED]
    assert errored.key.name == "s250"
    assert errored.error is not None
    assert errored.error.kind is ErrorKind.LIMIT
    assert "within 1 s" in errored.error.message
    assert [turn.user for turn in errored.transcript.turns] == ["hello 250"]


def test_an_answer_that_comes_too_late_changes_nothing(release: threading.Event) -> None:
    came_back = threading.Event()

    def agent(input: str) -> str:
        if input == "hello 0":
            release.wait(PATIENCE)
            came_back.set()
        elif input == "hello 1":
            release.set()
            came_back.wait(PATIENCE)
        return input

    first, second = scenarios(2, expected_output="hello")
    first = Scenario(name="late", input="hello 0", timeout_seconds=0.1)
    report = play(agent, first, second, concurrency=1)
    assert [outcome.verdict.status for outcome in report.outcome.scenarios] == [Status.ERRORED, Status.PASSED]
    assert report.outcome.totals.total_executions == 2


def test_a_plain_function_that_returns_an_awaitable_is_awaited() -> None:
    async def later(input: str) -> str:
        await asyncio.sleep(0)
        return input.upper()

    def agent(input: str) -> Awaitable[str]:
        return later(input)

    assert play(agent, *scenarios(50, expected_output="hello")).passed


def test_agents_see_the_context_variables_of_whoever_runs_them_and_not_each_others() -> None:
    tenant = ContextVar("tenant", default="nobody")

    def looks(input: str) -> str:
        seen = tenant.get()
        tenant.set("somebody else")
        return seen

    async def later() -> str:
        return looks("")

    tenant.set("us")
    assert play(looks, *scenarios(30, expected_output="us")).passed
    assert play(lambda input: later(), *scenarios(30, expected_output="us")).passed


def test_an_agent_that_asks_for_tools_gets_them_from_the_mocks() -> None:
    def agent(messages: list[Any]) -> Any:
        if messages[-1]["role"] == "tool":
            return f"it is {messages[-1]['content']}"
        call = {"name": "weather", "arguments": "{}"}
        return {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": call}]}

    asked = scenarios(30, mocks={"weather": {"returns": "sunny"}}, expected_tools=["weather"], expected_output="sunny")
    report = play(agent, *asked)
    assert report.passed, report.failure_reasons


def test_a_trial_that_goes_on_on_the_loop_still_counts_as_under_way() -> None:
    under_way: set[str] = set()
    most = 0

    def agent(messages: list[Any]) -> Any:
        nonlocal most
        asked = messages[0]["content"]
        if messages[-1]["role"] == "tool":
            under_way.discard(asked)
            return "done"
        under_way.add(asked)
        most = max(most, len(under_way))
        call = {"name": "weather", "arguments": "{}"}
        return {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": call}]}

    def quick_at_first(messages: list[Any]) -> Any:
        return "done" if int(messages[0]["content"].split()[1]) < 20 else agent(messages)

    mocks = {"weather": {"returns": "sunny", "delay_ms": 5}}
    report = play(quick_at_first, *scenarios(60, mocks=mocks), concurrency=1)
    assert report.passed, report.failure_reasons
    assert most == 1


def test_an_agent_that_calls_tools_by_its_context_gets_them_from_the_mocks() -> None:
    def agent(ctx: AgentContext) -> str:
        return f"it is {ctx.call_tool('weather')}"

    asked = scenarios(30, mocks={"weather": {"returns": "sunny"}}, expected_tools=["weather"], expected_output="sunny")
    report = play(agent, *asked)
    assert report.passed, report.failure_reasons


def test_an_agent_that_fails_is_asked_again_as_often_as_it_may_be() -> None:
    seen: set[str] = set()

    def agent(input: str) -> str:
        if input not in seen:
            seen.add(input)
            raise ConnectionError("not yet")
        return input

    report = play(agent, *scenarios(30, retries=1))
    assert report.passed, report.failure_reasons
    assert {trial.transcript.turns[0].retries for trial in trials_of(report)} == {1}


def test_an_object_that_is_made_for_each_trial_is_closed_after_it() -> None:
    class Agent:
        opened = closed = 0

        def __init__(self) -> None:
            Agent.opened += 1

        def run(self, input: str) -> str:
            return input

        def close(self) -> None:
            Agent.closed += 1

    assert play(Agent, *scenarios(50)).passed
    assert (Agent.opened, Agent.closed) == (50, 50)


@pytest.mark.parametrize("concurrency", [1, 20])
def test_fail_fast_begins_nothing_that_was_only_about_to_be_played(concurrency: int) -> None:
    asked: list[str] = []

    def agent(input: str) -> str:
        asked.append(input)
        return "" if input == "hello 40" else input

    report = play(agent, *scenarios(400), fail_fast=True, concurrency=concurrency)
    assert not report.passed
    assert 41 <= len(asked) < 41 + concurrency


def test_a_budget_that_is_spent_begins_nothing_that_was_only_about_to_be_played() -> None:
    report = play(lambda input: AgentResult(input, cost_usd=0.4), *scenarios(400), budget=1.0, concurrency=1)
    assert report.outcome.totals.passed_count == 3


def test_evaluators_of_the_users_own_stay_on_the_thread_of_the_run() -> None:
    threads = set()

    @evaluator
    def looks_around(ctx: Any) -> EvalResult:
        threads.add(threading.current_thread())
        return EvalResult(passed=True, reasoning="seen")

    assert play(lambda input: input, *scenarios(20, scorers=[looks_around])).passed
    assert threads == {threading.current_thread()}


def test_conversations_take_turns_so_that_an_agent_that_mixes_them_up_is_found_out() -> None:
    said: list[str] = []

    def agent(messages: list[Any]) -> str:
        said.append(messages[-1]["content"])
        return said[-2] if len(messages) > 1 else "hello"

    both = [
        Scenario(name=name, turns=[Turn(user=name), Turn(user="and?", expect={"reply_contains_all": [name]})])
        for name in ("anne", "bert", "cleo")
    ]
    assert not play(agent, *both).passed


def test_what_an_agent_lists_as_its_calls_is_the_evidence() -> None:
    def agent(input: str) -> AgentResult:
        return AgentResult(input, [ToolCall("lookup", {"text": input})])

    report = play(agent, *scenarios(30, expected_tools=["lookup"]))
    assert report.passed
    calls = [call for trial in trials_of(report) for call in trial.transcript.tool_calls or ()]
    assert sorted(call.arguments["text"] for call in calls if call.arguments) == sorted(
        f"hello {number}" for number in range(30)
    )


def test_a_run_that_is_cancelled_waits_for_no_agent_and_closes_what_was_made(release: threading.Event) -> None:
    hanging = threading.Event()

    class Agent:
        opened: ClassVar[list[object]] = []
        closed: ClassVar[list[object]] = []

        def __init__(self) -> None:
            Agent.opened.append(self)

        def run(self, input: str) -> str:
            if input == "hello 3":
                hanging.set()
                release.wait(PATIENCE)
            return input

        def close(self) -> None:
            Agent.closed.append(self)

    async def interrupted() -> None:
        suite = Suite(name="suite", scenarios=scenarios(10))
        running = asyncio.create_task(arun(suite, agent=Agent, store=None, concurrency=1))
        await asyncio.to_thread(hanging.wait, PATIENCE)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupted())
    assert not release.is_set()
    assert len(Agent.opened) == 4
    assert Agent.closed == Agent.opened

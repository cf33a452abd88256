"""Which trial comes next: fixed numbers, sequential tests, resumed runs, fail-fast."""

import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.engine.schedule import Job, TrialSchedule
from seatrial.model.conversation import ErrorInfo, ErrorKind, StopReason, Transcript
from seatrial.model.protocols import PreparedScenario
from seatrial.model.run import Gates, HistoryTest, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.model.scenario import Scenario
from seatrial.statistics.sequential import SequentialTest, decide_sequentially

AUTO = {"good": 0.9, "bad": 0.7, "alpha": 0.05, "beta": 0.05, "max_trials": 60, "rule": 2}


def a_scenario(name: str = "s", *, trials: int = 1, auto: bool = False, **fields: Any) -> PreparedScenario:
    entry = ScenarioEntry(
        key=ScenarioKey("suite", name),
        position=0,
        fingerprint="f",
        trials=60 if auto else trials,
        sequential=AUTO if auto else None,
        **fields,
    )
    nothing: Any = None
    return PreparedScenario(
        entry=entry, scenario=Scenario(name=name), agent=nothing, make_user=nothing, make_tools=nothing
    )


def a_trial(prepared: PreparedScenario, index: int, status: Status, kind: ErrorKind | None = None) -> Trial:
    return Trial(
        key=prepared.entry.key,
        index=index,
        status=status,
        error=None if kind is None else ErrorInfo(kind=kind, message=""),
        transcript=Transcript(turns=(), stop_reason=StopReason.SCRIPT_ENDED),
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def all_now(plan: TrialSchedule) -> list[tuple[str, int]]:
    """Everything that can be started at this moment."""
    found = []
    while (job := plan.next()) is not None:
        found.append((job.prepared.entry.key.name, job.index))
    return found


def note(plan: TrialSchedule, prepared: PreparedScenario, answers: Mapping[int, bool | None]) -> None:
    for index, passed in answers.items():
        if passed is None:
            plan.note(Job(prepared=prepared, index=index), a_trial(prepared, index, Status.ERRORED, ErrorKind.JUDGE))
        else:
            plan.note(
                Job(prepared=prepared, index=index),
                a_trial(prepared, index, Status.PASSED if passed else Status.FAILED),
            )


# Fixed numbers.


def test_the_trials_of_each_scenario_come_in_order() -> None:
    plan = TrialSchedule([a_scenario("a", trials=2), a_scenario("b")])
    assert all_now(plan) == [("a", 0), ("a", 1), ("b", 0)]


def test_a_skipped_scenario_is_not_played() -> None:
    assert all_now(TrialSchedule([a_scenario("a", skip="not yet"), a_scenario("b")])) == [("b", 0)]


def test_a_scenario_that_is_expected_to_fail_is_played() -> None:
    assert all_now(TrialSchedule([a_scenario("a", xfail="known bug")])) == [("a", 0)]


def test_a_resumed_run_plays_only_what_is_missing() -> None:
    known = {ScenarioKey("suite", "a"): {0: True, 2: False}}
    assert all_now(TrialSchedule([a_scenario("a", trials=4)], known=known)) == [("a", 1), ("a", 3)]


def test_scenarios_are_read_only_as_they_are_needed() -> None:
    read = []

    def stream() -> Iterable[PreparedScenario]:
        for number in range(1000):
            read.append(number)
            yield a_scenario(f"s{number}")

    plan = TrialSchedule(stream())
    for _ in range(3):
        plan.next()
    assert len(read) == 3


def test_the_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    def order(seed: int | None) -> list[tuple[str, int]]:
        return all_now(TrialSchedule([a_scenario(f"s{number}") for number in range(50)], shuffle_seed=seed))

    assert order(1) == order(1)
    assert order(1) != order(2) != order(None)
    assert sorted(order(1)) == sorted(order(None))


# Fail-fast.


def test_fail_fast_stops_at_the_first_trial_that_makes_a_pass_impossible() -> None:
    scenario = a_scenario("a", trials=3)
    plan = TrialSchedule([scenario, a_scenario("b")], fail_fast=True)
    plan.next()
    note(plan, scenario, {0: False})
    assert plan.stopped
    assert plan.next() is None


def test_fail_fast_goes_on_while_the_threshold_can_still_be_reached() -> None:
    scenario = a_scenario("a", trials=5, gates=Gates(threshold=0.6))
    plan = TrialSchedule([scenario], fail_fast=True)
    note(plan, scenario, {0: False, 1: False})
    assert not plan.stopped
    note(plan, scenario, {2: False})
    assert plan.stopped


def test_fail_fast_counts_errored_trials_as_not_passed() -> None:
    scenario = a_scenario("a", trials=1)
    plan = TrialSchedule([scenario], fail_fast=True)
    note(plan, scenario, {0: None})
    assert plan.stopped


def test_fail_fast_with_a_gate_goes_on_while_the_gate_can_still_be_passed() -> None:
    scenario = a_scenario("a", trials=60, gates=Gates(pass_rate=0.9, confidence=0.95))
    plan = TrialSchedule([scenario], fail_fast=True)
    note(plan, scenario, {0: False})
    assert not plan.stopped
    note(plan, scenario, {1: False, 2: False})
    assert plan.stopped


def test_fail_fast_counts_what_an_interrupted_run_had_missed() -> None:
    scenario = a_scenario("a", trials=5, gates=Gates(threshold=0.6))
    plan = TrialSchedule([scenario], fail_fast=True, known={scenario.entry.key: {0: False, 1: None}})
    note(plan, scenario, {2: True})
    assert not plan.stopped
    note(plan, scenario, {3: False})
    assert plan.stopped


def test_fail_fast_does_not_stop_for_a_failure_that_was_foretold() -> None:
    scenario = a_scenario("a", xfail="known bug")
    plan = TrialSchedule([scenario], fail_fast=True)
    note(plan, scenario, {0: False})
    assert not plan.stopped


def test_without_fail_fast_nothing_stops() -> None:
    scenario = a_scenario("a", trials=3)
    plan = TrialSchedule([scenario])
    note(plan, scenario, {0: False, 1: False})
    assert len(all_now(plan)) == 3


def test_fail_fast_stops_when_a_sequential_test_has_failed() -> None:
    scenario = a_scenario("a", auto=True)
    plan = TrialSchedule([scenario, a_scenario("b")], fail_fast=True)
    assert len(all_now(plan)) > 1
    note(plan, scenario, {0: False, 1: False, 2: False})
    assert plan.stopped


# Sequential tests.


def test_no_more_trials_are_in_flight_than_the_nearest_verdict_needs() -> None:
    scenario = a_scenario("a", auto=True)
    plan = TrialSchedule([scenario])
    nearest = decide_sequentially([], SequentialTest()).fewest_more
    assert all_now(plan) == [("a", index) for index in range(nearest)]
    assert all_now(plan) == []


def test_the_next_scenario_begins_while_a_sequential_test_waits() -> None:
    plan = TrialSchedule([a_scenario("a", auto=True), a_scenario("b", trials=2)])
    assert [name for name, _ in all_now(plan)] == ["a", "a", "a", "b", "b"]


def test_a_test_that_is_decided_while_it_waits_for_a_worker_asks_for_no_more() -> None:
    scenario = a_scenario("a", auto=True)
    plan = TrialSchedule([scenario])
    # Two workers take two trials; the third, which the test wanted too, is not yet taken.
    assert [plan.next(), plan.next()] == [Job(prepared=scenario, index=0), Job(prepared=scenario, index=1)]
    plan.note(Job(prepared=scenario, index=0), a_trial(scenario, 0, Status.FAILED))
    plan.note(Job(prepared=scenario, index=1), a_trial(scenario, 1, Status.FAILED))
    assert plan.next() == Job(prepared=scenario, index=2)
    plan.note(Job(prepared=scenario, index=2), a_trial(scenario, 2, Status.FAILED))
    assert plan.next() is None


def test_quick_trials_do_not_speak_before_slow_ones() -> None:
    scenario = a_scenario("a", auto=True)
    plan = TrialSchedule([scenario], fail_fast=True)
    all_now(plan)
    # Two failures came in, and a third; but the first of all is still out, so nothing is decided.
    note(plan, scenario, {1: False, 2: False})
    more = [index for _, index in all_now(plan)]
    note(plan, scenario, dict.fromkeys(more, False))
    assert not plan.stopped
    note(plan, scenario, {0: False})
    assert plan.stopped


def test_a_resumed_sequential_test_goes_on_where_it_was() -> None:
    scenario = a_scenario("a", auto=True)
    known = {scenario.entry.key: dict.fromkeys(range(9), True)}
    plan = TrialSchedule([scenario], known=known)
    first = plan.next()
    assert first is not None
    assert first.index == 9


def test_a_resumed_sequential_test_that_is_decided_plays_nothing() -> None:
    scenario = a_scenario("a", auto=True)
    assert all_now(TrialSchedule([scenario], known={scenario.entry.key: dict.fromkeys(range(3), False)})) == []


def test_trials_without_an_answer_are_replaced_by_further_ones() -> None:
    scenario = a_scenario("a", auto=True)
    plan = TrialSchedule([scenario])
    all_now(plan)
    note(plan, scenario, {0: None, 1: None, 2: None})
    assert [index for _, index in all_now(plan)] == [3, 4, 5]


def play_out(answers: list[bool | None], order: Any, concurrency: int) -> tuple[int, list[int]]:
    """Play a sequential test to its end, trials finishing in any order; (most in flight at once, trials played)."""
    scenario = a_scenario("a", auto=True)
    plan = TrialSchedule([scenario])
    in_flight: list[int] = []
    played: list[int] = []
    most = 0
    while True:
        while len(in_flight) < concurrency and (job := plan.next()) is not None:
            in_flight.append(job.index)
        if not in_flight:
            return most, played
        most = max(most, len(in_flight))
        index = in_flight.pop(order.randrange(len(in_flight)))
        played.append(index)
        note(plan, scenario, {index: answers[index]})


@given(
    answers=st.lists(st.sampled_from([True, True, True, False, None]), min_size=120, max_size=120),
    order=st.randoms(use_true_random=False),
    concurrency=st.integers(1, 20),
)
@settings(max_examples=60, deadline=None)
def test_the_order_in_which_trials_finish_does_not_change_the_verdict(
    answers: list[bool | None], order: Any, concurrency: int
) -> None:
    most, played = play_out(answers, order, concurrency)
    test = SequentialTest()
    in_order = [answers[index] for index in sorted(played)]
    assert sorted(played) == list(range(len(played)))
    assert decide_sequentially(in_order, test).verdict == decide_sequentially(answers, test).verdict
    assert most <= 10


@pytest.mark.parametrize("passes", [True, False])
def test_one_trial_at_a_time_plays_not_one_too_many(passes: bool) -> None:
    _, played = play_out([passes] * 60, random.Random(1), 1)
    assert len(played) == decide_sequentially([passes] * 60, SequentialTest()).trials_used


# Tests against a history.

HISTORY = HistoryTest(passed=98, total=100, boundary=5.5, first=3, drop=0.4, beta=0.2, max_trials=48)


def test_the_first_trials_of_every_scenario_come_before_more_of_any() -> None:
    plan = TrialSchedule([a_scenario(name, trials=48, history=HISTORY) for name in "ab"])
    started = all_now(plan)
    assert started[:6] == [(name, index) for name in "ab" for index in range(3)]


def test_a_scenario_stops_where_its_history_is_confirmed() -> None:
    prepared = a_scenario("a", trials=48, history=HISTORY)
    plan = TrialSchedule([prepared])
    started = 0
    while now := all_now(plan):
        note(plan, prepared, {index: True for _, index in now})
        started += len(now)
    assert started == 4


def test_the_first_trials_run_even_after_the_decision() -> None:
    prepared = a_scenario("a", trials=48, history=HISTORY)
    plan = TrialSchedule([prepared], known={prepared.entry.key: {0: False, 1: False}})
    assert all_now(plan) == [("a", 2)]


def test_instrument_errors_are_replaced_and_do_not_use_up_trials() -> None:
    answers: list[bool | None] = []
    while len(answers) < 60:  # every fourth trial has an error, and the others do not decide
        if len(answers) % 4 == 3:
            answers.append(None)
        else:
            undecided = decide_sequentially([*answers, False], SequentialTest()).verdict == "continue"
            answers.append(not undecided)
    assert decide_sequentially(answers, SequentialTest()).verdict == "continue"
    prepared = a_scenario("a", auto=True)
    plan = TrialSchedule([prepared], known={prepared.entry.key: dict(enumerate(answers))})
    assert plan.next() is not None


def test_a_judge_that_is_down_ends_the_trials() -> None:
    prepared = a_scenario("a", trials=48, history=HISTORY)
    plan = TrialSchedule([prepared], known={prepared.entry.key: dict.fromkeys(range(48))})
    assert plan.next() is None

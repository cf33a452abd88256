"""What every store must do, held against SQLite and against a real PostgreSQL."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from seatrial.errors import StoreError, UsageError
from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript, Usage
from seatrial.model.results import (
    BehaviourFailure,
    Check,
    EvalResult,
    JudgeExchange,
    Judgement,
    MetricScore,
    ModelUse,
    OutcomeResult,
    Severity,
    TrajectoryMatch,
)
from seatrial.model.run import Gates, Run, RunGates, RunState, ScenarioEntry, ScenarioKey, Status, Trial, summarise
from seatrial.store.export_import import Imported
from seatrial.store.runs import Label
from seatrial.store.store import Store, open_store

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
KEY = ScenarioKey("support", "order lookup")
OTHER = ScenarioKey("support", "refund", "b")
NUMBERS = count()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of a store that does not exist yet."""
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    import psycopg

    server: str = request.getfixturevalue("postgres")
    name = f"store_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened


def a_run(id: str = "r1", **fields: Any) -> Run:
    return Run(id=id, **{"name": "nightly", "started_at": NOON, **fields})


def an_entry(key: ScenarioKey = KEY, *, position: int = 0, trials: int = 3, **fields: Any) -> ScenarioEntry:
    return ScenarioEntry(key=key, position=position, fingerprint="f00d", trials=trials, **fields)


def a_trial(index: int = 0, *, key: ScenarioKey = KEY, status: Status = Status.PASSED, result: Any = None) -> Trial:
    call = ToolCall("lookup_order", {"order_id": "ORD-789"}, result)
    turn = PlayedTurn(index=0, user="Where is it?", reply="Shipped.", tool_calls=(call,), latency_ms=12.5)
    return Trial(
        key=key,
        index=index,
        status=status,
        transcript=Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED),
        results=(EvalResult(passed=status is Status.PASSED, evaluator="passfail"),),
        started_at=NOON,
    )


def a_full_trial() -> Trial:
    """One that has something in every field."""
    error = ErrorInfo(kind=ErrorKind.JUDGE, message="no answer", hint="ask again", turn=1, traceback="Traceback")
    usage = Usage(input_tokens=10, output_tokens=2)
    call = ToolCall("find", {"q": [1, {"deep": None}]}, {"ok": True}, "slow", "call_1", 0.5, 1.5)
    silent = PlayedTurn(index=1, user="And?", reply=None, tool_calls=None, started_ms=20.0, latency_ms=7.0, error=error)
    spoken = PlayedTurn(
        index=0, user="Hi", reply="Hello", tool_calls=(call,), latency_ms=3.0, usage=usage, cost_usd=0.1, retries=2
    )
    match = TrajectoryMatch(mode="strict", matched=False, missing_calls=("a",), diff=("- a",), actual=("find",))
    return Trial(
        key=KEY,
        index=0,
        status=Status.ERRORED,
        failure_reasons=("1 trial errored", "Trajectory assertion failed in 1 trial"),
        error=error,
        transcript=Transcript(
            turns=(spoken, silent),
            stop_reason=StopReason.ERROR,
            history=({"role": "system", "content": "be kind"},),
            state={"orders": {"1": "open"}},
            error=error,
            duration_ms=30.25,
        ),
        results=(
            EvalResult(passed=False, reasoning="no", score=0.25, checks=(Check(name="c", passed=False, detail="d"),)),
            EvalResult(passed=False, error=error, evaluator="trajectory", turn=0, trajectory=match),
        ),
        judgement=Judgement(
            scores=(MetricScore(metric="helpfulness", value=3.5, reason="ok", turn=0, label="good", weight=0.5),),
            outcomes=(OutcomeResult(id="o1", statement="It is done.", passed=True, justification="seen"),),
            failures=(
                BehaviourFailure(category="tone", severity=Severity.HIGH, label="rude", explanation="x", turn=1),
            ),
            overall_score=61.25,
            outcomes_unavailable=True,
            error=error,
            summary="meh",
            details={"model": "m", "votes": 3},
        ),
        instruments=ModelUse(calls=3, cached=1, usage=usage, cost_usd=0.02),
        seed=2**70,
        started_at=datetime(2025, 5, 1, 12, 30, 1, 5, tzinfo=UTC),
        duration_ms=44.5,
    )


def save(store: Store, *trials: Trial, run_id: str = "r1", replace: bool = False) -> list[Trial]:
    committed: list[Trial] = []
    with store.writer(run_id, on_committed=committed.extend) as writer:
        for trial in trials:
            writer.submit(trial, replace=replace)
    return committed


def begin(store: Store, *entries: ScenarioEntry, run: Run | None = None) -> None:
    run = run or a_run()
    store.start_run(run)
    store.add_scenarios(run.id, entries or [an_entry(), an_entry(OTHER, position=1)])


def count_rows(url: str, table: str) -> int:
    if "://" not in url:
        with closing(sqlite3.connect(url)) as connection:
            return int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(f"SELECT COUNT(*) FROM seatrial.{table}").fetchone()
        return int(row[0]) if row else 0


def test_a_trial_comes_back_exactly_as_it_was(store: Store) -> None:
    begin(store)
    trial = a_full_trial()
    assert save(store, trial) == [trial]
    assert repr(store.trial("r1", KEY, 0)) == repr(trial)
    assert repr(list(store.trials("r1", KEY))) == repr([trial])


@pytest.mark.parametrize(
    "value",
    [
        "lone \ud800 and \udc00",
        "\U0001f600 is one character",
        "a\0b",
        [float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324],
        [10**700, -(10**700), 2**63, -(2**64)],
        {"$float": "nan"},
        {"$parts": {"numbers": [[[], "nan"]], "contents": []}, "value": float("nan")},
        ["x" * 20_000, {"$content": "nothing"}, float("nan")],
        [],
        {},
        "",
        0,
        False,
    ],
)
def test_any_tool_result_comes_back_exactly(store: Store, value: Any) -> None:
    begin(store)
    save(store, a_trial(result=value))
    back = store.trial("r1", KEY, 0).transcript.turns[0].tool_calls
    assert back is not None
    assert repr(back[0].result) == repr(value)


def test_a_scenario_and_a_run_may_have_any_name(store: Store) -> None:
    key = ScenarioKey("suite\0\ud800", "n" * 10_000, "\U0001f600")
    begin(store, an_entry(key), run=a_run(name="a\0b\ud800"))
    save(store, a_trial(key=key))
    assert [entry.key for entry in store.entries("r1")] == [key]
    assert [summary.key for summary in store.summaries("r1")] == [key]
    assert store.finished("r1") == {(key, 0)}
    assert store.run("a\0b\ud800").id == "r1"


def test_a_summary_says_what_the_trial_says(store: Store) -> None:
    begin(store)
    trial = a_full_trial()
    save(store, trial)
    assert list(store.summaries("r1")) == [summarise(trial)]


def test_trials_of_one_group_keep_what_only_some_of_them_have(store: Store) -> None:
    begin(store)
    turn = replace(a_trial().transcript.turns[0], usage=Usage(input_tokens=3), cost_usd=0.5)
    errored = replace(a_trial(2, status=Status.ERRORED), error=ErrorInfo(kind=ErrorKind.AGENT, message="down"))
    told = replace(a_trial(1), transcript=replace(a_trial().transcript, turns=(turn,)))
    trials = [a_trial(0), told, errored]
    save(store, *trials)

    assert list(store.summaries("r1")) == [summarise(trial) for trial in trials]


def test_a_number_that_no_column_can_hold_is_not_lost_in_the_summary(store: Store) -> None:
    begin(store)
    judged = Judgement(overall_score=float("nan"))
    turn = replace(a_trial().transcript.turns[0], usage=Usage(input_tokens=2**80), latency_ms=float("inf"))
    save(store, replace(a_trial(), judgement=judged, transcript=replace(a_trial().transcript, turns=(turn,))))
    (summary,) = store.summaries("r1")
    assert (repr(summary.overall_score), summary.tokens, summary.latency_ms) == ("nan", 2**80, float("inf"))


def test_summaries_come_in_the_order_in_which_scenarios_were_added_and_of_trials(store: Store) -> None:
    begin(store, an_entry(KEY, position=1), an_entry(OTHER, position=0))
    save(store, a_trial(1), a_trial(0), a_trial(2, key=OTHER))
    assert [(summary.key, summary.index) for summary in store.summaries("r1")] == [(KEY, 0), (KEY, 1), (OTHER, 2)]
    assert [summary.index for summary in store.summaries("r1", KEY)] == [0, 1]


def test_more_scenarios_and_trials_than_a_page_come_back_complete_and_in_order(store: Store) -> None:
    entries = [an_entry(ScenarioKey("s", f"n{place}"), position=place, trials=1) for place in range(4_500)]
    begin(store, *entries)
    store.add_scenarios("r1", [an_entry(KEY, position=4_500, trials=120)])
    save(store, *(a_trial(key=entry.key) for entry in entries), *(a_trial(index) for index in range(620)))
    assert list(store.entries("r1"))[:-1] == entries
    places = [(summary.key, summary.index) for summary in store.summaries("r1")]
    assert places == [(entry.key, 0) for entry in entries] + [(KEY, index) for index in range(620)]
    assert [trial.index for trial in store.trials("r1", KEY)] == list(range(620))


def test_entries_come_back_exactly(store: Store) -> None:
    entry = an_entry(
        sequential={"p0": 0.7},
        gates=Gates(threshold=0.8, metric_thresholds={"helpfulness": 3.5}, fail_on_error_severity=Severity.HIGH),
        tags=("a", "b"),
        xfail="known",
        source="suite.yaml:3",
    )
    begin(store, entry)
    assert repr(list(store.entries("r1"))) == repr([entry])


def test_adding_the_same_scenarios_again_changes_nothing(store: Store) -> None:
    begin(store)
    store.add_scenarios("r1", [an_entry(), an_entry(OTHER, position=1)])
    assert len(list(store.entries("r1"))) == 2


def test_an_edited_scenario_cannot_join_a_run(store: Store) -> None:
    begin(store)
    with pytest.raises(UsageError, match="'order lookup' of suite 'support' is stored already, and differs"):
        store.add_scenarios("r1", [replace(an_entry(), fingerprint="beef")])


def test_scenarios_of_an_unknown_run_are_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="run 'r9': is not in the store"):
        store.add_scenarios("r9", [an_entry()])


def test_a_trial_cannot_be_saved_twice(store: Store) -> None:
    begin(store)
    save(store, a_trial())
    with pytest.raises(StoreError, match="trial-1 of 'order lookup': is stored already"):
        save(store, a_trial(1), a_trial(0, status=Status.FAILED))
    assert [(summary.index, summary.status) for summary in store.summaries("r1")] == [(0, Status.PASSED)]


def test_a_trial_handed_in_twice_at_once_is_refused(store: Store) -> None:
    begin(store)
    with pytest.raises(StoreError, match="the same trial was handed in twice"):
        save(store, a_trial(), a_trial())
    assert store.finished("r1") == set()


def test_a_trial_takes_the_place_of_another_only_when_asked_to(store: Store) -> None:
    begin(store)
    save(store, a_trial(status=Status.ERRORED), a_trial(1))
    save(store, a_trial(status=Status.PASSED), replace=True)
    assert [summary.status for summary in store.summaries("r1")] == [Status.PASSED, Status.PASSED]
    assert store.trial("r1", KEY, 0).status is Status.PASSED


def test_a_trial_of_a_scenario_that_was_not_planned_is_refused(store: Store) -> None:
    begin(store, an_entry())
    with pytest.raises(StoreError, match="trial-1 of 'refund \\[b\\]': the scenario is not among those of the run"):
        save(store, a_trial(key=OTHER))


def test_a_trial_of_a_run_that_was_deleted_meanwhile_is_refused(store: Store) -> None:
    store.start_run(a_run())
    with pytest.raises(StoreError, match="or the run was deleted"):  # noqa: PT012, SIM117  the writer's end raises it
        with store.writer("r1", on_committed=lambda trials: None) as writer:
            writer.plan([an_entry()])
            writer.flush()
            store.delete_runs(["r1"])
            writer.submit(a_trial())
    assert list(store.summaries("r1")) == []


def test_after_an_error_the_writer_takes_no_more(store: Store) -> None:
    begin(store)
    reported: list[Trial] = []
    writer = store.writer("r1", on_committed=reported.extend)
    writer.submit(a_trial(key=ScenarioKey("no", "such")))
    with pytest.raises(StoreError):
        writer.flush()
    with pytest.raises(StoreError):
        writer.submit(a_trial())
    with pytest.raises(StoreError):
        writer.close()
    assert reported == []
    assert store.finished("r1") == set()


def test_a_trial_is_reported_only_once_others_can_see_it(store: Store, url: str) -> None:
    begin(store)
    seen: list[bool] = []

    def look(trials: list[Trial]) -> None:
        with open_store(url) as other:
            seen.extend((trial.key, trial.index) in other.finished("r1") for trial in trials)

    with store.writer("r1", on_committed=look) as writer:
        for index in range(250):
            writer.submit(a_trial(index))
    assert seen == [True] * 250


def test_flush_returns_once_everything_is_reported(store: Store) -> None:
    begin(store)
    reported: list[Trial] = []
    with store.writer("r1", on_committed=reported.extend) as writer:
        writer.submit(a_trial())
        writer.flush()
        assert [trial.index for trial in reported] == [0]


def test_a_trial_that_is_not_there_is_a_usage_error(store: Store) -> None:
    begin(store)
    with pytest.raises(UsageError, match="run r1: has no trial-4 of 'order lookup'"):
        store.trial("r1", KEY, 3)


def test_a_run_is_found_by_what_people_call_it(store: Store) -> None:
    for number, name in enumerate(["nightly", "nightly", "release"]):
        store.start_run(a_run(f"{'abc'[number]}{number}00", name=name, started_at=NOON + timedelta(hours=number)))
    found = [store.run(ref).id for ref in ("latest", "a000", "b1", "nightly", "release")]
    assert found == ["c200", "a000", "b100", "b100", "c200"]


def test_the_newest_run_is_the_one_that_started_last_wherever_it_ran(store: Store) -> None:
    from datetime import timezone

    east = datetime(2025, 5, 1, 13, tzinfo=timezone(timedelta(hours=5)))  # 08:00 in UTC
    store.start_run(a_run("noon", started_at=NOON))
    store.start_run(a_run("morning", started_at=east))
    assert store.run("latest").id == "noon"
    assert store.run("morning").started_at == east


def test_an_unknown_run_names_the_closest_ones(store: Store) -> None:
    store.start_run(a_run("20250501-abcd", name="nightly"))
    with pytest.raises(UsageError, match=r"no run has the id or name 'nihgtly'. Did you mean 'nightly'"):
        store.run("nihgtly")


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("20261117-000240-d10587", " Did you mean '20261117-000240-d10578'?"),
        ("20261117-000655-a0b3c1", ""),
        ("20250101-000000-aaaaaa", ""),
    ],
)
def test_only_a_slip_in_typing_an_id_is_taken_for_another_one(store: Store, asked: str, meant: str) -> None:
    store.start_run(a_run("20261117-000240-d10578", name="nightly"))
    with pytest.raises(UsageError) as refused:
        store.run(asked)
    assert f"no run has the id or name '{asked}'.{meant} See: seatrial list runs" in str(refused.value)


def test_an_id_prefix_of_several_runs_lists_them(store: Store) -> None:
    store.start_run(a_run("20250501-a"))
    store.start_run(a_run("20250501-b"))
    with pytest.raises(UsageError, match=r"several runs begin with '2025': 20250501-[ab], 20250501-[ab]"):
        store.run("2025")


@pytest.mark.parametrize("ref", ["latest", "r1", "", "a\0b", "\ud800", "%"])
def test_an_empty_store_says_so(store: Store, ref: str) -> None:
    with pytest.raises(UsageError, match="no run is stored yet"):
        store.run(ref)


def test_a_run_cannot_be_started_twice(store: Store) -> None:
    store.start_run(a_run())
    with pytest.raises(UsageError, match="run r1: is stored already"):
        store.start_run(a_run())


def test_a_run_comes_back_exactly(store: Store) -> None:
    run = a_run(
        gates=RunGates(cases_pass_threshold=90.0, groups=({"name": "g", "tags": ["a"]},)),
        config={"paths": ["a.yaml"], "odd": [1, float("nan")]},
        seed=7,
        git_commit="abc",
        git_dirty=True,
        versions={"seatrial": "0.1"},
        parent="r0",
        replayed=True,
    )
    store.start_run(run)
    assert repr(store.run("r1")) == repr(run)


def test_a_run_is_finished_and_resumed(store: Store) -> None:
    store.start_run(a_run())
    store.finish_run("r1", RunState.INTERRUPTED, NOON)
    assert (store.run("r1").state, store.run("r1").finished_at) == (RunState.INTERRUPTED, NOON)
    store.resume_run("r1")
    assert (store.run("r1").state, store.run("r1").finished_at) == (RunState.RUNNING, None)


def test_runs_are_listed_newest_first_with_their_numbers(store: Store) -> None:
    begin(store, an_entry(), run=a_run("old"))
    begin(store, an_entry(), run=a_run("new", name="other", started_at=NOON + timedelta(days=1)))
    save(store, a_trial(), a_trial(1, status=Status.FAILED), a_trial(2, status=Status.ERRORED), run_id="old")
    assert [run.id for run in store.runs()] == ["new", "old"]
    assert [run.id for run in store.runs(1)] == ["new"]
    assert [run.id for run in store.runs(name="nightly")] == ["old"]
    old = store.run_rows()[1]
    assert (old.scenarios, old.trials, old.passed, old.failed, old.errored) == (1, 3, 1, 1, 1)


def test_a_suite_has_its_own_baseline_or_the_general_one(store: Store) -> None:
    assert store.baseline() is None
    store.start_run(a_run("general"))
    store.start_run(a_run("special"))
    store.set_baseline("general")
    store.set_baseline("special", suite="support")
    names = [store.run("baseline").id, store.run("baseline", suite="support").id, store.run("baseline", suite="x").id]
    assert names == ["general", "special", "general"]


def test_a_baseline_can_be_listed_and_cleared(store: Store) -> None:
    for run_id, suite in (("general", None), ("special", "support")):
        store.start_run(a_run(run_id))
        store.set_baseline(run_id, suite=suite)
    assert {suite: run.id for suite, run in store.baselines()} == {None: "general", "support": "special"}
    assert [store.clear_baseline(), store.clear_baseline()] == [True, False]
    assert [suite for suite, _ in store.baselines()] == ["support"]


def test_a_missing_baseline_says_how_to_choose_one(store: Store) -> None:
    with pytest.raises(UsageError, match=r"no baseline is set. Set one: seatrial baseline set RUN"):
        store.run("baseline")
    with pytest.raises(UsageError, match="no run has the id 'r9'"):
        store.set_baseline("r9")


def test_a_baseline_is_deleted_only_by_force(store: Store) -> None:
    begin(store)
    begin(store, run=a_run("r2"))
    store.set_baseline("r1")
    with pytest.raises(UsageError, match="run r1 is a baseline"):
        store.delete_runs(["r2", "r1"])
    assert len(store.runs()) == 2
    assert store.delete_runs(["r1"], force=True) == 1
    assert store.baseline() is None


def test_deleting_an_unknown_run_deletes_nothing(store: Store) -> None:
    begin(store)
    with pytest.raises(UsageError, match="no run has the id or name 'r9'"):
        store.delete_runs(["r1", "r9"])
    assert [run.id for run in store.runs()] == ["r1"]


def test_equal_large_results_are_stored_once_and_go_with_the_last_run_that_has_them(store: Store, url: str) -> None:
    large = {"rows": ["r" * 100] * 500}
    for run_id in ("r1", "r2"):
        begin(store, run=a_run(run_id))
        save(store, a_trial(0, result=large), a_trial(1, result=large), run_id=run_id)
    assert count_rows(url, "contents") == 1
    store.delete_runs(["r1"])
    assert store.trial("r2", KEY, 1).transcript.turns[0].tool_calls[0].result == large  # type: ignore[index]
    store.delete_runs(["r2"])
    tables = ("runs", "scenarios", "trials", "bodies", "contents", "content_uses")
    assert [count_rows(url, table) for table in tables] == [0] * 6


def test_a_large_transcript_is_stored_once_for_a_run_and_its_regrade(store: Store, url: str) -> None:
    trial = a_trial()
    turns = tuple(replace(trial.transcript.turns[0], index=index, reply="long " * 100) for index in range(100))
    trial = replace(trial, transcript=replace(trial.transcript, turns=turns))
    begin(store)
    save(store, trial)
    begin(store, run=a_run("r2", parent="r1"))
    save(store, replace(trial, status=Status.FAILED), run_id="r2")
    assert count_rows(url, "contents") == 1
    assert store.trial("r2", KEY, 0).transcript == trial.transcript


def test_the_system_prompt_of_a_judge_is_stored_once(store: Store, url: str) -> None:
    asked = JudgeExchange(system="You judge an agent. " * 100, message="Was it polite?", answers=("{}",))
    judged = Judgement(summary="s", exchange=asked)
    results = (EvalResult(passed=True, evaluator="judge", exchange=asked),)
    trials = [replace(a_trial(index), judgement=judged, results=results) for index in range(2)]
    begin(store)
    save(store, *trials)
    assert (count_rows(url, "contents"), list(store.trials("r1", KEY))) == (1, trials)


def test_five_megabytes_of_tool_result_come_back(store: Store) -> None:
    begin(store)
    large = "\U0001f600é\0" * 700_000
    save(store, a_trial(result=large))
    (call,) = store.trial("r1", KEY, 0).transcript.tool_calls or ()
    assert call.result == large


def test_a_label_is_kept_once_per_person_and_metric(store: Store) -> None:
    begin(store)
    save(store, a_trial())
    first = Label(run_id="r1", key=KEY, index=0, metric="helpfulness", value=2.0, who="ann", at=NOON)
    second = replace(first, value=4.0)
    others = [replace(first, who="bob"), replace(first, metric="passed", value=1.0)]
    for label in (first, second, *others):
        store.label(label)
    assert sorted(map(repr, store.labels("r1"))) == sorted(map(repr, [second, *others]))
    assert store.labels("r1", metric="passed") == [others[1]]
    assert store.labels("r1", key=OTHER) == []


def test_only_a_stored_trial_can_be_labelled(store: Store) -> None:
    begin(store)
    with pytest.raises(UsageError, match="run r1: has no trial-1 of 'order lookup' to label"):
        store.label(Label(run_id="r1", key=KEY, index=0, metric="m", value=1.0, who="ann", at=NOON))


def an_export(path: Path, *trials: Trial, run: Run | None = None) -> list[bytes]:
    with open_store(path) as store:
        begin(store, run=run)
        save(store, *trials)
        store.finish_run("r1", RunState.FINISHED, NOON)
        return list(store.export_run("r1"))


def test_an_exported_run_is_the_same_in_another_store(store: Store, tmp_path: Path) -> None:
    begin(store)
    trials = [a_full_trial(), a_trial(1, result=["x" * 20_000, [1, float("nan")]])]
    save(store, *trials)
    store.label(Label(run_id="r1", key=KEY, index=0, metric="m", value=1.0, who="ann", at=NOON))
    store.finish_run("r1", RunState.FINISHED, NOON)
    lines = list(store.export_run("r1"))
    assert all(json.loads(line) and line.isascii() and line.endswith(b"\n") for line in lines)
    with open_store(tmp_path / "copy.db") as copy:
        assert copy.import_runs(lines) == [Imported(run_id="r1", added=2, skipped=0)]
        assert list(copy.export_run("r1")) == lines
        assert repr(list(copy.trials("r1", KEY))) == repr(trials)


def test_shards_of_one_run_are_merged(store: Store, tmp_path: Path) -> None:
    one = an_export(tmp_path / "1.db", a_trial(0), a_trial(1))
    two = an_export(tmp_path / "2.db", a_trial(1), a_trial(2), run=a_run(started_at=NOON - timedelta(minutes=1)))
    store.import_runs(one)
    assert store.import_runs(two) == [Imported(run_id="r1", added=1, skipped=1)]
    assert store.finished("r1") == {(KEY, 0), (KEY, 1), (KEY, 2)}
    run = store.run("r1")
    assert (run.started_at, run.state) == (NOON - timedelta(minutes=1), RunState.FINISHED)


def test_shards_that_played_the_same_trial_differently_are_refused(store: Store, tmp_path: Path) -> None:
    store.import_runs(an_export(tmp_path / "1.db", a_trial(0)))
    with pytest.raises(UsageError, match=r"line \d+: run r1: trial-1 of 'order lookup' is stored already, and differs"):
        store.import_runs(an_export(tmp_path / "2.db", a_trial(1), a_trial(0, status=Status.FAILED)))
    assert store.finished("r1") == {(KEY, 0)}


def test_a_store_of_a_newer_version_is_refused(url: str) -> None:
    with open_store(url) as store, store._connections.one() as connection:
        connection.execute("INSERT INTO schema_version (version) VALUES (99)")
    with pytest.raises(UsageError, match="was written by a newer Seatrial"):
        open_store(url)


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    with pytest.raises(StoreError, match="the store has been closed"):
        store.runs()


def test_a_scenario_has_its_history_newest_first(store: Store) -> None:
    other = ScenarioKey("shop", "other")
    for day, id in enumerate(("old", "without", "new")):
        store.start_run(a_run(id, started_at=NOON + timedelta(days=day)))
        store.add_scenarios(id, [an_entry(), an_entry(other, position=1)])
        trials = [a_trial(key=other)] if id == "without" else [a_trial(), a_trial(1, status=Status.FAILED)]
        save(store, *trials, run_id=id)

    found = store.history(KEY, 10)

    assert [(row.run.id, row.passed, row.failed, row.trials) for row in found] == [("new", 1, 1, 2), ("old", 1, 1, 2)]
    assert store.history(KEY, 1) == found[:1]
    assert store.run_row("without") == store.rows_of([store.run("without")])[0]
    assert store.run_row("nosuch") is None

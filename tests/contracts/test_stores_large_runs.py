"""Runs too large to hold come to exactly what they would come to in memory, on SQLite and on a real PostgreSQL."""

import os
import random
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.store.keeping import keep

from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, Transcript, Usage
from seatrial.model.results import BehaviourFailure, Judgement, MetricScore, ModelUse, Severity
from seatrial.model.run import (
    Gates,
    MergedErrors,
    Run,
    RunGates,
    RunOutcome,
    RunState,
    ScenarioEntry,
    ScenarioKey,
    Status,
    Trial,
)
from seatrial.reports.registry import write_report
from seatrial.reports.texts import failing
from seatrial.runs import report
from seatrial.runs.report import StoredOutcomes, StoredRecord, decide_stored
from seatrial.store import scenarios
from seatrial.store.codec import encode
from seatrial.store.store import Store, open_store

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
NUMBERS = count()
GATES = (
    RunGates(),
    RunGates(groups=({"name": "smoke", "tags": ["smoke"], "threshold": 0.6}, {"name": "none", "tags": ["no"]})),
    RunGates(groups=({"name": "critical", "tags": ["smoke"], "must_pass": ["n1", "n2", "n30", "n31"]},)),
    RunGates(groups=tuple({"name": f"n{number}", "must_pass": [f"n{number}"]} for number in range(9))),
    RunGates(cases_pass_threshold=50.0, metrics_pass_threshold=70.0),
)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = str(tmp_path / "runs.db")
    if request.param == "postgresql":
        import psycopg

        server: str = request.getfixturevalue("postgres")
        name = f"large_{os.getpid()}_{next(NUMBERS)}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        url = server.replace("/postgres?", f"/{name}?")
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "HELD", 10)
    monkeypatch.setattr(scenarios, "_PLAYED_BATCH", 4)


def an_entry(number: int, draw: random.Random) -> ScenarioEntry:
    gates = [Gates()] * 6 + [
        Gates(threshold=0.5),
        Gates(pass_rate=0.5, confidence=0.9),
        Gates(metric_thresholds={"tone": 3.0}),
        Gates(fail_on_error_severity=Severity.HIGH),
        Gates(must_pass=True),
    ]
    return ScenarioEntry(
        key=ScenarioKey(draw.choice(["one", 'two", "x', "\udc80"]), f"n{number}", draw.choice(["", "", "b"])),
        position=number,
        fingerprint=f"f{number}",
        trials=draw.choice([1, 1, 2, 3]),
        gates=draw.choice(gates),
        tags=draw.choice([(), ("smoke",), ("smoke", "other")]),
        skip=draw.choice([None] * 12 + ["later"]),
        xfail=draw.choice([None] * 12 + ["known"]),
        source=f"suite.jsonl:{number}",
    )


def a_trial(entry: ScenarioEntry, index: int, draw: random.Random) -> Trial:
    """One of any kind; mostly one that passed."""
    status = draw.choice([Status.PASSED] * 6 + [Status.FAILED, Status.ERRORED])
    error = ErrorInfo(kind=draw.choice([ErrorKind.AGENT, ErrorKind.INFRA]), message="broke")
    turn = PlayedTurn(
        index=0,
        user="Where is it?",
        reply="There.",
        tool_calls=None,
        latency_ms=draw.choice([1.0, 2.5, 40.0]),
        usage=draw.choice([None, Usage(input_tokens=3, output_tokens=4)]),
        cost_usd=draw.choice([None, 0.25, 0.5]),
    )
    judged = Judgement(
        scores=(MetricScore(metric="tone", value=draw.choice([1.0, 5.0])),),
        failures=(BehaviourFailure(category="c", severity=Severity.HIGH, label="rude", explanation="x"),)
        if draw.random() < 0.3
        else (),
        overall_score=draw.choice([None, 50.0, 100.0]),
    )
    return Trial(
        key=entry.key,
        index=index,
        status=status,
        failure_reasons=() if status is Status.PASSED else (f"{status} for a reason",),
        error=error if status is Status.ERRORED else None,
        transcript=Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED),
        judgement=draw.choice([None, None, None, None, judged]),
        instruments=draw.choice([None, None, None, ModelUse(calls=2, cost_usd=0.5)]),
        started_at=NOON,
    )


def a_stored_run(store: Store, seed: int, gates: RunGates, *, count: int = 60) -> Run:
    """Scenarios of all kinds, added in another order than that of reports, some with trials missing."""
    draw = random.Random(seed)
    config = {"run": {"budget": 3.0}} if seed % 2 else None
    run = Run(id=f"r{seed}", name="mixed", state=RunState.FINISHED, started_at=NOON, gates=gates, config=config)
    entries = [an_entry(number, draw) for number in range(count)]
    draw.shuffle(entries)
    trials = [
        a_trial(entry, index, draw)
        for entry in entries
        for index in range(entry.trials)
        if entry.skip is None and draw.random() < 0.95
    ]
    store.start_run(run)
    keep(store, run.id, entries, trials)
    merged = [MergedErrors(key=entries[0].key, errors=(), use=ModelUse(calls=1, cost_usd=0.25), note="asked nobody")]
    store.put_merged(run.id, merged)
    return run


def in_memory(store: Store, run: Run) -> RunOutcome:
    return report.decide(run, store.entries(run.id), store.summaries(run.id), store.merged(run.id))


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("gates", GATES)
def test_a_run_read_in_pieces_comes_to_the_same_as_one_held_in_memory(gates: RunGates, store: Store) -> None:
    for seed in range(4):
        run = a_stored_run(store, seed, gates)
        whole, large = in_memory(store, run), decide_stored(store, run)

        assert isinstance(large.scenarios, StoredOutcomes)
        assert tuple(large.scenarios) == whole.scenarios
        assert len(large.scenarios) == len(whole.scenarios)
        assert large.scenarios[3] == whole.scenarios[3]
        assert tuple(large.scenarios[-2:]) == whole.scenarios[-2:]
        for field in ("verdict", "totals", "groups", "notes", "counts"):
            assert getattr(large, field) == getattr(whole, field), (seed, field)
        assert failing(large) == failing(whole)
        assert failing(large, most=3) == failing(whole)[:3]


@pytest.mark.usefixtures("small_pages")
def test_scenarios_as_an_earlier_version_kept_them_are_read_as_well(tmp_path: Path) -> None:
    with open_store(tmp_path / "runs.db") as store:
        run = a_stored_run(store, 5, GATES[1])
        entries = list(store.entries(run.id))
        with closing(sqlite3.connect(tmp_path / "runs.db")) as rows, rows:
            for entry in entries:
                old = (encode(entry), entry.position)
                rows.execute("UPDATE scenarios SET fingerprint = NULL, terms = ? WHERE position = ?", old)
        whole, large = in_memory(store, run), decide_stored(store, run)
    assert [one.entry for one in whole.scenarios] == entries
    assert (large.verdict, large.totals, large.counts) == (whole.verdict, whole.totals, whole.counts)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.INTERRUPTED])
def test_a_large_run_that_did_not_come_to_its_end_has_not_passed(state: RunState, store: Store) -> None:
    run = Run(id="r", name="n", state=state, started_at=NOON)
    draw = random.Random(1)
    entries = [ScenarioEntry(key=ScenarioKey("s", f"n{i}"), position=i, fingerprint="f", trials=1) for i in range(9)]
    store.start_run(run)
    trials = [passing for entry in entries if (passing := _passing(entry, 0, draw))]
    keep(store, run.id, entries, trials)
    assert decide_stored(store, run).verdict.status is Status.NOT_RUN


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("kind", ["console", "json", "jsonl", "junit", "markdown", "html"])
def test_a_report_of_a_large_run_is_that_of_a_small_one(
    kind: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_stored_run(store, 3, GATES[1], count=150)
    texts = []
    for held in (1_000, 10):
        monkeypatch.setattr(report, "HELD", held)
        stream = StringIO()
        record = StoredRecord(store, run)
        write_report(kind, record, stream)
        assert isinstance(record.outcome.scenarios, StoredOutcomes) == (held == 10)
        texts.append(stream.getvalue())
    assert texts[0] == texts[1]
    assert "n149" in texts[0] or kind in ("console", "markdown")


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("status", [Status.PASSED, Status.FAILED])
@pytest.mark.parametrize("trials", [1, 20])
def test_the_verdict_of_a_run_takes_no_more_memory_for_more_trials(status: Status, trials: int, tmp_path: Path) -> None:
    def peak(scenarios: int) -> int:
        run = Run(id=f"r{scenarios}", name="n", state=RunState.FINISHED, started_at=NOON)
        draw = random.Random(1)
        entries = [
            ScenarioEntry(key=ScenarioKey("s", f"n{i}"), position=i, fingerprint="f" * 32, trials=trials)
            for i in range(scenarios)
        ]
        store.start_run(run)
        found = [_passing(entry, index, draw, status) for entry in entries for index in range(trials)]
        keep(store, run.id, entries, found)
        del entries, found
        tracemalloc.start()
        try:
            outcome = decide_stored(store, run)
            assert outcome.verdict.status is status
            assert len(failing(outcome, most=5)) == (0 if status is Status.PASSED else 5)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    with open_store(tmp_path / "runs.db") as store:
        peak(5)
        grown = (peak(1_200 // trials) - peak(200 // trials)) / 1_000
    assert grown < 200, f"{grown:.0f} bytes for each further trial"


def _passing(entry: ScenarioEntry, index: int, draw: random.Random, status: Status = Status.PASSED) -> Trial:
    turn = PlayedTurn(index=0, user="Hi", reply="Hello", tool_calls=(), latency_ms=draw.random())
    about: dict[str, Any] = {} if status is Status.PASSED else {"failure_reasons": ("passfail: no",)}
    return Trial(
        key=entry.key,
        index=index,
        status=status,
        transcript=Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED),
        started_at=NOON,
        **about,
    )

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.model.conversation import StopReason, Transcript
from seatrial.model.run import Run, RunGates, RunState, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.store.store import Store, open_store

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
KEY = ScenarioKey("support", "order lookup")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "runs.db") as opened:
        yield opened


def a_run(**fields: Any) -> Run:
    return Run(id="r1", name="nightly", started_at=NOON, **fields)


def a_trial(index: int) -> Trial:
    transcript = Transcript(turns=(), stop_reason=StopReason.SCRIPT_ENDED)
    return Trial(key=KEY, index=index, status=Status.FAILED, transcript=transcript, started_at=NOON)


def an_export(path: Path, trial: Trial, *, run: Run | None = None) -> list[bytes]:
    with open_store(path) as store:
        store.start_run(run or a_run())
        store.add_scenarios("r1", [ScenarioEntry(key=KEY, position=0, fingerprint="f", trials=2)])
        with store.writer("r1", on_committed=lambda trials: None) as writer:
            writer.submit(trial)
        store.finish_run("r1", RunState.FINISHED, NOON)
        return list(store.export_run("r1"))


def test_runs_that_were_judged_by_other_gates_are_not_merged(store: Store, tmp_path: Path) -> None:
    store.import_runs(an_export(tmp_path / "1.db", a_trial(0)))
    other = an_export(tmp_path / "2.db", a_trial(1), run=a_run(gates=RunGates(cases_pass_threshold=1.0)))
    with pytest.raises(UsageError, match="cannot be merged: its gates"):
        store.import_runs(other)


def test_a_shard_that_was_interrupted_leaves_the_merged_run_interrupted(store: Store, tmp_path: Path) -> None:
    store.import_runs(an_export(tmp_path / "1.db", a_trial(0)))
    store.finish_run("r1", RunState.INTERRUPTED, NOON)
    store.import_runs(an_export(tmp_path / "2.db", a_trial(1)))
    assert store.run("r1").state is RunState.INTERRUPTED


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda lines: lines[:-1], "cut short"),
        (lambda lines: [*lines[:-2], lines[-1]], "lines are missing"),
        (lambda lines: [*lines[:-2], *lines], "cut short"),
        (lambda lines: lines[1:], "out of place"),
        (lambda lines: [lines[0], *lines[2:]], "out of place"),
        (lambda lines: [*lines[:2], *lines[3:]], "scenario"),
        (lambda lines: [lines[0].replace(b":1}", b":99}"), *lines[1:]], "version 99"),
        (lambda lines: [b'{"format":"other","version":1}'], "not a Seatrial export"),
        (lambda lines: [b"<html>"], "line 1: not JSON"),
        (lambda lines: [b"[]"], "not a line of a Seatrial export"),
        (lambda lines: [*lines[:2], b'{"surprise":1}'], "not a line of a Seatrial export"),
        (lambda lines: [lines[0], b'{"run":{"id":"r1","planet":"Mars"}}'], "a Run cannot be read"),
        (lambda lines: [], "empty"),
    ],
)
def test_what_is_not_a_whole_export_is_refused_and_leaves_nothing(
    store: Store, tmp_path: Path, spoil: Any, says: str
) -> None:
    lines = an_export(tmp_path / "1.db", a_trial(0))
    with pytest.raises(UsageError, match=says):
        store.import_runs(spoil(lines))
    assert store.runs() == []

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest
from msgspec.structs import replace
from tests.store.keeping import keep

from seatrial.errors import StoreError
from seatrial.model.conversation import StopReason, Transcript
from seatrial.model.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.store.store import Store, open_store

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
KEY = ScenarioKey("s", "n")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "runs.db") as opened:
        opened.start_run(Run(id="r1", name="n", started_at=NOON))
        opened.add_scenarios("r1", [ScenarioEntry(key=KEY, position=0, fingerprint="f", trials=1)])
        yield opened


def a_trial(index: int) -> Trial:
    transcript = Transcript(turns=(), stop_reason=StopReason.SCRIPT_ENDED)
    return Trial(key=KEY, index=index, status=Status.FAILED, transcript=transcript, started_at=NOON)


def test_a_group_is_committed_when_a_hundred_trials_are_there_and_takes_along_what_has_piled_up(store: Store) -> None:
    groups: list[list[int]] = []
    first, go_on = Event(), Event()

    def on_committed(trials: list[Trial]) -> None:
        groups.append([trial.index for trial in trials])
        first.set()
        go_on.wait(timeout=10)

    with store.writer("r1", on_committed=on_committed) as writer:
        for index in range(100):
            writer.submit(a_trial(index))
        assert first.wait(timeout=10)
        for index in range(100, 450):
            writer.submit(a_trial(index))
        go_on.set()
    assert len(groups[0]) <= 100
    assert len(groups[1]) >= 300
    assert [index for group in groups for index in group] == list(range(450))


def test_each_trial_is_kept_with_its_own_scenario_however_many_there_are(store: Store) -> None:
    entries = [
        ScenarioEntry(key=ScenarioKey("s", f"n{place}"), position=place, fingerprint="f", trials=1)
        for place in range(1, 21_001)
    ]
    played = [KEY, entries[0].key, entries[9_999].key, entries[-1].key]
    with store.writer("r1", on_committed=lambda trials: None) as writer:
        for start in range(0, len(entries), 1_000):
            writer.plan(entries[start : start + 1_000])
        for index, key in enumerate(played):
            writer.submit(replace(a_trial(index), key=key))
    assert {(summary.key, summary.index) for summary in store.summaries("r1")} == {
        (key, index) for index, key in enumerate(played)
    }
    assert [store.trial("r1", key, index).key for index, key in enumerate(played)] == played


def test_a_single_trial_is_committed_without_being_asked_for(store: Store) -> None:
    committed = Event()
    with store.writer("r1", on_committed=lambda trials: committed.set()) as writer:
        writer.submit(a_trial(0))
        assert committed.wait(30)


def test_submit_waits_while_the_writer_is_full(store: Store) -> None:
    holding, gate, passed = Event(), Event(), Event()

    def hold(trials: list[Trial]) -> None:
        holding.set()
        gate.wait()

    def submit_one_more() -> None:
        writer.submit(a_trial(5_000))
        passed.set()

    writer = store.writer("r1", on_committed=hold)
    numbers = count()
    writer.submit(a_trial(next(numbers)))
    holding.wait()
    while not writer.full:
        writer.submit(a_trial(next(numbers)))
    submitting = Thread(target=submit_one_more)
    submitting.start()
    assert not passed.wait(0.05)
    gate.set()
    writer.wait_for_room()
    submitting.join()
    writer.close()
    assert len(store.finished("r1")) == next(numbers) + 1


@pytest.mark.parametrize("error", [ValueError("a bug"), SystemExit(0), KeyboardInterrupt()])
def test_an_error_in_the_callback_is_raised_by_close(store: Store, error: BaseException) -> None:
    def fail(trials: list[Trial]) -> None:
        raise error

    writer = store.writer("r1", on_committed=fail)
    writer.submit(a_trial(0))
    with pytest.raises(StoreError, match=type(error).__name__):
        writer.close()


def test_a_closed_writer_takes_no_trials(store: Store) -> None:
    writer = store.writer("r1", on_committed=lambda trials: None)
    writer.close()
    with pytest.raises(StoreError, match="after its writer was closed"):
        writer.submit(a_trial(0))


def test_a_writer_with_nothing_to_do_ends(store: Store) -> None:
    with store.writer("r1", on_committed=lambda trials: None) as writer:
        writer.flush()
        writer.wait_for_room()
    writer.close()


def test_scenarios_are_refused_once_the_writer_is_closed(store: Store) -> None:
    writer = store.writer("r1", on_committed=lambda trials: None)
    writer.close()

    with pytest.raises(StoreError, match="a scenario was handed to the store after its writer was closed"):
        writer.plan([ScenarioEntry(key=KEY, position=0, fingerprint="f", trials=1)])


def test_a_finished_run_is_in_the_file_even_while_others_have_it_open(store: Store, tmp_path: Path) -> None:
    """Whoever copies runs.db after a run has all of it, without the log beside it."""
    with open_store(tmp_path / "runs.db") as mine:
        keep(mine, "r1", (), [a_trial(index) for index in range(30)])
        mine.finish_run("r1", RunState.FINISHED, NOON)
    shutil.copy(tmp_path / "runs.db", tmp_path / "copy.db")
    with open_store(tmp_path / "copy.db") as copy:
        assert copy.run("r1").state is RunState.FINISHED
        assert len(copy.finished("r1")) == 30


@pytest.mark.parametrize(
    "moment",
    [
        NOON,
        NOON.replace(microsecond=1),
        NOON.replace(microsecond=120_000),
        NOON.astimezone(timezone(timedelta(hours=5, minutes=30))),
        NOON.astimezone(timezone(-timedelta(hours=3))),
    ],
)
def test_times_are_written_as_python_writes_them(store: Store, tmp_path: Path, moment: datetime) -> None:
    """Rows of all versions must be in one order."""
    keep(store, "r1", (), [replace(a_trial(0), started_at=moment)])
    with closing(sqlite3.connect(tmp_path / "runs.db")) as raw:
        assert raw.execute("SELECT started_at FROM trials").fetchone() == (moment.isoformat(),)

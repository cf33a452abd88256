"""A store that an earlier version wrote is read as if this one had written it."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.store.keeping import keep

from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.results import EvalResult
from seatrial.model.run import Gates, MergedErrors, Run, ScenarioEntry, ScenarioKey, Status, Trial, summarise
from seatrial.store import migrate
from seatrial.store.codec import encode, write
from seatrial.store.database import Connection
from seatrial.store.schema import MIGRATIONS
from seatrial.store.store import Store, open_store
from seatrial.store.trials import name_scenario

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
ENTRIES = [
    ScenarioEntry(
        key=ScenarioKey("support", name),
        position=position,
        fingerprint=f"f{position}",
        trial_fingerprint=f"t{position}",
        trials=2,
        gates=Gates(threshold=0.5),
        tags=("night",),
        source="suite.yaml:3",
    )
    for position, name in enumerate(["refund", "order lookup"])
]
NUMBERS = count()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    import psycopg

    server: str = request.getfixturevalue("postgres")
    name = f"old_store_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


def a_trial(key: ScenarioKey, index: int) -> Trial:
    call = ToolCall("lookup_order", {"order_id": "ORD-789"}, {"status": "shipped"})
    turn = PlayedTurn(index=0, user="Where is it?", reply="Shipped.", tool_calls=(call,), latency_ms=12.5)
    return Trial(
        key=key,
        index=index,
        status=Status.PASSED,
        transcript=Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED),
        results=(EvalResult(passed=True, evaluator="passfail"),),
        started_at=NOON,
    )


TRIALS = [a_trial(entry.key, index) for entry in ENTRIES for index in (0, 1)]
_OLD_COLUMNS = (
    "run_id, scenario, trial, status, stop_reason, started_at, turns, latency_ms, median_latency_ms, duration_ms"
)


def write_as_version_2(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before:
        before.setattr(migrate, "VERSION", 2)
        before.setattr(migrate, "MIGRATIONS", MIGRATIONS[:2])
        with open_store(url) as store:
            connection = Connection(store._database)
            store.start_run(Run(id="r1", name="nightly", started_at=NOON))
            for entry in reversed(ENTRIES):
                row = ("r1", name_scenario(entry.key), entry.position, write(list(entry.key)))
                statement = (
                    "INSERT INTO scenarios (run_id, scenario, position, scenario_key, entry) VALUES (?, ?, ?, ?, ?)"
                )
                connection.execute(statement, (*row, encode(entry)))
            for trial in TRIALS:
                place = ("r1", name_scenario(trial.key), trial.index)
                values = ("passed", "script_ended", trial.started_at.isoformat(), 1, 12.5, 12.5, 0.0)
                marks = ", ".join("?" * 10)
                connection.execute(f"INSERT INTO trials ({_OLD_COLUMNS}) VALUES ({marks})", (*place, *values))
                body = "INSERT INTO bodies (run_id, scenario, trial, body) VALUES (?, ?, ?, ?)"
                connection.execute(body, (*place, encode(trial)))
            merged = MergedErrors(key=ENTRIES[0].key, errors=())
            statement = "INSERT INTO merged_errors (run_id, scenario, body) VALUES (?, ?, ?)"
            connection.execute(statement, ("r1", name_scenario(merged.key), encode(merged)))
            connection.close()


@pytest.fixture
def store(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    write_as_version_2(url, monkeypatch)
    with open_store(url) as opened:
        yield opened


def test_everything_is_still_there(store: Store) -> None:
    assert list(store.entries("r1")) == ENTRIES
    assert list(store.summaries("r1")) == [replace(summarise(trial), tools=()) for trial in TRIALS]  # not kept then
    assert [trial for entry in ENTRIES for trial in store.trials("r1", entry.key)] == TRIALS
    assert [merged.key for merged in store.merged("r1")] == [ENTRIES[0].key]
    assert store.finished("r1") == {(trial.key, trial.index) for trial in TRIALS}


def test_the_run_can_go_on(store: Store) -> None:
    store.add_scenarios("r1", ENTRIES)
    more = ScenarioEntry(key=ScenarioKey("support", "new"), position=2, fingerprint="f2", trials=1)
    keep(store, "r1", [more], [a_trial(more.key, 0)])
    assert [entry.key.name for entry in store.entries("r1")] == ["refund", "order lookup", "new"]
    assert len(list(store.summaries("r1"))) == 5

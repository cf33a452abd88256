"""What a store must stand when several processes use it at once, or one of them dies."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from threading import Thread
from time import sleep

import pytest
from msgspec.structs import replace

from seatrial.errors import StoreError, UsageError
from seatrial.model.conversation import PlayedTurn, StopReason, Transcript
from seatrial.model.run import Run, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.store.store import open_store
from seatrial.store.trials import insert_trials, make_rows

NOON = datetime(2025, 5, 1, 12, tzinfo=UTC)
TRIALS = 5_000 if os.environ.get("SEATRIAL_TEST_BIG") == "1" else 500
"""Per writing process."""
NUMBERS = count()

WORDS = """
import sys
from datetime import UTC, datetime
from seatrial.store.store import open_store
from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.run import Run, ScenarioEntry, ScenarioKey, Status, Trial

def a_trial(name, index, result=None):
    turn = PlayedTurn(index=0, user="hi", reply="ho", tool_calls=(ToolCall("t", {"n": index}, result),))
    return Trial(
        key=ScenarioKey("s", name), index=index, status=Status.PASSED,
        transcript=Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED),
        started_at=datetime(2025, 5, 1, 12, tzinfo=UTC),
    )

url, name, trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
"""

OPEN = WORDS + "open_store(url).close()"

WRITE = (
    WORDS
    + """
# Both hand in the same large results at about the same time, one of them backwards: an invitation to a deadlock.
with open_store(url) as store:
    with store.writer("r1", on_committed=lambda trials: None) as writer:
        for index in range(trials):
            group, place = divmod(index, 100)
            writer.submit(a_trial(name, index, f"{group} {99 - place if name == 'b' else place} " * 4000))
"""
)

WRITE_AND_TELL = (
    WORDS
    + """
def tell(committed):
    for trial in committed:
        print(trial.index, flush=True)

store = open_store(url)
writer = store.writer("r1", on_committed=tell)
for index in range(10**9):
    writer.submit(a_trial(name, index))
"""
)

FILL_THE_DISK = (
    WORDS
    + """
import os, resource, signal
from seatrial.errors import StoreError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
store = open_store(url)
reported = []
try:
    with store.writer("r1", on_committed=reported.extend) as writer:
        for index in range(trials):
            writer.submit(a_trial(name, index, os.urandom(20_000).hex()))
except StoreError as error:
    print(len(reported), "reported, then", error)
"""
)

CLAIM = (
    WORDS
    + """
release = open_store(url).claim_run("r/1")
print("claimed", flush=True)
sys.stdin.readline()
release()
print("released", flush=True)
sys.stdin.readline()
"""
)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "runs.db")
    return a_database(request.getfixturevalue("postgres"))


def a_database(server: str) -> str:
    import psycopg

    name = f"processes_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


def begin(url: str, *names: str, run_id: str = "r1") -> None:
    with open_store(url) as store:
        store.start_run(Run(id=run_id, name="n", started_at=NOON))
        keys = [ScenarioKey("s", name) for name in names]
        store.add_scenarios(
            run_id,
            [ScenarioEntry(key=key, position=place, fingerprint="f", trials=1) for place, key in enumerate(keys)],
        )


def start(script: str, url: str, name: str = "a", trials: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, url, name, str(trials)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(*processes: subprocess.Popen[str]) -> None:
    said = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), said


@contextmanager
def claimed(url: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that plays the run, until something is said to it."""
    command = [sys.executable, "-c", CLAIM, url, "a", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        yield process
        process.kill()


def test_a_run_that_another_process_plays_is_not_played_here(url: str) -> None:
    with claimed(url) as other, open_store(url) as store:
        with pytest.raises(UsageError, match="run r/1: another process is playing it"):
            store.claim_run("r/1")
        store.claim_run("r/2")()
        assert other.stdin is not None
        assert other.stdout is not None
        print(file=other.stdin, flush=True)
        assert other.stdout.readline() == "released\n"
        store.claim_run("r/1")()


def test_a_run_is_free_as_soon_as_the_process_that_played_it_was_killed(url: str) -> None:
    with claimed(url) as other, open_store(url) as store:
        other.kill()
        other.wait()
        for _ in range(100):  # the database learns of it when the connection breaks
            with suppress(UsageError):
                store.claim_run("r/1")()
                return
            sleep(0.05)
        pytest.fail("it is still taken")


def test_several_processes_may_open_a_new_store_at_once(url: str) -> None:
    finish(*(start(OPEN, url) for _ in range(5)))
    with open_store(url) as store:
        assert store.runs() == []


def test_two_processes_write_at_once_while_a_third_deletes(url: str) -> None:
    begin(url, "a", "b")
    writers = [start(WRITE, url, name, TRIALS) for name in ("a", "b")]
    deleted = 0
    with open_store(url) as store:
        while any(process.poll() is None for process in writers):
            begin(url, "a", run_id=f"doomed{deleted}")
            with store.writer(f"doomed{deleted}", on_committed=lambda trials: None) as writer:
                writer.submit(next(store.trials("r1", ScenarioKey("s", "a")), an_empty_trial()))
            store.delete_runs([f"doomed{deleted}"])
            deleted += 1
        finish(*writers)
        assert deleted > 0
        for name in ("a", "b"):
            read = [trial.index for trial in store.trials("r1", ScenarioKey("s", name))]
            assert read == list(range(TRIALS))


def test_contents_are_not_collected_while_somebody_is_about_to_use_them(postgres: str) -> None:
    import psycopg

    url = a_database(postgres)
    begin(url, "a")
    begin(url, "a", run_id="doomed")
    turn = PlayedTurn(index=0, user="hi", reply="large" * 10_000, tool_calls=None)
    trial = replace(an_empty_trial(), transcript=Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED))
    with open_store(url) as store, psycopg.connect(url, autocommit=True) as watcher:
        with store.writer("doomed", on_committed=lambda trials: None) as writer:
            writer.submit(trial)
        with store._connections.transaction() as connection:
            insert_trials(connection, "r1", [make_rows(trial)])
            deleting = Thread(target=store.delete_runs, args=(["doomed"],))
            deleting.start()
            waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            while deleting.is_alive() and not watcher.execute(waits).fetchall():
                pass
        deleting.join()
        assert store.trial("r1", trial.key, 0) == trial


def an_empty_trial() -> Trial:
    return Trial(
        key=ScenarioKey("s", "a"),
        index=0,
        status=Status.PASSED,
        transcript=Transcript(turns=(), stop_reason=StopReason.SCRIPT_ENDED),
        started_at=NOON,
    )


def test_what_was_reported_survives_the_death_of_the_process(url: str) -> None:
    begin(url, "a")
    process = start(WRITE_AND_TELL, url)
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(250)]
    process.kill()
    told += [int(line) for line in process.stdout if line.endswith("\n")]
    process.communicate()
    with open_store(url) as store:
        stored = {index for _, index in store.finished("r1")}
        assert set(told) <= stored
        assert sorted(stored) == [trial.index for trial in store.trials("r1", ScenarioKey("s", "a"))]


def test_a_full_disk_is_an_error_and_what_was_reported_stays(tmp_path: Path) -> None:
    url = str(tmp_path / "runs.db")
    begin(url, "a")
    process = start(FILL_THE_DISK, url, trials=1_000)
    said, _ = process.communicate()
    reported, _, error = said.partition(" reported, then ")
    assert "runs.db" in error, said
    with open_store(url) as store:
        assert len(store.finished("r1")) >= int(reported)


def test_a_lost_connection_is_an_error(postgres: str) -> None:
    import psycopg

    url = a_database(postgres)
    begin(url, "a")
    with open_store(url) as store:
        writer = store.writer("r1", on_committed=lambda trials: None)
        writer.submit(an_empty_trial())
        writer.flush()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        writer.submit(an_empty_trial(), replace=True)
        with pytest.raises(StoreError):
            writer.flush()
        with pytest.raises(StoreError):
            writer.close()

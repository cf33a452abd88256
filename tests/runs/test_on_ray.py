"""What can be said of runs on a Ray cluster without one; the cluster itself is in integrations/ray."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from seatrial import Scenario, Suite
from seatrial.cli import main
from seatrial.errors import MissingExtra, UsageError
from seatrial.model.run import Trial
from seatrial.runs.execute_run import execute
from seatrial.runs.ray_executor import Worker, read_order, write_order
from seatrial.runs.request import RunRequest
from seatrial.runs.run_plan import RunPlan
from seatrial.store.codec import decode
from seatrial.version import __version__

SCENARIO = Scenario(name="a", input="hello", expected_output="hello")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project; whatever a worker does to its process is undone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.delitem(sys.modules, "echoing", raising=False)
    (tmp_path / "echoing.py").write_text("def answer(input):\n    return input\n")
    write_suite(tmp_path, count=3)
    return tmp_path


def write_suite(folder: Path, *, count: int, said: str = "hello") -> None:
    lines = [{"suite": {"name": "echo", "agent": "echoing:answer"}}]
    lines += [{"name": f"s{n}", "input": f"{said} {n}", "expected_output": f"{n}"} for n in range(count)]
    (folder / "suite.jsonl").write_text("\n".join(map(json.dumps, lines)))


def ask(**more: Any) -> RunRequest:
    given = {"sources": ("suite.jsonl",), "executor": "ray", "store": None, "environ": dict(os.environ)}
    return RunRequest(**{**given, **more})


def order(request: RunRequest) -> bytes:
    return write_order(request, run_id="run", seed=5)


def refusal(request: RunRequest) -> str:
    with pytest.raises(UsageError) as refused:
        execute(request)
    return str(refused.value)


def test_an_agent_that_is_a_python_object_is_refused_with_the_remedy(folder: Path) -> None:
    said = refusal(ask(agent=lambda input: input))

    assert "is a Python object, and cannot be sent to workers" in said
    assert "package.module:attribute" in said


@pytest.mark.parametrize("source", [SCENARIO, Suite(name="shop", scenarios=[SCENARIO])])
def test_scenarios_that_are_python_objects_are_refused_with_the_remedy(folder: Path, source: Any) -> None:
    said = refusal(ask(sources=(source,), agent="echoing:answer"))

    assert f"{type(source).__name__} {source.name!r} is a Python object" in said
    assert "shop_trials.py" in said


def test_without_ray_the_line_that_installs_it_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seatrial.runs.ray_executor.find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match=r"pip install 'seatrial\[ray\]'"):
        execute(ask())


def test_an_address_where_nobody_answers_is_refused_before_a_run_is_stored(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seatrial.runs.ray_executor.find_spec", lambda name: object())
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        said = refusal(ask(ray_address=f"127.0.0.1:{closed.getsockname()[1]}", store="runs.db"))

    assert "does not answer: Connection refused. Is the cluster running?" in said
    assert not Path("runs.db").exists()


def test_an_address_without_the_executor_is_a_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "suite.jsonl", "--ray-address", "10.0.0.1:6379"])

    assert ended.value.code == 2
    assert "--ray-address: needs --executor ray" in capsys.readouterr().err


def test_an_order_arrives_as_it_was_given(folder: Path) -> None:
    asked = ask(
        agent={"type": "http", "url": "http://127.0.0.1/${SHOP}"},
        overrides={"trials": 2},
        scenario_text=("s",),
        tags=("read",),
        only=frozenset({("echo", "s1")}),
        shard=(1, 2),
        environ={"SHOP": "here", "PATH": "/driver", "RAY_ADDRESS": "far"},
    )

    arrived = read_order(order(asked), {"SHOP": "there", "PATH": "/node"})

    same = ("sources", "agent", "overrides", "scenario_text", "tags", "only", "shard", "models", "default_agent")
    assert [getattr(arrived.request, name) for name in same] == [getattr(asked, name) for name in same]
    assert arrived.request.environ == {"SHOP": "here", "PATH": "/node"}, "places are those of the node"
    assert (arrived.run_id, arrived.seed, arrived.folder) == ("run", 5, str(folder))


def worker(request: RunRequest) -> Worker:
    made = Worker()
    made.prepare(order(request), __version__, 1)
    return made


async def play(made: Worker, jobs: list[tuple[int, int, str]]) -> list[Trial]:
    played = []
    waiting = jobs
    while len(played) < len(jobs):
        played += [decode(Trial, body) for body in await made.exchange(waiting)]
        waiting = []
    await made.close()
    return sorted(played, key=lambda trial: (trial.key, trial.index))


def jobs_of(request: RunRequest) -> list[tuple[int, int, str]]:
    return [(each.entry.position, 0, each.entry.fingerprint) for each in RunPlan(request).scenarios()]


def test_a_worker_finds_scenarios_by_their_place_in_any_order(folder: Path) -> None:
    write_suite(folder, count=2_010)
    request = ask(shard=(2, 2))
    jobs = jobs_of(request)

    played = asyncio.run(play(worker(request), [*jobs[:3], *jobs[-3:], *reversed(jobs[3:6])]))

    assert {trial.key.name for trial in played} == {"s1", "s3", "s5", "s7", "s9", "s11", "s2005", "s2007", "s2009"}
    assert {trial.status for trial in played} == {"passed"}


def test_a_worker_with_other_files_than_the_driver_is_refused(folder: Path) -> None:
    jobs = jobs_of(ask())
    write_suite(folder, count=3, said="goodbye")

    with pytest.raises(UsageError, match="scenario 1 of the run is not the same as on the driver"):
        asyncio.run(play(worker(ask()), jobs))


def test_a_worker_with_fewer_scenarios_than_the_driver_is_refused(folder: Path) -> None:
    jobs = jobs_of(ask())
    write_suite(folder, count=2)

    with pytest.raises(UsageError, match="scenario 3 of the run is not the same as on the driver"):
        asyncio.run(play(worker(ask()), jobs))


def test_a_worker_of_another_version_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"has seatrial .+, but the run was started with 0\.0\.0"):
        Worker().prepare(order(ask()), "0.0.0", 1)


def test_a_worker_without_the_folder_says_how_it_gets_there(folder: Path) -> None:
    sent = json.loads(order(ask())) | {"folder": "/nowhere/at/all"}

    with pytest.raises(UsageError, match="ray job submit --working-dir"):
        Worker().prepare(json.dumps(sent).encode(), __version__, 1)

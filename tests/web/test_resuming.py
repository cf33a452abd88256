"""Runs that did not come to their end, and how they go on."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.model.run import RunState
from seatrial.store.store import open_store
from seatrial.web import form_actions as resuming


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file; trials of the slow suite wait until it is there."""
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))
    return tmp_path / "gate"


@pytest.fixture
def server(serve: Any, own_project: Any, gate: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(own_project.path)
    started = serve(store=own_project.store, root=own_project.path)
    started.get("/")  # for the session
    return started


@pytest.fixture
def killed(own_project: Any, gate: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs the slow suite as the run `dead`, and kills the process when one trial is stored."""

    def run(*options: str, source: str = "slow.yaml", cwd: Path = own_project.path) -> None:
        command = [sys.executable, "-m", "seatrial", "run", source, "--id=dead", f"--store={own_project.store}"]
        with subprocess.Popen([*command, *options], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as one:
            assert one.stderr is not None
            assert b"quick" in one.stderr.readline()
            one.kill()

    return run


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed at once."""
    monkeypatch.setattr(resuming, "SILENT_SECONDS", -1.0)


def events(server: Any, run_id: str) -> Iterator[dict[str, Any]]:
    with server.client.stream("GET", f"/api/runs/{run_id}/events") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def press(server: Any, run_id: str) -> Any:
    """Send the form of the run's page."""
    page = server.get(f"/runs/{run_id}").text
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf is not None
    return server.client.post(f"/runs/{run_id}/resume", data={"csrf": csrf[1]})


@pytest.mark.usefixtures("soon")
def test_a_run_whose_process_was_killed_says_since_when_nothing_was_written_and_can_go_on(
    server: Any, killed: Any, gate: Path
) -> None:
    killed()
    assert "no trial stored since" in server.get("/").text
    shown = server.get("/runs/dead").text
    assert "No trial was stored since" in shown
    assert ">Resume<" in shown

    gate.touch()
    answer = server.client.post("/api/runs/dead/resume")
    assert (answer.status_code, answer.json()) == (202, {"run_id": "dead"})
    *_, last = events(server, "dead")
    assert (last["state"], last["played"], last["passed"]) == ("finished", 7, 7)
    assert server.json("/api/runs/dead")["status"] == "passed"
    assert ">Resume<" not in server.get("/runs/dead").text


def test_a_run_that_was_cancelled_here_goes_on_from_its_page(server: Any, gate: Path) -> None:
    run_id = server.client.post("/api/runs", json={"paths": ["slow.yaml"]}).json()["run_id"]
    for found in events(server, run_id):
        if found["played"] == 1 and found["state"] == "running":
            server.client.post(f"/api/runs/{run_id}/cancel")
    assert server.json(f"/api/runs/{run_id}")["run"]["state"] == "interrupted"
    gate.touch()
    answer = press(server, run_id)
    assert answer.status_code == 303
    states = [found["state"] for found in events(server, run_id)]
    assert states[-1] == "finished"
    assert "interrupted" not in states, "between the order and the start it is not said to be over"
    assert server.json(f"/api/runs/{run_id}")["status"] == "passed"


def test_a_run_that_was_written_to_a_moment_ago_is_left_alone(server: Any, killed: Any) -> None:
    killed()
    assert ">Resume<" not in server.get("/runs/dead").text
    answer = server.client.post("/api/runs/dead/resume")
    assert answer.status_code == 409
    assert "another process may be running it" in answer.json()["detail"]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("option", ["--agent=agent:answer", "--judge-model=openai:gpt-4o"])
def test_an_agent_or_model_that_only_the_run_names_is_not_started(server: Any, killed: Any, option: str) -> None:
    killed(option)
    answer = server.client.post("/api/runs/dead/resume")
    assert answer.status_code == 409
    assert "agent or settings from options" in answer.json()["detail"]


@pytest.mark.usefixtures("soon")
def test_a_run_of_files_elsewhere_is_not_started(serve: Any, own_project: Any, killed: Any, tmp_path: Path) -> None:
    killed()
    (tmp_path / "served").mkdir()
    server = serve(store=own_project.store, root=tmp_path / "served")
    server.get("/")
    answer = server.client.post("/api/runs/dead/resume")
    assert answer.status_code == 409
    assert "there is no such suite" in answer.json()["detail"]
    assert "seatrial run --resume dead" in answer.json()["detail"]


@pytest.mark.usefixtures("soon")
def test_a_read_only_server_shows_it_and_offers_nothing(serve: Any, own_project: Any, killed: Any) -> None:
    killed()
    server = serve(store=own_project.store, root=own_project.path, read_only=True)
    shown = server.get("/runs/dead").text
    assert "No trial was stored since" in shown
    assert ">Resume<" not in shown
    assert server.client.post("/api/runs/dead/resume").status_code == 403


@pytest.mark.parametrize(("run_id", "status"), [("good", 409), ("nosuch", 404)])
def test_what_is_finished_or_unknown_cannot_be_resumed(server: Any, run_id: str, status: int) -> None:
    assert server.client.post(f"/api/runs/{run_id}/resume").status_code == status


@pytest.mark.usefixtures("soon")
def test_a_resume_that_is_refused_says_why(server: Any, killed: Any, own_project: Any) -> None:
    killed()
    slow = own_project.path / "slow.yaml"
    slow.write_text(slow.read_text().replace("waits 3", "waits no more"))
    server.client.post("/api/runs/dead/resume")
    *_, last = events(server, "dead")
    assert last["state"] == "left"
    assert "waits no more is new" in server.get("/runs/dead").text
    with open_store(own_project.store) as store:
        assert store.run("dead").state is RunState.RUNNING

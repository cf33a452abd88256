"""Runs that are started, followed and cancelled over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.web import run_processes


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file; trials of the slow suite wait until it is there."""
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))
    return tmp_path / "gate"


@pytest.fixture
def server(serve: Any, own_project: Any, gate: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(own_project.path)
    monkeypatch.setenv("SEATRIAL_TOKEN", "for-the-server-only")
    started = serve(store=own_project.store, root=own_project.path)
    started.get("/")  # for the session
    return started


def start(server: Any, **more: Any) -> str:
    answer = server.client.post("/api/runs", json={"paths": ["slow.yaml"], **more})
    assert answer.status_code == 202, answer.text
    run_id = answer.json()["run_id"]
    assert isinstance(run_id, str)
    return run_id


def events(server: Any, run_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Server-sent events, as they come."""
    with server.client.stream("GET", f"/api/runs/{run_id}/events") as answer:
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


def test_progress_is_told_until_the_run_is_over(server: Any, gate: Path) -> None:
    run_id = start(server, name="from the page")
    seen = []
    for name, found in events(server, run_id):
        seen.append((name, found["state"], found["played"]))
        if found["state"] == "running" and found["played"] == 1:
            assert found["planned"] == 7
            gate.touch()

    assert seen[-1] == ("end", "finished", 7)
    assert ("progress", "running", 1) in seen
    run = server.json(f"/api/runs/{run_id}")
    assert (run["status"], run["run"]["name"]) == ("passed", "from the page")


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_the_address_of_the_store_is_not_shown_to_everybody_on_the_machine(
    server: Any, own_project: Any, gate: Path
) -> None:
    run_id = start(server)
    told = [_arguments(one) for one in Path("/proc").glob("[0-9]*")]
    gate.touch()

    [arguments] = [each for each in told if any(run_id in word for word in each)]
    assert not [word for word in arguments if str(own_project.store) in word]


def _arguments(process: Path) -> list[str]:
    try:
        return (process / "cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    except OSError:  # it has ended meanwhile
        return []


def test_a_cancelled_run_keeps_what_is_finished(server: Any) -> None:
    run_id = start(server)
    for _, found in events(server, run_id):
        if found["played"] == 1 and found["state"] == "running":
            assert server.client.post(f"/api/runs/{run_id}/cancel").status_code == 202

    found = server.json(f"/api/runs/{run_id}")
    assert found["run"]["state"] == "interrupted"
    assert found["passed"] is False
    assert found["totals"]["passed_count"] == 1


def test_a_run_of_another_process_is_followed_but_not_cancelled(server: Any, own_project: Any, gate: Path) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "seatrial", "run", "slow.yaml", "--id=other", f"--store={own_project.store}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "quick" in process.stderr.readline()
        for _, found in events(server, "other"):
            if found["played"] == 1:
                assert server.client.post("/api/runs/other/cancel").status_code == 409
                gate.touch()
        process.communicate()

    assert server.json("/api/runs/other")["status"] == "passed"


def test_a_run_too_many_is_for_later(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_processes, "MOST_AT_ONCE", 0)
    answer = server.client.post("/api/runs", json={"paths": ["slow.yaml"]})

    assert answer.status_code == 409
    assert "running already" in answer.json()["detail"]


def test_a_run_that_is_under_way_is_compared_later(server: Any, gate: Path) -> None:
    run_id = start(server)
    for _, found in events(server, run_id):
        if found["played"] == 1 and found["state"] == "running":
            asked = {"baseline_run_id": "good", "candidate_run_id": run_id}
            answer = server.get("/api/runs/compare", params=asked)
            same = server.get("/api/runs/compare", params={**asked, "baseline_run_id": run_id})
            gate.touch()

    assert (answer.status_code, same.status_code) == (409, 422)
    assert "is not finished" in answer.json()["detail"]


def test_a_selection_can_be_run(server: Any) -> None:
    run_id = start(server, scenarios=["QUICK"], trials=2)
    *_, (name, found) = events(server, run_id)

    assert (name, found["played"], found["passed"]) == ("end", 2, 2)


def test_a_run_that_cannot_begin_says_why(server: Any) -> None:
    run_id = start(server, tags=["nosuch"])
    *_, (name, found) = events(server, run_id)

    assert (name, found["state"]) == ("end", "refused")
    page = server.get(f"/runs/{run_id}").text
    assert "The run did not start" in page
    assert "nosuch" in page


def test_texts_of_a_request_are_never_flags(server: Any) -> None:
    run_id = start(server, name="--dry-run", scenarios=["--help"], tags=["-v"])
    *_, (_, found) = events(server, run_id)

    assert found["state"] == "refused"
    assert "no scenario" in server.get(f"/runs/{run_id}").text.lower()


def test_the_agent_does_not_see_the_token_of_the_server(server: Any, own_project: Any) -> None:
    (own_project.path / "agent.py").write_text(
        "import os\ndef answer(messages, ctx): return os.environ.get('SEATRIAL_TOKEN', 'nothing')\n", encoding="utf-8"
    )
    suite = {
        "suite": {"agent": "agent:answer"},
        "scenarios": [{"name": "a", "input": "x", "expected_output": "nothing"}],
    }
    (own_project.path / "peek.yaml").write_text(json.dumps(suite), encoding="utf-8")
    run_id = start(server, paths=["peek.yaml"])
    list(events(server, run_id))

    assert server.json(f"/api/runs/{run_id}")["status"] == "passed"


def test_runs_end_with_the_server(serve: Any, own_project: Any, gate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seatrial.model.run import RunState
    from seatrial.store.store import open_store

    monkeypatch.chdir(own_project.path)
    server = serve(store=own_project.store, root=own_project.path)
    server.get("/")
    run_id = start(server)
    for _, found in events(server, run_id):
        if found["played"] == 1:
            break
    serve.close()  # type: ignore[attr-defined]

    with open_store(own_project.store) as store:
        assert store.run(run_id).state is RunState.INTERRUPTED

"""`seatrial serve` as a process of its own."""

import contextlib
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest


def begin(folder: Any, *args: str) -> "tuple[subprocess.Popen[str], str]":
    """The process and its address, once it takes connections."""
    process: subprocess.Popen[str] = folder.start("serve", "--port", "0", *args)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("seatrial is at http://127.0.0.1:"), (line, process.stderr.read() if process.stderr else "")
    return process, line.split()[3]


def end(process: "subprocess.Popen[str]", sent: signal.Signals = signal.SIGINT) -> int:
    process.send_signal(sent)
    process.communicate(timeout=30)
    return process.returncode


@pytest.fixture
def project(folder: Any) -> Any:
    folder.write("agent.py", "def answer(input): return 'yes'\n")
    folder.write("scenarios/one.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: a}]\n")
    return folder


def test_it_shows_what_was_run_and_ends_with_ctrl_c(project: Any) -> None:
    project.seatrial("run", "--id", "job-1")
    process, address = begin(project)

    found = httpx2.get(f"{address}/api/runs").json()["runs"]
    page = httpx2.get(f"{address}/runs/job-1").text

    assert end(process) == 0
    assert [run["id"] for run in found] == ["job-1"]
    assert "PASS" in page


def test_it_runs_suites_of_its_folder_alone(project: Any) -> None:
    project.write("other.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: b, input: b}]\n")
    process, address = begin(project, "scenarios")

    suites = httpx2.get(f"{address}/api/suites").json()["suites"]
    session = httpx2.get(address).cookies
    refused = httpx2.post(f"{address}/api/runs", json={"paths": ["../other.yaml"]}, cookies=session)
    started = httpx2.post(f"{address}/api/runs", json={"paths": ["one.yaml"]}, cookies=session).json()["run_id"]
    with httpx2.stream("GET", f"{address}/api/runs/{started}/events", timeout=30) as events:
        told = "".join(events.iter_text())

    assert end(process) == 0
    assert suites == ["one.yaml"]
    assert refused.status_code == 422
    assert '"state": "finished"' in told
    assert project.results()["passed"] is True


def test_a_token_comes_from_the_environment(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_TOKEN", "a-token-of-some-length")
    process, address = begin(project, "--host", "127.0.0.1", "--read-only")

    without = httpx2.get(f"{address}/api/runs").status_code
    with_it = httpx2.get(f"{address}/api/runs", headers={"authorization": "Bearer a-token-of-some-length"}).status_code

    end(process, signal.SIGTERM)
    assert (without, with_it) == (401, 200)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--host", "0.0.0.0"), "so a token is required"),
        (("--token", "short"), "at least 16"),
        (("nosuch",), "is not a folder"),
        (("--store", "agent.py"), "agent.py: is not a SQLite database"),
        (("--store", "scenarios"), "scenarios: cannot be opened for writing"),
        (("--store", "postgresql://nobody@127.0.0.1:1/none"), "cannot be reached"),
    ],
)
def test_what_is_not_safe_or_not_there_is_refused(project: Any, args: tuple[str, ...], said: str) -> None:
    ended = project.seatrial("serve", *args)

    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_without_its_extra_it_says_what_to_install(tmp_path: Path) -> None:
    work = (
        "import sys; sys.modules['fastapi'] = sys.modules['h11'] = None; from seatrial.cli import main; main(['serve'])"
    )
    done = subprocess.run([sys.executable, "-c", work], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "pip install 'seatrial[server]'" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="limits descriptors as a POSIX shell does")
def test_half_open_connections_do_not_keep_others_out(project: Any) -> None:
    """More of them than the process may have descriptors: macOS gives 256."""
    command = f"ulimit -n 256; exec {shlex.quote(sys.executable)} -m seatrial serve --port 0"
    process = subprocess.Popen(["sh", "-c", command], cwd=project.path, stdout=subprocess.PIPE, text=True)
    with contextlib.ExitStack() as stack:
        stack.callback(end, process, signal.SIGKILL)
        assert process.stdout is not None
        address = process.stdout.readline().split()[3]
        host, port = address.removeprefix("http://").split(":")
        for number in range(300):
            one = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            if number % 2:
                with contextlib.suppress(OSError):  # it may have been closed already
                    one.sendall(b"POST /api/runs HTTP/1.1\r\ncontent-length: 10\r\n")

        assert [httpx2.get(f"{address}/api/runs", timeout=10).status_code for _ in range(3)] == [200, 200, 200]

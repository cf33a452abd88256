"""Agents that fork: what they leave behind is no second run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

AGENT = """
import os, sys

def note(text):
    with open("calls.log", "a") as log:
        log.write(text + "\\n")

def leave(input):
    note(input)
    if input == "2" and os.fork() == 0:
        sys.exit(0)
    return "ok"

def give_out(input):
    note(input)
    if input == "2" and os.fork() == 0:
        raise ValueError("in the fork")
    return "ok"

async def leave_async(input):
    note(input)
    if input == "2" and os.fork() == 0:
        sys.exit(0)
    return "ok"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("agent", ["leave", "give_out", "leave_async"])
def test_a_fork_that_an_agent_does_not_end_plays_no_trials_and_does_not_stay(tmp_path: Path, agent: str) -> None:
    (tmp_path / "forks.py").write_text(AGENT)
    scenarios = "".join(f"  - {{name: s{n}, input: '{n}', expected_output: ok}}\n" for n in range(30))
    (tmp_path / "suite.yaml").write_text(f"suite: {{name: s, agent: 'forks:{agent}'}}\nscenarios:\n{scenarios}")
    run = subprocess.Popen(
        [sys.executable, "-m", "seatrial", "run", "suite.yaml"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        # Until stderr is closed by all who have it, the fork included.
        run.communicate(timeout=20)
    finally:
        try:
            os.killpg(run.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert run.returncode == 0
    assert sorted((tmp_path / "calls.log").read_text().split(), key=int) == [str(n) for n in range(30)]

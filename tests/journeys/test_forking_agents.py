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


CALLING = """
import asyncio, os
from seatrial import tool

@tool
def look(q): return "really"

def in_fork(call):
    child = os.fork()
    if child == 0:
        call()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def wrapped(input): return f"ended with {in_fork(lambda: look('x'))}"
def by_ctx(input, ctx): return f"ended with {in_fork(lambda: ctx.call_tool('look', {'q': 'x'}))}"

async def wrapped_async(input): return f"ended with {in_fork(lambda: look('x'))}"

async def by_ctx_async(input, ctx):
    child = os.fork()
    if child == 0:
        await ctx.call_tool("look", {"q": "x"})
    return f"ended with {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("mocks", ["{look: {returns: mocked}}", "{}"], ids=["mocked", "real"])
@pytest.mark.parametrize("agent", ["wrapped", "by_ctx", "wrapped_async", "by_ctx_async"])
def test_a_fork_that_calls_a_tool_ends_with_an_error_and_the_trial_goes_on(
    tmp_path: Path, agent: str, mocks: str
) -> None:
    (tmp_path / "forks.py").write_text(CALLING)
    scenario = f"{{name: a, input: x, expected_output: ended with 1, mocks: {mocks}}}"
    (tmp_path / "suite.yaml").write_text(f"suite: {{agent: 'forks:{agent}'}}\nscenarios: [{scenario}]\n")
    run = subprocess.Popen(
        [sys.executable, "-m", "seatrial", "run", "suite.yaml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = run.communicate(timeout=30)
    finally:
        try:
            os.killpg(run.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    assert run.returncode == 0, out + err
    assert "tool 'look' was called in a fork of the agent's process" in err

"""Ctrl-C and SIGTERM, sent to a real process while trials are under way."""

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

AGENT = """
    import asyncio, sys, threading
    from pathlib import Path

    def sync(input):
        with open("called", "a") as called: called.write(input + "\\n")
        if input == "slow" and not Path("go").exists():
            print("waiting", file=sys.stderr, flush=True)
            threading.Event().wait()
        return "done"

    async def stubborn(input):
        while input == "slow":
            print("waiting", file=sys.stderr, flush=True)
            try: await asyncio.sleep(3600)
            except asyncio.CancelledError: print("cancelled", file=sys.stderr, flush=True)
        return "done"
"""


def start(folder: Any, agent: str) -> "subprocess.Popen[str]":
    """A run of which one scenario is finished and one is under way."""
    folder.write("agent.py", AGENT)
    scenarios = [{"name": name, "input": name} for name in ("quick", "slow", "never")]
    suite = {"agent": f"agent:{agent}", "config": {"concurrency": 1}}
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": scenarios}))
    process: subprocess.Popen[str] = folder.start("run", "suite.yaml")
    read_until(process, {"waiting", "quick: 1/1 trials passed  [1/3]"})
    return process


def read_until(process: "subprocess.Popen[str]", wanted: set[str]) -> None:
    """Read what the process says until it has said everything that is wanted."""
    assert process.stderr is not None
    missing = set(wanted)
    for line in process.stderr:
        missing.discard(line.rstrip())
        if not missing:
            return
    raise AssertionError(f"the process ended without saying {missing}")


def stored_run(folder: Any) -> dict[str, Any]:
    (run,) = json.loads(folder.seatrial("list", "runs", "--json").out)
    assert isinstance(run, dict)
    return run


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("agent", ["sync", "stubborn"])
def test_an_interrupted_run_ends_with_130_and_keeps_what_is_finished(
    folder: Any, agent: str, sent: signal.Signals
) -> None:
    with start(folder, agent) as process:
        process.send_signal(sent)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    run = stored_run(folder)
    assert f"interrupted; finished trials are kept. Continue: seatrial run --resume {run['id']}" in out
    assert "Traceback" not in out + err
    assert (run["state"], run["verdict"], run["passed"], run["total"]) == ("interrupted", "not_run", 1, 3)
    assert {one["name"]: one["status"] for one in folder.results()["scenarios"]} == {
        "quick": "passed",
        "slow": "not_run",
        "never": "not_run",
    }


def test_a_run_that_another_process_plays_is_not_resumed(folder: Any) -> None:
    with start(folder, "sync") as process:
        run = stored_run(folder)
        refused = folder.process("run", "--resume", run["id"])
        folder.write("go", "")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert refused.code == 2
    assert f"run {run['id']}: another process is playing it. Wait for its end, or stop it" in refused.err
    assert stored_run(folder)["passed"] == 1, "nothing was played meanwhile"
    assert folder.process("run", "--resume", run["id"]).code == 0
    assert not list((folder.path / ".seatrial").glob("*.playing"))


def test_a_run_that_was_killed_is_resumed_at_once(folder: Any) -> None:
    with start(folder, "sync") as process:
        process.kill()
        process.wait()
        folder.write("go", "")

        assert folder.process("run", "--resume", "latest").code == 0
    assert not list((folder.path / ".seatrial").glob("*.playing"))


def test_a_second_interrupt_ends_the_run_at_once(folder: Any) -> None:
    with start(folder, "stubborn") as process:
        process.send_signal(signal.SIGINT)
        read_until(process, {"cancelled"})
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "interrupted" in err
    assert "seatrial run --resume" not in out, "it did not wait for the end of the grace"
    assert "Traceback" not in out + err
    assert stored_run(folder)["passed"] == 1


def test_an_interrupted_run_is_resumed_with_what_is_missing(folder: Any) -> None:
    with start(folder, "sync") as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    folder.write("called", "")
    folder.write("go", "")

    ended = folder.process("run", "suite.yaml", "--resume", stored_run(folder)["id"])

    assert ended.code == 0, ended.err
    assert (folder.path / "called").read_text() == "slow\nnever\n"
    assert [stored_run(folder)[key] for key in ("state", "verdict", "passed")] == ["finished", "passed", 3]


def test_a_killed_run_keeps_what_it_reported(folder: Any) -> None:
    with start(folder, "sync") as process:
        process.kill()
        process.communicate(timeout=60)

    run = stored_run(folder)
    assert (run["state"], run["verdict"], run["passed"]) == ("running", "not_run", 1)


NOTEBOOK = """
    import asyncio, signal
    from seatrial import Scenario, run
    from agent import sync

    async def cell():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as kernels of notebooks do
        try: run([Scenario(name=name, input=name) for name in ("quick", "slow", "never")], agent=sync, concurrency=1)
        except KeyboardInterrupt: print("interrupted", open("called").read().split())

    asyncio.new_event_loop().run_until_complete(cell())
"""


def test_a_run_in_a_notebook_ends_with_the_cell_that_is_interrupted(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    with start_script(folder, NOTEBOOK) as process:
        read_until(process, {"waiting"})
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert (out.strip(), process.returncode) == ("interrupted ['quick', 'slow']", 0), err
    run = stored_run(folder)
    assert (run["state"], run["passed"], run["total"]) == ("interrupted", 1, 3)


SERVER = """
    import asyncio, os, signal
    from seatrial import Scenario, arun, run

    scenario = Scenario(name="one", input="Hello?")

    async def serve():
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        assert await arun(scenario, agent=lambda input: "hi", store=None)
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        print("shut down")

    asyncio.run(serve())
    signal.signal(signal.SIGTERM, lambda *_: print("heard"))
    assert run(scenario, agent=lambda input: "hi", store=None)
    os.kill(os.getpid(), signal.SIGTERM)
"""


def test_a_run_leaves_sigterm_to_those_who_listen_already(folder: Any) -> None:
    with start_script(folder, SERVER) as process:
        out, err = process.communicate(timeout=60)

    assert (out.split("\n"), process.returncode) == (["shut down", "heard", ""], 0), err


def start_script(folder: Any, script: str) -> "subprocess.Popen[str]":
    file = folder.write("script.py", script)
    return subprocess.Popen(
        [sys.executable, str(file)], cwd=folder.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

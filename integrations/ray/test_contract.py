"""Runs on a real Ray cluster are what they are on one machine, whatever happens to its workers and nodes."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

AGENT = """
    import os, signal, time
    from pathlib import Path

    def answer(input, ctx):
        with open("played", "a") as file: file.write(f"{os.getpid()} {input} {ctx.trial_id[-1]}\\n")
        if input == "raises": raise ValueError("no such order")
        if input == "token": return f"it is {os.environ['SHOP_TOKEN']}"
        if input == "kills once" and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if input == "kills": os.kill(os.getpid(), signal.SIGKILL)
        while input == "waits" and not Path("go").exists(): time.sleep(0.02)
        return f"you said {input}, {ctx.seed}"
"""


def played(project: Any) -> list[str]:
    """What the agent was asked, in order, by whichever process."""
    file = project.path / "played"
    return [line.split(" ", 1)[1] for line in file.read_text().splitlines()] if file.exists() else []


def players(project: Any) -> set[str]:
    """The processes that the agent was in."""
    return {line.split()[0] for line in (project.path / "played").read_text().splitlines()}


def wait_until(process: Any, happened: Callable[[], bool]) -> None:
    while not happened():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)


VARIED = [
    {"name": "passes", "input": "a", "expected_output": "you said", "trials": 3, "tags": ["read"]},
    {"name": "fails", "input": "b", "expected_output": "goodbye", "trials": 2},
    {"name": "errors", "input": "raises", "trials": 2, "threshold": 0.5},
    {"name": "auto", "input": "c", "trials": "auto"},
    {"name": "gated", "input": "d", "trials": 4, "gate": {"pass_rate": 0.2}},
    {"name": "skipped", "input": "e", "skip": "not yet"},
    {"name": "expected to fail", "input": "f", "expected_output": "nothing", "xfail": "known"},
    {"name": "own evaluator", "input": "g", "scorers": ["polite"]},
    {"name": "rows", "input": "{word}", "expected_output": "{word}", "examples": [{"word": "one"}, {"word": "two"}]},
]


def test_a_run_on_the_cluster_is_stored_as_one_on_this_machine_is(project: Any) -> None:
    project.write("agent.py", AGENT)
    evaluator = "from seatrial import evaluator\n\n@evaluator\ndef polite(ctx):\n    return False, 'no greeting'\n"
    project.write("checks.py", evaluator)
    project.suite(
        VARIED, evaluators=["checks"], groups=[{"name": "reading", "tags": ["read"], "must_pass": ["passes"]}]
    )
    same = ("--seed", "7", "--name", "same")

    here = project.seatrial("run", "suite.yaml", *same, "--store", "here.db")
    there = project.on_ray(*same)

    assert (here.returncode, there.returncode) == (1, 1), there.stderr
    assert project.stored() == project.stored("here.db")
    shown = [done.stdout.partition("trials, ")[0].rsplit("\n", 1)[0] for done in (here, there)]
    assert shown[0] == shown[1]


def test_a_streamed_suite_in_any_order_is_played_whole(project: Any) -> None:
    project.write("agent.py", "def answer(input):\n    return '' if int(input) % 97 == 0 else input")
    lines = [{"name": f"n{n}", "input": str(n), "expected_output": str(n)} for n in range(2_100)]
    project.write("suite.jsonl", "\n".join(map(json.dumps, lines)))
    asked = ("run", "suite.jsonl", "--agent", "agent:answer", "--seed", "1", "--executor", "ray")

    done = project.seatrial(*asked, RAY_ADDRESS=project.address)

    assert done.returncode == 1, done.stderr
    stored = project.trials()
    assert len(stored) == 2_100
    assert [name for name, _, status in stored if status != "passed"] == sorted(f"n{n}" for n in range(0, 2_100, 97))


def test_the_trials_of_a_killed_worker_are_played_again_and_stored_once(project: Any) -> None:
    project.write("agent.py", AGENT)
    project.suite([{"name": f"s{n}", "input": "kills once" if n == 3 else f"{n}", "trials": 5} for n in range(8)])

    done = project.on_ray()

    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.path / "killed").exists()
    assert project.trials() == sorted((f"s{n}", index, "passed") for n in range(8) for index in range(5))


def test_a_trial_that_ends_every_worker_is_given_up_without_harm_to_others(project: Any) -> None:
    project.write("agent.py", AGENT)
    project.suite([{"name": name, "input": name} for name in ("a", "b", "kills", "c", "d")])

    done = project.on_ray("--concurrency", "8")

    assert done.returncode == 1
    assert "the worker was lost 3 times while this trial was played" in done.stdout
    assert {name: status for name, _, status in project.trials()} == {
        **dict.fromkeys("abcd", "passed"),
        "kills": "errored",
    }
    assert played(project).count("kills 1") == 3


def test_no_trial_is_lost_with_a_node(project: Any, cluster: Any) -> None:
    project.write("agent.py", AGENT)
    project.suite([{"name": f"s{n}", "input": "waits" if n < 6 else f"{n}", "trials": 2} for n in range(20)])
    node = cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    address = ("--executor", "ray", "--ray-address", project.address)

    with project.start("run", "suite.yaml", *address, "--concurrency", "12") as process:
        assert process.stderr is not None
        # All twelve wait, on three workers, one of which is on the node.
        wait_until(process, lambda: len(played(project)) >= 12)
        cluster.remove_node(node, allow_graceful=False)
        wait_until(process, lambda: any(not Path(f"/proc/{pid}").exists() for pid in players(project)))
        (project.path / "go").touch()
        _, err = process.communicate(timeout=90)

    assert process.returncode == 0, err
    assert project.trials() == sorted((f"s{n}", index, "passed") for n in range(20) for index in range(2))
    assert len(played(project)) > 40, "what the node had begun was begun again"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_is_finished_and_is_resumed(project: Any, sent: signal.Signals) -> None:
    project.write("agent.py", AGENT)
    project.suite([{"name": name, "input": name} for name in ("quick", "waits", "never")])
    address = ("--executor", "ray", "--ray-address", project.address)

    with project.start("run", "suite.yaml", *address, "--concurrency", "1") as process:
        assert process.stderr is not None
        wait_until(process, lambda: "waits 1" in played(project))
        for line in process.stderr:
            if line.startswith("quick: 1/1"):
                break
        os.killpg(process.pid, sent)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130, err
    assert "interrupted; finished trials are kept" in out
    assert "Traceback" not in out + err
    assert project.trials() == [("quick", 0, "passed")]
    (project.path / "go").touch()
    (project.path / "played").unlink()
    resumed = project.on_ray("--resume", "latest")
    assert resumed.returncode == 0, resumed.stderr
    assert sorted(played(project)) == ["never 1", "waits 1"]
    assert [status for *_, status in project.trials()] == ["passed"] * 3


def test_fail_fast_and_budgets_stop_as_on_this_machine(project: Any) -> None:
    agent = "from seatrial import AgentResult\n\ndef answer(input):\n    return AgentResult(input, [], cost_usd=1.0)\n"
    project.write("agent.py", agent)
    project.suite([{"name": f"s{n}", "input": f"{n}", "expected_output": "1" if n else "x"} for n in range(6)])

    lost = project.on_ray("--concurrency", "1", "--fail-fast")
    stopped = project.trials()
    spent = project.on_ray("--concurrency", "1", "--budget", "3")

    assert (lost.returncode, spent.returncode) == (1, 1)
    assert stopped == [("s0", 0, "failed")]
    assert len(project.trials()) == 3


def test_the_drivers_environment_holds_on_workers_and_its_secrets_are_redacted(project: Any) -> None:
    project.write("agent.py", AGENT)
    project.suite([{"name": "tells", "input": "token", "expected_output": "it is [redacted]"}])

    done = project.on_ray(SHOP_TOKEN="sesame-open-it")

    assert done.returncode == 0, done.stdout + done.stderr
    assert b"sesame-open-it" not in b"".join(file.read_bytes() for file in Path(project.path).glob(".seatrial/runs*"))


def test_without_an_address_a_cluster_is_started_here_and_ended(project: Any) -> None:
    project.write("agent.py", AGENT)
    project.suite([{"name": "alone", "input": "a"}])

    done = project.seatrial("run", "suite.yaml", "--executor", "ray")

    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    assert project.trials() == [("alone", 0, "passed")]

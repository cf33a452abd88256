"""Several processes, one run."""

from typing import Any

import pytest

from seatrial.model.run import RunState
from seatrial.store.store import open_store

pytest_plugins = ["pytester"]

DYING = """
    import os, signal

    def answer(input):
        if input == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return input
"""


def test_workers_play_one_run_and_everything_comes_together(project: Any) -> None:
    lines = [f"  - {{name: s{n}, input: x, trials: 2, tags: [fuzzy]}}" for n in range(8)]
    lines.append("  - {name: bad, input: x, expected_output: nine, tags: [fuzzy]}")
    project.write("a.trial.yaml", "\n".join(["suite: {agent: 'agent:answer'}", "scenarios:", *lines]))
    project.write("judged.trial.yaml", "scenarios: [{name: j, turns: [{user: x, expect: {judge: {rubric: r}}}]}]")
    project.supply_agent()
    project.write("test_b.py", "async def test_b(seatrial):\n    assert await seatrial.run('x')\n")
    project.write("pyproject.toml", '[tool.seatrial.groups.fuzzy]\ntags = ["fuzzy"]\nthreshold = 0.8\n')
    result = project.process("-n", "2", "--junit-xml=junit.xml", "--seatrial-report=json=out.json")
    result.assert_outcomes(passed=9, failed=1, skipped=1)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*1 test was skipped because a model*", "*absorbed*a.trial.yaml::bad"])
    with open_store(project.path / ".seatrial" / "runs.db") as store:
        (row,) = store.run_rows()
    assert (row.run.state, row.scenarios, row.passed, row.failed) == (RunState.FINISHED, 11, 17, 1)
    assert "seatrial_run" in (project.path / "junit.xml").read_text()
    assert "test_b" in (project.path / "out.json").read_text()


def test_a_worker_that_is_killed_loses_nothing_that_was_finished_and_the_run_is_not_green(project: Any) -> None:
    project.write("agent.py", DYING)
    lines = [f"  - {{name: s{n}, input: x, tags: [fuzzy]}}" for n in range(4)]
    lines.insert(3, "  - {name: dies, input: die, tags: [fuzzy]}")
    project.write("a.trial.yaml", "\n".join(["suite: {agent: 'agent:answer'}", "scenarios:", *lines]))
    project.write("pyproject.toml", '[tool.seatrial.groups.fuzzy]\ntags = ["fuzzy"]\nthreshold = 0.1\n')
    result = project.process("-n", "2")
    result.assert_outcomes(passed=4, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    with open_store(project.path / ".seatrial" / "runs.db") as store:
        (row,) = store.run_rows()
    assert row.passed == 4
    assert row.run.state is RunState.INTERRUPTED

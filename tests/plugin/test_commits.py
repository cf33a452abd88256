"""A test is reported only after its scenario is committed, and one that cannot be committed has not passed."""

import os
import signal
import sqlite3
from typing import Any

import pytest

from seatrial.errors import StoreError
from seatrial.model.protocols import Event, TrialFinished
from seatrial.runs import session
from seatrial.store import writer
from seatrial.store.store import open_store

pytest_plugins = ["pytester"]

AGENT = """
    def answer(input):
        return input
"""
FILE = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios:
"""


@pytest.fixture
def project(project: Any) -> Any:
    project.write("agent.py", AGENT)
    return project


def write_scenarios(project: Any, *names: str, file: str = "a.trial.yaml") -> None:
    lines = [f"      - {{name: {name}, input: {name}, expected_output: {name}}}" for name in names]
    project.write(file, FILE + "\n".join(lines))


def run(project: Any, *args: str) -> pytest.RunResult:
    result: pytest.RunResult = project.pytester.runpytest_inprocess("-p", "no:cacheprovider", *args)
    return result


def kept(project: Any) -> list[str]:
    with open_store(str(project.path / ".seatrial" / "runs.db")) as store:
        return sorted(trial.key.name for run in store.runs() for trial in store.summaries(run.id))


def test_a_scenario_is_committed_before_its_test_is_reported(project: Any) -> None:
    project.write(
        "conftest.py",
        """
        import sqlite3

        def pytest_runtest_logreport(report):
            if report.when == "call":
                found = sqlite3.connect(".seatrial/runs.db").execute("SELECT COUNT(*) FROM trials").fetchone()[0]
                print(f"{report.nodeid}: {found} kept")
        """,
    )
    write_scenarios(project, "a", "b", "c")
    run(project).stdout.fnmatch_lines(["*::a: 1 kept", "*::b: 2 kept", "*::c: 3 kept"])


def test_what_cannot_be_committed_has_not_passed(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **named: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(writer, "insert_trials", refuse)
    write_scenarios(project, "a", "b")
    result = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*the disk is full*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_scenarios_after_one_that_could_not_be_committed_are_kept(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = writer.insert_trials
    calls: list[int] = []

    def refuse_once(*args: Any, **named: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise StoreError("the disk is full")
        insert(*args, **named)

    monkeypatch.setattr(writer, "insert_trials", refuse_once)
    write_scenarios(project, "a", "b", "c")
    run(project).assert_outcomes(passed=2, failed=1)
    assert kept(project) == ["b", "c"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_what_a_fork_of_the_session_plays_is_kept_there(project: Any) -> None:
    project.write(
        "conftest.py",
        """
        import os
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            child = os.fork()
            if child == 0:
                runtestprotocol(item, log=False, nextitem=nextitem)
                os._exit(0)
            os.waitpid(child, 0)
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            return True
        """,
    )
    write_scenarios(project, "a", "b")
    project.process()
    assert kept(project) == ["a", "b"]
    with open_store(str(project.path / ".seatrial" / "runs.db")) as store:
        assert len(list(store.runs())) == 1


def test_a_store_that_cannot_be_opened_is_told_of_by_the_tests(project: Any) -> None:
    with sqlite3.connect(project.path / "other.db") as other:
        other.execute("CREATE TABLE something (of_theirs TEXT)")
    project.write("pyproject.toml", '[tool.seatrial]\nstore = "other.db"\n')
    project.write(
        "a.trial.yaml",
        """
        suite: {name: shop, agent: "agent:answer"}
        scenarios:
          - {name: passes, input: hello, expected_output: hello}
          - {name: is skipped, input: hello, skip: later}
          - {name: fails as foretold, input: hello, expected_output: bye, xfail: not yet}
          - {name: fails, input: hello, expected_output: bye}
        """,
    )
    result = run(project)
    result.assert_outcomes(failed=3, skipped=1)
    told = "*other.db: is a SQLite database of another program. Name another place: --store, or SEATRIAL_STORE."
    result.stdout.fnmatch_lines([told] * 3)
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_listeners_hear_of_a_trial_when_it_is_kept(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[list[str]] = []

    def listen(event: Event) -> None:
        if isinstance(event, TrialFinished):
            heard.append(kept(project))

    monkeypatch.setattr(session, "find_listeners", lambda request: (listen,))
    write_scenarios(project, "a", "b", "c")
    run(project)
    assert heard == [["a"], ["a", "b"], ["a", "b", "c"]]


def test_a_session_that_is_killed_has_told_of_nothing_that_is_not_kept(project: Any) -> None:
    project.write(
        "agent.py",
        """
        import os, signal

        def answer(input):
            if input == "s200":
                os.kill(os.getpid(), signal.SIGKILL)
            return input
        """,
    )
    project.write("conftest.py", "")
    names = [f"s{number}" for number in range(300)]
    write_scenarios(project, *names)
    result = project.process("-v")
    passed = {line.partition("::")[2].partition(" ")[0] for line in result.outlines if "PASSED" in line}
    assert result.ret == -signal.SIGKILL
    assert {"s0"} <= passed <= set(kept(project)) <= set(names[:200])

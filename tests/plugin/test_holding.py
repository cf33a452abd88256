"""Quick scenarios are kept several at a time, and nobody hears of one before it is kept."""

import os
import signal
import sqlite3
from textwrap import dedent
from typing import Any

import pytest

from seatrial.agents import threads
from seatrial.errors import StoreError
from seatrial.session import open_run
from seatrial.store import Store, open_store
from seatrial.vocabulary.events import Event, TrialFinished
from seatrial_pytest import holding

pytest_plugins = ["pytester"]

PATIENCE = 20.0
RECORD = """
    seen = []
"""
AGENT = """
    import record

    def answer(input):
        record.seen.append(f"play {input}")
        return input
"""
CONFTEST = """
    import record

    def pytest_runtest_logstart(nodeid):
        record.seen.append(f"start {nodeid.rpartition('::')[2]}")

    def pytest_runtest_logreport(report):
        record.seen.append(f"{report.when} {report.nodeid.rpartition('::')[2]}")

    def pytest_runtest_logfinish(nodeid):
        record.seen.append(f"finish {nodeid.rpartition('::')[2]}")
"""
FILE = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios:
"""


@pytest.fixture
def project(project: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One in which nothing but the matter itself decides when pytest is told, however busy the machine is."""
    monkeypatch.setattr(threads, "_QUICK_SECONDS", PATIENCE)
    monkeypatch.setattr(holding, "_WAIT_SECONDS", PATIENCE)
    project.write("record.py", RECORD)
    project.write("agent.py", AGENT)
    project.write("conftest.py", CONFTEST)
    return project


def write_scenarios(project: Any, *names: str, file: str = "a.trial.yaml") -> None:
    lines = [f"      - {{name: {name}, input: {name}, expected_output: {name}}}" for name in names]
    project.write(file, FILE + "\n".join(lines))


def add_to_conftest(project: Any, text: str) -> None:
    project.write("conftest.py", f"{dedent(CONFTEST)}\nimport pytest\nfrom agent import answer\n\n{text}")


class Seen:
    """Sees what a conftest saw, before pytest forgets it."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        import record

        self.all = record.seen


def run(project: Any, *args: str) -> tuple[pytest.RunResult, list[str]]:
    seen = Seen()
    result = project.pytester.runpytest_inprocess("-p", "no:cacheprovider", *args, plugins=[seen])
    return result, seen.all


def refuse(*args: Any, **named: Any) -> None:
    raise StoreError("the disk is full")


def told(name: str) -> list[str]:
    return [f"{what} {name}" for what in ("start", "setup", "call", "teardown", "finish")]


def kept(project: Any) -> list[str]:
    with open_store(str(project.path / ".seatrial" / "runs.db")) as store:
        return sorted(trial.key.name for run in store.runs() for trial in store.summaries(run.id))


def test_quick_scenarios_are_told_of_together_and_as_ever(project: Any) -> None:
    write_scenarios(project, "a", "b", "c")
    result, seen = run(project)
    result.assert_outcomes(passed=3)
    # The last test of a file may tear fixtures down, so those before it, and what is known of it, are told first.
    assert seen[:3] == ["play a", "play b", "play c"]
    assert seen[3:] == [*told("a"), *told("b"), *told("c")]
    assert kept(project) == ["a", "b", "c"]


def test_nobody_hears_of_a_scenario_before_it_is_kept(project: Any) -> None:
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
    result, _ = run(project)
    result.stdout.fnmatch_lines(["*::a: 3 kept", "*::b: 3 kept", "*::c: 3 kept"])


def test_there_are_never_more_than_a_hundred(project: Any) -> None:
    write_scenarios(project, *(f"s{number}" for number in range(150)))
    _, seen = run(project)
    assert seen.index("start s0") == 100
    assert seen.index("play s100") == 100 + 5 * 100


def test_a_failure_is_told_at_once_and_ends_the_session_where_it_should(project: Any) -> None:
    write_scenarios(project, "a", "bad", "c")
    project.write("agent.py", AGENT.replace("return input", "return 'sorry' if input == 'bad' else input"))
    result, seen = run(project, "-x")
    result.assert_outcomes(passed=1, failed=1)
    assert seen == ["play a", "play bad", *told("a"), *told("bad")]
    assert kept(project) == ["a", "bad"]


def test_everything_is_told_before_a_slow_agent_is_waited_for(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_QUICK_SECONDS", 0.001)
    project.write("record.py", "import threading\nseen = []\ntold = threading.Event()\n")
    project.write(
        "agent.py",
        f"""
        import record

        def answer(input):
            return input if input != "slow" or record.told.wait({PATIENCE}) else "nobody was told"
        """,
    )
    project.write(
        "conftest.py",
        """
        import record

        def pytest_runtest_logreport(report):
            if report.nodeid.endswith("::slow"):
                print(f"{report.when} of slow is told, and it printed {report.capstdout!r}")

        def pytest_runtest_logstart(nodeid):
            if nodeid.endswith("::slow"):
                print("slow is told of")
                record.told.set()
        """,
    )
    write_scenarios(project, "a", "slow", "z")
    result, _ = run(project)
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*slow is told of", "*call of slow is told, and it printed ''"])


@pytest.mark.parametrize(
    ("args", "conftest"),
    [
        (("-s",), ""),
        (("-o", "log_cli=true"), ""),
        (("--log-cli-level=INFO",), ""),
        ((), "@pytest.fixture(autouse=True)\ndef set_up():\n    yield\n"),
        ((), "@pytest.fixture(scope='session', params=[1])\ndef seatrial_agent():\n    return answer\n"),
    ],
    ids=["no capture", "live logs", "live logs of a level", "fixtures for each", "parameters"],
)
def test_where_the_difference_would_be_seen_each_is_told_of_at_once(
    project: Any, args: tuple[str, ...], conftest: str
) -> None:
    add_to_conftest(project, conftest)
    write_scenarios(project, "a", "b")
    result, seen = run(project, *args)
    result.assert_outcomes(passed=2)
    plays = [position for position, what in enumerate(seen) if what.startswith("play")]
    assert any(what.startswith("finish a") for what in seen[: plays[1]])


def test_an_agent_from_a_fixture_of_the_session_is_no_reason_to_wait(project: Any) -> None:
    add_to_conftest(project, "@pytest.fixture(scope='session')\ndef seatrial_agent():\n    return answer\n")
    write_scenarios(project, "a", "b", "c")
    _, seen = run(project)
    assert seen[:3] == ["play a", "play b", "play c"]


def test_other_tests_come_after_all_that_was_told(project: Any) -> None:
    write_scenarios(project, "a", "b")
    project.write("test_z.py", "import record\n\ndef test_z():\n    record.seen.append('run test_z')\n")
    _, seen = run(project, "a.trial.yaml", "test_z.py", "a.trial.yaml")
    assert seen[: seen.index("run test_z")] == [
        *("play a", "play b", *told("a"), *told("b")),
        *("start test_z", "setup test_z"),
    ]


def test_each_file_is_told_of_at_its_end(project: Any) -> None:
    write_scenarios(project, "a", "b")
    write_scenarios(project, "y", "z", file="z.trial.yaml")
    _, seen = run(project)
    assert seen[:12] == ["play a", "play b", *told("a"), *told("b")]


def test_whoever_takes_their_time_between_tests_is_no_longer_waited_for(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "_WAIT_SECONDS", 0.04)
    slow_hook = """
        import time

        def pytest_runtest_setup(item):
            if item.name == "b":
                time.sleep(0.15)  # as those do who keep to the limits of a provider
    """
    add_to_conftest(project, dedent(slow_hook))
    write_scenarios(project, "a", "b", "c", "d", "e")
    _, seen = run(project)
    assert seen[seen.index("play c") :] == [
        *("play c", *told("c")),
        *("play d", *told("d")),
        *("play e", *told("e")),
    ]


def test_what_cannot_be_kept_has_not_passed(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "save_played", refuse)
    write_scenarios(project, "a", "b")
    result, seen = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["The scenario was played, and could not be kept.", "the disk is full"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    assert [what for what in seen if what.startswith("play")] == ["play a", "play b"]


def test_scenarios_after_those_that_could_not_be_kept_are_kept(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    save = Store.save_played
    calls: list[int] = []

    def refuse_once(self: Store, *args: Any, **named: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise StoreError("the disk is full")
        save(self, *args, **named)

    monkeypatch.setattr(Store, "save_played", refuse_once)
    write_scenarios(project, "a", "b")
    write_scenarios(project, "y", "z", file="z.trial.yaml")
    result, _ = run(project)
    result.assert_outcomes(passed=2, failed=2)
    assert kept(project) == ["y", "z"]


LEAVING = """
    class Late:
        def pytest_sessionfinish(self):
            record.seen.append("the end")

    def pytest_collection_finish(session):
        session.config.pluginmanager.register(Late())

    def pytest_runtest_setup(item):
        if item.name == "c":
            pytest.exit("enough", returncode=0)
"""


def test_a_session_that_is_left_tells_of_what_was_played(project: Any) -> None:
    add_to_conftest(project, dedent(LEAVING))
    write_scenarios(project, "a", "b", "c")
    result, seen = run(project)
    assert result.ret == pytest.ExitCode.OK
    assert seen == ["play a", "play b", *told("a"), *told("b"), "start c", "the end"]
    assert kept(project) == ["a", "b"]


def test_a_session_that_is_left_is_not_green_when_nothing_could_be_kept(
    project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "save_played", refuse)
    add_to_conftest(project, dedent(LEAVING))
    write_scenarios(project, "a", "b", "c")
    result, _ = run(project)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


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
    result, _ = run(project)
    result.assert_outcomes(failed=3, skipped=1)
    told = "*other.db: is a SQLite database of something else. Name another place: --store, or SEATRIAL_STORE."
    result.stdout.fnmatch_lines([told] * 3)
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_listeners_hear_of_a_trial_when_it_is_kept(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[list[str]] = []

    def listen(event: Event) -> None:
        if isinstance(event, TrialFinished):
            heard.append(kept(project))

    monkeypatch.setattr(open_run, "listeners_of", lambda request: (listen,))
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

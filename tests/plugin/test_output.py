"""What people and machines read of a session."""

from typing import Any
from xml.etree import ElementTree

import pytest

from seatrial.model.run import RunState
from seatrial.store.store import open_store

pytest_plugins = ["pytester"]

TWO_TURNS = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios:
      - name: moves a booking
        trials: 2
        turns:
          - user: hello
            expect: {reply_contains_any: [hello]}
          - user: move it
            trajectory: {mode: in_order, expected: [{name: lookup}, {name: move_booking}]}
      - name: greets
        input: hello
"""


def test_a_failure_shows_verdict_reasons_interval_and_the_conversation_with_the_step_marked(project: Any) -> None:
    project.write("a.trial.yaml", TWO_TURNS)
    result = project.run()
    result.stdout.fnmatch_lines(
        [
            "FAIL moves a booking  0/2 trials passed [[]0.00, 0.66[]]  (a.trial.yaml:3)",
            "  0/2 trials passed (threshold: 1.0)",
            "  ✗ trial-1*",
            "      turn 2: Missing tool calls: move_booking",
            "      turn 1 (*",
            "        agent: You said: hello",
            "    > turn 2 (*",
            "        agent: You said: move it",
            "    >   ✗ trajectory*",
            "    >     - move_booking*",
            "  ✗ trial-2*",
            "  look closer: seatrial show * 'moves a booking'",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*seatrial_pytest*")


def test_verbose_output_adds_the_trials_that_passed(project: Any) -> None:
    project.write(
        "flaky.py",
        """
        class Flaky:
            n = 0

            def run(self, input):
                Flaky.n += 1
                return str(2 - Flaky.n % 2)
        """,
    )
    scenario = "{name: a, input: x, trials: 2, expected_output: '2'}"
    project.write(
        "a.trial.yaml", f"suite: {{agent: 'flaky:Flaky', config: {{concurrency: 1}}}}\nscenarios: [{scenario}]"
    )
    project.run().stdout.no_fnmatch_line("*✓ trial-*")
    project.run("-v").stdout.fnmatch_lines(["*✓ trial-*"])
    assert "agent: 2" not in project.run("-v").stdout.str()
    project.run("-vv").stdout.fnmatch_lines(["*agent: *", "*✓ trial-*", "*agent: *"])


def test_what_an_agent_says_is_escaped(project: Any) -> None:
    project.write("agent.py", r"def answer(messages): return '\x1b[31m\n::error::pwned'")
    project.write(
        "a.trial.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: x, expected_output: y}]"
    )
    text = project.run("--color=no").stdout.str()
    assert "\x1b[31m" not in text
    assert "\\x1b[31m" in text
    assert not any(line.lstrip().startswith("::error") for line in text.splitlines())


def test_the_run_is_in_the_store_and_named_at_the_end(project: Any) -> None:
    project.write("a.trial.yaml", TWO_TURNS)
    project.write("test_b.py", "def test_b(seatrial):\n    assert seatrial.run('hi', agent=lambda input: 'x').passed\n")
    result = project.run()
    with open_store(project.path / ".seatrial" / "runs.db") as store:
        (row,) = store.run_rows()
    assert (row.run.state, row.scenarios, row.trials, row.failed) == (RunState.FINISHED, 3, 4, 2)
    result.stdout.fnmatch_lines([f"run {row.run.id}: seatrial show {row.run.id}"])


def test_the_store_stands_at_the_root_wherever_pytest_is_started(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("pytest.ini", "[pytest]\n")
    project.write("sub/a.trial.yaml", TWO_TURNS)
    monkeypatch.chdir(project.path / "sub")
    project.run("-k", "greets").assert_outcomes(passed=1, deselected=1)
    assert (project.path / ".seatrial" / "runs.db").exists()


def test_an_interrupted_session_leaves_an_interrupted_run(project: Any) -> None:
    project.write("agent.py", "def answer(messages): return 'x'\n")
    project.write("a.trial.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: x}]")
    project.write("test_b.py", "def test_b(): raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        project.run()
    with open_store(project.path / ".seatrial" / "runs.db") as store:
        (row,) = store.run_rows()
    assert (row.run.state, row.passed) == (RunState.INTERRUPTED, 1)


def test_junit_has_the_properties_of_the_run(project: Any) -> None:
    project.write("a.trial.yaml", TWO_TURNS)
    project.run("--junit-xml=junit.xml", "--durations=3")
    cases = {case.get("name"): case for case in ElementTree.parse(project.path / "junit.xml").iter("testcase")}
    told = {each.get("name"): each.get("value") for each in cases["moves a booking"].iter("property")}
    assert told["seatrial_trials"] == "2"
    assert told["seatrial_passed"] == "0"
    assert told["seatrial_run"]
    assert cases["moves a booking"].find("failure") is not None
    assert cases["greets"].find("failure") is None


def test_junit_counts_as_passed_what_passed_the_checks_of_the_test(project: Any) -> None:
    project.supply_agent()
    project.write(
        "test_a.py",
        """
        from seatrial import Contains

        def test_a(seatrial, record_property):
            record_property("own", "kept")
            seatrial.check(seatrial.run("hello", trials=2), Contains(any_of=["bye"]))
        """,
    )
    project.run("--junit-xml=junit.xml", "-o", "junit_family=xunit1")
    found = ElementTree.parse(project.path / "junit.xml").iter("property")
    told = [(each.get("name"), each.get("value")) for each in found]
    assert [value for name, value in told if name == "seatrial_passed"] == ["0"]
    assert ("own", "kept") in told


def test_durations_count_the_trials(project: Any) -> None:
    project.write("a.trial.yaml", TWO_TURNS)
    project.run("--durations=0", "-vv").stdout.fnmatch_lines(["*s call *a.trial.yaml::greets*"])


def test_reports_are_written_also_into_folders_that_are_not_there(project: Any) -> None:
    project.write("a.trial.yaml", TWO_TURNS)
    project.run("--seatrial-report", "markdown=out/deep/report.md", "--seatrial-report", "junit=out/run.xml")
    assert "moves a booking" in (project.path / "out/deep/report.md").read_text()
    assert (project.path / "out/run.xml").exists()


def test_a_report_that_cannot_be_written_turns_the_session_red_and_hides_nothing(project: Any) -> None:
    project.write("a.trial.yaml", TWO_TURNS)
    project.write("file", "")
    result = project.run("-k", "greets", "--seatrial-report", "json=file/out.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*file*", "*1 passed*"])


@pytest.mark.parametrize(
    "flag", ["--seatrial-report=sculpture", "--seatrial-trials=none", "--seatrial-trials=", "--seatrial-agent={"]
)
def test_a_flag_that_makes_no_sense_is_told_before_anything_runs(project: Any, flag: str) -> None:
    project.write("a.trial.yaml", TWO_TURNS)
    result = project.run(flag)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert not result.stdout.lines
    assert "Traceback" not in result.stderr.str()


def test_no_terminal_is_needed(project: Any) -> None:
    project.write("a.trial.yaml", TWO_TURNS)
    assert project.process("-p", "no:terminal").ret == pytest.ExitCode.TESTS_FAILED
    assert project.process("-p", "no:terminal", "-k", "greets").ret == pytest.ExitCode.OK


def test_options_and_marker_are_in_the_help(project: Any) -> None:
    project.run("--help").stdout.fnmatch_lines(["*--seatrial-live*", "*--seatrial-trials*", "*--seatrial-report*"])
    project.run("--markers").stdout.fnmatch_lines(["@pytest.mark.seatrial(trials=None*"])


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("pyproject.toml", "[tool.seatrial]\nlve = true", "*unknown key 'lve'. Did you mean 'live'?*"),
        ("pyproject.toml", '[tool.seatrial]\nlive = "no"', "*live: got 'no' (str)*"),
        (
            "pytest.ini",
            "[pytest]\nseatrial_trails = 3",
            "*unknown key 'seatrial_trails'. Did you mean 'seatrial_trials'?*",
        ),
        ("pytest.ini", "[pytest]\nseatrial_trials = many", "*expected a number from 1, or auto*"),
        ("pytest.ini", "[pytest]\nseatrial_live = perhaps", "*expected one of 1, true*"),
    ],
)
def test_settings_that_make_no_sense_are_usage_errors(project: Any, name: str, text: str, told: str) -> None:
    project.write(name, text)
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])


def test_trials_can_be_set_in_the_ini_file(project: Any) -> None:
    project.write("pytest.ini", "[pytest]\nseatrial_trials = 3\n")
    project.write("a.trial.yaml", TWO_TURNS)
    project.run("-k", "greets")
    with open_store(project.path / ".seatrial" / "runs.db") as store:
        assert store.run_rows()[0].trials == 3


def test_a_foretold_failure_needs_no_plugin_of_pytests_that_skips(project: Any) -> None:
    project.write(
        "a.trial.yaml",
        """
        suite: {agent: "agent:answer"}
        scenarios: [{name: greets, input: hello, expected_output: bye, xfail: known}]
        """,
    )
    project.run("-p", "no:skipping").assert_outcomes(failed=1)
    assert "AttributeError" not in project.run("-p", "no:skipping").stdout.str()

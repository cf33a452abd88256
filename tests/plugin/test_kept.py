"""Behaviours of pytest-agent-eval that people who come from it count on."""

from typing import Any

import pytest

pytest_plugins = ["pytester"]

RED = pytest.ExitCode.TESTS_FAILED
PLAIN = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios: [{name: greets, input: hello, expected_output: hello}]
"""


def groups(project: Any, text: str) -> None:
    project.write("pyproject.toml", f"[tool.seatrial.groups.fuzzy]\n{text}\n")


def parametrised(project: Any, *, mark: str = "") -> None:
    project.write("pytest.ini", "[pytest]\nmarkers = fuzzy\n")
    project.write(
        "test_a.py",
        f"""
        import pytest

        {mark}
        @pytest.mark.parametrize("n", [0, 1, 2])
        def test_a(n):
            assert n < 2
        """,
    )


def test_a_name_that_must_pass_stands_for_all_its_parameters(project: Any) -> None:
    parametrised(project, mark="@pytest.mark.fuzzy")
    groups(project, 'tags = ["fuzzy"]\nthreshold = 0.5\nmust_pass = ["test_a"]')
    result = project.run()
    assert result.ret == RED
    result.stdout.fnmatch_lines(["*must pass, did not: test_a.py::test_a?2?"])


def test_one_of_the_parameters_may_be_named_alone(project: Any) -> None:
    parametrised(project, mark="@pytest.mark.fuzzy")
    groups(project, 'tags = ["fuzzy"]\nthreshold = 0.5\nmust_pass = ["test_a[0]"]')
    assert project.run().ret == pytest.ExitCode.OK


def test_what_must_pass_need_not_be_a_member(project: Any) -> None:
    parametrised(project)
    project.write("a.trial.yaml", PLAIN.replace("input: hello", "input: hello, tags: [fuzzy]"))
    groups(project, 'tags = ["fuzzy"]\nmust_pass = ["test_a"]')
    assert project.run().ret == RED


def test_a_group_of_nothing_but_names_absorbs_nothing(project: Any) -> None:
    parametrised(project)
    groups(project, 'must_pass = ["test_a[0]"]')
    assert project.run().ret == RED


def test_a_test_in_two_groups_needs_both(project: Any) -> None:
    parametrised(project, mark="@pytest.mark.fuzzy")
    project.write(
        "pyproject.toml",
        """
        [tool.seatrial.groups.lenient]
        tags = ["fuzzy"]
        threshold = 0.5
        [tool.seatrial.groups.strict]
        tags = ["fuzzy"]
        threshold = 0.9
        """,
    )
    result = project.run()
    assert result.ret == RED
    result.stdout.fnmatch_lines(["group lenient*PASSED", "group strict*FAILED"])


def test_a_group_below_its_threshold_stays_red_with_workers_too(project: Any) -> None:
    parametrised(project, mark="@pytest.mark.fuzzy")
    groups(project, 'tags = ["fuzzy"]\nthreshold = 0.9')
    result = project.process("-n", "2")
    assert result.ret == RED
    result.stdout.fnmatch_lines(["group fuzzy: 2/3 passed*FAILED"])


def test_a_threshold_of_zero_is_refused(project: Any) -> None:
    project.supply_agent()
    project.write(
        "test_a.py",
        """
        import pytest
        from seatrial import Scenario

        @pytest.mark.seatrial(trials=2, threshold=0.0)
        def test_a(seatrial):
            assert seatrial.run(Scenario(name="a", input="x", expected_output="nine")).passed

        def test_b(seatrial):
            assert seatrial.run(Scenario(name="b", input="x", expected_output="nine"), threshold=0).passed
        """,
    )
    result = project.run()
    assert result.ret == RED
    said = "threshold: expected a number above 0 and of at most 1, got 0"
    result.stdout.fnmatch_lines([f"*test_a.py::test_a: @pytest.mark.seatrial: *{said}*"])
    result.stdout.fnmatch_lines(["* test_b *", f"{said}*"])
    result.assert_outcomes(errors=1, failed=1)


def test_a_group_with_a_threshold_of_zero_is_refused(project: Any) -> None:
    parametrised(project, mark="@pytest.mark.fuzzy")
    groups(project, 'tags = ["fuzzy"]\nthreshold = 0')
    result = project.run()
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*[[]tool.seatrial.groups.fuzzy[]] threshold: expected a number above 0*got 0*"])


def test_a_turn_that_fails_does_not_keep_the_next_from_being_played(project: Any) -> None:
    project.write(
        "agent.py",
        """
        def answer(messages):
            return f"{len(messages)} messages, the last says {messages[-1]['content']}"
        """,
    )
    project.write(
        "a.trial.yaml",
        """
        suite: {name: shop, agent: "agent:answer"}
        scenarios:
          - name: talks
            turns:
              - {user: one, expect: {reply_contains_any: [never]}}
              - {user: two, expect: {reply_contains_all: ["3 messages", "says two"]}}
        """,
    )
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*agent: 1 messages, the last says one*", "*agent: 3 messages, the last says two*"])


def test_the_reply_of_a_scenario_must_not_be_empty(project: Any) -> None:
    project.write("agent.py", "def answer(input):\n    return None\n")
    project.write("a.trial.yaml", PLAIN)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*empty output*"])


@pytest.mark.parametrize(
    ("ini", "skipped"), [("seatrial_live = true", 0), ("seatrial_live = false", 1), ("", 1)], ids=["on", "off", "unset"]
)
def test_the_ini_file_can_switch_live_on(project: Any, ini: str, skipped: int) -> None:
    project.write("pytest.ini", f"[pytest]\n{ini}\n")
    project.supply_agent()
    project.write(
        "test_a.py",
        """
        import pytest

        @pytest.mark.seatrial(live=True)
        def test_a(seatrial):
            assert seatrial.run("x").passed
        """,
    )
    project.run().assert_outcomes(passed=1 - skipped, skipped=skipped)


def test_agent_and_reports_may_stand_in_the_ini_file(project: Any) -> None:
    project.write(
        "pytest.ini", "[pytest]\nseatrial_agent = agent:answer\nseatrial_report =\n    junit=a.xml\n    json=a.json\n"
    )
    project.write("a.trial.yaml", PLAIN.replace(', agent: "agent:answer"', ""))
    project.run().assert_outcomes(passed=1)
    assert (project.path / "a.xml").exists()
    assert (project.path / "a.json").exists()

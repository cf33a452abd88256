"""Groups: they can turn a session red and green, and take nothing upon themselves but failures."""

from typing import Any

import pytest

from seatrial_pytest.groups import Group, decide_group
from seatrial_pytest.session_plugin import ItemResult

pytest_plugins = ["pytester"]

ABSORBED = pytest.ExitCode.OK
RED = pytest.ExitCode.TESTS_FAILED


def scenarios(good: int, bad: int, *, tag: str = "fuzzy") -> str:
    lines = [f"  - {{name: good{n}, input: x, tags: [{tag}]}}" for n in range(good)]
    lines += [f"  - {{name: bad{n}, input: x, expected_output: nine, tags: [{tag}]}}" for n in range(bad)]
    return "\n".join(["suite: {agent: 'agent:answer'}", "scenarios:", *lines])


def a_group(project: Any, settings: str = 'tags = ["fuzzy"]\nthreshold = 0.66', *, name: str = "fuzzy") -> None:
    project.write("pyproject.toml", f"[tool.seatrial.groups.{name}]\n{settings}\n")


def test_a_group_that_reaches_its_threshold_absorbs_failures_and_says_which(project: Any) -> None:
    a_group(project)
    project.write("a.trial.yaml", scenarios(2, 1))
    result = project.run()
    assert result.ret == ABSORBED
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "group fuzzy: 2/3 passed, 0.66 of them must: PASSED",
            "  failed: a.trial.yaml::bad0",
            "absorbed*a.trial.yaml::bad0",
        ]
    )


def test_a_group_below_its_threshold_stays_red(project: Any) -> None:
    a_group(project)
    project.write("a.trial.yaml", scenarios(1, 1))
    result = project.run()
    assert result.ret == RED
    result.stdout.fnmatch_lines(["group fuzzy: 1/2 passed*FAILED", "*1 of 2 passed (threshold: 0.66)"])


def test_a_failure_outside_the_groups_stays_red(project: Any) -> None:
    a_group(project)
    project.write("a.trial.yaml", scenarios(2, 1))
    project.write("test_b.py", "def test_b(): assert False\n")
    assert project.run().ret == RED


def test_plain_tests_may_be_members(project: Any) -> None:
    a_group(project)
    project.write("pytest.ini", "[pytest]\nmarkers = fuzzy\n")
    project.write(
        "test_b.py",
        """
        import pytest
        pytestmark = pytest.mark.fuzzy
        @pytest.mark.parametrize("n", [0, 1, 2])
        def test_b(n): assert n
        """,
    )
    assert project.run().ret == ABSORBED


@pytest.mark.parametrize(
    "broken",
    [
        "def test_c(): raise KeyError('no answer')",
        "@pytest.fixture\ndef f(): assert False\ndef test_c(f): pass",
        "@pytest.fixture\ndef f():\n    yield\n    assert False\ndef test_c(f): pass",
        "@pytest.mark.xfail(strict=True)\ndef test_c(): pass",
        "def test_c(seatrial):\n    seatrial.run('x', agent=lambda input: 'y')",
    ],
    ids=["exception", "setup", "teardown", "unexpected pass", "asserts nothing"],
)
def test_no_group_absorbs_what_is_no_failure(project: Any, broken: str) -> None:
    a_group(project, 'tags = ["fuzzy"]\nthreshold = 0.1')
    project.write("a.trial.yaml", scenarios(3, 0))
    project.write("test_c.py", f"import pytest\npytestmark = pytest.mark.fuzzy\n{broken}\n")
    assert project.run("-W", "ignore").ret == RED


def test_no_group_absorbs_an_agent_that_breaks(project: Any) -> None:
    a_group(project, 'tags = ["fuzzy"]\nthreshold = 0.1')
    project.write("agent.py", "def answer(messages):\n    raise RuntimeError('down')\n")
    project.write("ok.py", "def fine(input): return 'x'\n")
    project.write("a.trial.yaml", scenarios(1, 0))
    project.write("b.trial.yaml", scenarios(3, 0).replace("agent:answer", "ok:fine"))
    assert project.run().ret == RED


def test_no_group_absorbs_a_failure_of_a_test_that_passes_when_it_is_run_again(project: Any) -> None:
    a_group(project)
    project.write("a.trial.yaml", scenarios(2, 1))
    project.write("conftest.py", "def pytest_collection_modifyitems(items): items *= 2")
    project.write("test_b.py", "seen = []\ndef test_b():\n    seen.append(1)\n    assert len(seen) == 2\n")
    result = project.run()
    result.assert_outcomes(passed=5, failed=3)
    assert result.ret == RED


def test_no_group_absorbs_a_collection_error(project: Any) -> None:
    a_group(project)
    project.write("a.trial.yaml", scenarios(2, 1))
    project.write("bad.trial.yaml", "scenarios: [{nmae: a}]")
    assert project.run("--continue-on-collection-errors").ret == RED


def test_no_group_absorbs_an_early_stop(project: Any) -> None:
    a_group(project, 'tags = ["fuzzy"]\nthreshold = 0.5')
    project.write("a.trial.yaml", scenarios(1, 3))
    assert project.run("-x").ret == RED


def test_a_member_that_must_pass_turns_the_session_red(project: Any) -> None:
    a_group(project, 'tags = ["fuzzy"]\nthreshold = 0.1\nmust_pass = ["bad0"]')
    project.write("a.trial.yaml", scenarios(3, 1))
    result = project.run()
    assert result.ret == RED
    result.stdout.fnmatch_lines(["*must pass, did not: a.trial.yaml::bad0"])


def test_a_name_that_no_test_has_turns_a_green_session_red(project: Any) -> None:
    a_group(project, 'must_pass = ["god0"]')
    project.write("a.trial.yaml", scenarios(1, 0))
    result = project.run()
    assert result.ret == RED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*must pass, but no such test ran: god0"])


def test_a_tag_that_no_test_carries_turns_a_green_session_red(project: Any) -> None:
    a_group(project, 'tags = ["fuzy"]')
    project.write("a.trial.yaml", scenarios(1, 0))
    assert project.run().ret == RED


def test_in_a_part_of_the_tests_a_missing_member_is_only_noted(project: Any) -> None:
    a_group(project, 'tags = ["fuzzy"]\nmust_pass = ["good0"]')
    project.write("a.trial.yaml", scenarios(1, 0))
    project.write("test_b.py", "def test_b(): pass\n")
    result = project.run("-k", "test_b")
    assert result.ret == ABSORBED
    result.stdout.fnmatch_lines(["*note: no test carries 'fuzzy'", "*note: must pass, but no such test ran: good0"])


@pytest.mark.parametrize("flag", ["--collect-only", "--setup-only", "--setup-plan", "--fixtures"])
def test_where_no_test_is_run_no_group_is_decided(project: Any, flag: str) -> None:
    a_group(project, 'tags = ["fuzzy"]\nmust_pass = ["bad0"]')
    project.write("a.trial.yaml", scenarios(1, 1))
    result = project.run(flag)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*group fuzzy*")


def test_skipped_members_do_not_count(project: Any) -> None:
    a_group(project)
    project.write(
        "a.trial.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: x, tags: [fuzzy], skip: no}]"
    )
    result = project.run()
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*note: all of its tests were skipped"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("tgas = []", "*unknown key 'tgas'. Did you mean 'tags'?*"),
        ('tags = ["a"]\nthreshold = 1.5', "*expected a number above 0 and of at most 1, got 1.5*"),
        ('tags = ["a"]\nthreshold = "high"', "*expected a number above 0 and of at most 1*"),
        ('tags = "a"', "*tags: expected a list of texts*"),
        ("threshold = 0.5", "*needs 'tags' or 'must_pass'*"),
    ],
)
def test_groups_that_make_no_sense_are_usage_errors(project: Any, settings: str, told: str) -> None:
    a_group(project, settings)
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])


def test_a_suite_with_a_cases_threshold_absorbs_failures_up_to_it(project: Any) -> None:
    text = scenarios(3, 1).replace("suite: {", "suite: {config: {cases_pass_threshold: 75}, ")
    project.write("a.trial.yaml", text)
    assert project.run().ret == ABSORBED
    project.write("a.trial.yaml", text.replace("75", "80"))
    result = project.run()
    assert result.ret == RED
    result.stdout.fnmatch_lines(["*cases pass rate 75 %: 3/4 trials passed (threshold: 80)"])


def test_trials_of_python_tests_do_not_fill_the_cases_threshold_of_a_suite(project: Any) -> None:
    project.supply_agent()
    project.write("a.trial.yaml", scenarios(1, 2).replace("suite: {", "suite: {config: {cases_pass_threshold: 60}, "))
    project.write("test_b.py", "def test_b(seatrial): assert seatrial.run('hello', trials=50)")
    assert project.run().ret == RED
    assert project.run("a.trial.yaml").ret == RED


def test_groups_of_a_suite_can_turn_red_but_save_nothing(project: Any) -> None:
    text = scenarios(1, 1).replace("suite: {", "suite: {groups: [{name: g, tags: [fuzzy], threshold: 0.5}], ")
    project.write("a.trial.yaml", text)
    assert project.run().ret == RED


def test_what_must_pass_in_a_group_of_a_suite_without_tags_turns_the_session_red(project: Any) -> None:
    gates = "config: {cases_pass_threshold: 50}, groups: [{name: g, must_pass: [bad0]}]"
    project.write("a.trial.yaml", scenarios(1, 1).replace("suite: {", f"suite: {{{gates}, "))
    result = project.run()
    assert result.ret == RED
    result.stdout.fnmatch_lines(["group g: must pass, did not: bad0"])


def test_two_of_three_reach_two_thirds() -> None:
    entries = [
        ItemResult(nodeid=n, ending=e, marks=frozenset("g"))
        for n, e in (("a", "passed"), ("b", "passed"), ("c", "failed"))
    ]
    assert decide_group(Group(name="g", tags=("g",), threshold=0.66), entries, partial=False).holds
    assert not decide_group(Group(name="g", tags=("g",), threshold=0.67), entries, partial=False).holds

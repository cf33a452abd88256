"""Reading a result is not an assertion: a test whose scenario did not pass fails, unless it asserts the verdict."""

from typing import Any

import pytest

pytest_plugins = ["pytester"]

HEAD = """
import unittest

import pytest
import seatrial as st
from seatrial import Scenario, arun, run

GOOD = Scenario(name="good", input="hello", expected_output="hello")
BAD = Scenario(name="bad", input="hello", expected_output="bye")

def agent(input): return f"You said: {input}"
def broken(input): raise RuntimeError("broken")
def play(scenario, agent=agent): return run(scenario, agent=agent, store=None)
"""


def in_a_test(project: Any, body: str, *args: str) -> pytest.RunResult:
    project.supply_agent()
    project.write(
        "helpers.py", "def require(result):\n    assert result.passed\n\ndef tell(result):\n    return result.passed\n"
    )
    project.write("test_agent.py", HEAD + body)
    result: pytest.RunResult = project.run("-W", "ignore::pytest.PytestReturnNotNoneWarning", *args)
    return result


READS = [
    "return result.passed",
    "print(result.status)",
    "if result.passed: print('good')",
    "if not result: print('bad')",
    "result.failure_reasons",
    "result.outcome.verdict.passed",
    "from helpers import tell; tell(result)",
    "assert 1 == 1; result.passed; assert 2 == 2",
    "assert True or result.passed",
    "[result.passed for _ in range(3)]",
    "assert isinstance(tuple(result.failure_reasons for _ in ()), tuple)",
    "exec('assert result.status')",
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    "test", ["def test_it(seatrial):\n    result = seatrial.run(BAD)", "def test_it():\n    result = play(BAD)"]
)
def test_reading_a_verdict_does_not_let_a_failed_scenario_pass(project: Any, test: str, read: str) -> None:
    result = in_a_test(project, f"{test}\n    {read}\n")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(['*"bye" not found in output*'])
    result.stdout.no_fnmatch_line("*All traceback entries are hidden*")


@pytest.mark.parametrize("read", ["print(result.status)", "if result.passed: pass", "return result.passed"])
@pytest.mark.parametrize(
    "test",
    [
        "async def test_it(seatrial):\n    result = await seatrial.run(BAD)",
        "@pytest.mark.anyio\nasync def test_it(seatrial):\n    result = await seatrial.run(BAD)",
        "@pytest.mark.anyio\nasync def test_it():\n    result = await arun(BAD, agent=agent, store=None)",
    ],
    ids=["fixture", "anyio", "arun"],
)
def test_nor_in_an_async_test(project: Any, test: str, read: str) -> None:
    result = in_a_test(project, f"@pytest.fixture\ndef anyio_backend(): return 'asyncio'\n\n{test}\n    {read}\n")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(['*"bye" not found in output*'])


def test_nor_in_a_class_of_unittest(project: Any) -> None:
    body = """
class TestIt(unittest.TestCase):
    def test_reads(self):
        result = play(BAD)
        print(result.status)

    def test_asserts(self):
        result = play(BAD)
        self.assertFalse(result.passed)

    def test_passes(self):
        play(GOOD)
"""
    result = in_a_test(project, body)

    result.assert_outcomes(failed=1, passed=2)
    result.stdout.fnmatch_lines(["FAILED*::test_reads*"])


def test_nor_where_the_scenario_errored(project: Any) -> None:
    body = """
def test_fixture(seatrial):
    print(seatrial.run(GOOD, agent=broken).status)

def test_function():
    print(play(GOOD, broken).status)
"""
    result = in_a_test(project, body)

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["FAILED*::test_fixture - ScenarioErrored*", "FAILED*::test_function - ScenarioErrored*"]
    )


ASSERTS = [
    "assert not result.passed",
    "assert result.status == 'failed'",
    "assert result.failure_reasons",
    "assert not result",
    "assert not any([result])",
    "assert all(not each.passed for each in [result])",
    "assert (\n        1\n        and result.status\n    )",
    "with pytest.raises(AssertionError):\n        assert result.passed",
    "from helpers import require\n    with pytest.raises(AssertionError): require(result)",
    "assert 'é' and not result.passed",
]


@pytest.mark.parametrize("asserts", ASSERTS)
@pytest.mark.parametrize("played", ["seatrial.run(BAD)", "play(BAD)"])
def test_an_assertion_that_reads_the_verdict_decides(project: Any, played: str, asserts: str) -> None:
    in_a_test(project, f"def test_it(seatrial):\n    result = {played}\n    {asserts}\n").assert_outcomes(passed=1)


@pytest.mark.parametrize("arguments", ["", "--assert=plain"])
def test_it_is_the_same_without_the_rewriting_of_pytest(project: Any, arguments: str) -> None:
    body = """
def test_asserts(seatrial): assert not seatrial.run(BAD).passed
def test_reads(seatrial): print(seatrial.run(BAD).passed)
"""
    in_a_test(project, body, *filter(None, [arguments])).assert_outcomes(passed=1, failed=1)


def test_a_check_counts_as_an_assertion(project: Any) -> None:
    body = """
def test_fixture(seatrial):
    result = seatrial.run(BAD)
    with pytest.raises(BaseException, match="bye"):
        seatrial.check(result)

def test_function():
    with pytest.raises(AssertionError, match='"bye" not found in output'):
        st.check(play(BAD))

def test_passed():
    assert st.check(play(GOOD)).status == "passed"
"""
    in_a_test(project, body).assert_outcomes(passed=3)


def test_the_marker_expects_a_failure_of_the_agent(project: Any) -> None:
    body = """
@pytest.mark.seatrial(expect_failure=True)
class TestIt:
    def test_fixture(self, seatrial): print(seatrial.run(BAD).status)
    def test_function(self): play(BAD)
    def test_one_of_two(self): play(GOOD), play(BAD)
    def test_passed(self, seatrial): print(seatrial.run(GOOD).status)
    def test_function_passed(self): play(GOOD)
    def test_errored(self, seatrial): print(seatrial.run(GOOD, agent=broken).status)
    def test_function_errored(self): play(GOOD, broken)
"""
    result = in_a_test(project, body)

    result.assert_outcomes(passed=3, failed=4)
    result.stdout.fnmatch_lines(["*::test_passed: the marker says expect_failure, and every scenario passed*"])


def test_the_marker_is_refused_for_scenarios_of_files(project: Any) -> None:
    project.write("a.trial.yaml", "suite: {agent: 'agent:answer'}\nscenarios: [{name: a, input: x}]\n")
    project.write(
        "conftest.py",
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items: item.add_marker(pytest.mark.seatrial(expect_failure=True))
        """,
    )
    result = project.run()

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*expect_failure is for tests in Python; give the scenario an xfail*"])


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_test_that_returns_a_value_is_an_error(project: Any, kind: str) -> None:
    wait = "await " if kind == "async def" else ""
    body = f"""
{kind} test_it(seatrial):
    result = {wait}seatrial.run(GOOD)
    return result.passed
"""
    result = in_a_test(project, body)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*::test_it: the test returns True, which pytest ignores. Write `assert` *"])


def test_a_run_that_passed_needs_no_assertion(project: Any) -> None:
    in_a_test(project, "def test_it():\n    play(GOOD)\n").assert_outcomes(passed=1)


def test_a_test_that_fails_by_itself_keeps_its_own_failure(project: Any) -> None:
    result = in_a_test(project, "def test_it():\n    play(BAD)\n    raise KeyError('mine')\n")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*KeyError: 'mine'*"])


def test_a_failed_scenario_with_an_xfail_makes_the_test_an_xfail(project: Any) -> None:
    body = """
def test_it(seatrial):
    print(seatrial.run(Scenario(name="a", input="hello", expected_output="bye", xfail="known")).status)

@pytest.mark.xfail(strict=True)
def test_marked(seatrial):
    print(seatrial.run(BAD).status)
"""
    in_a_test(project, body).assert_outcomes(xfailed=2)


def test_a_run_of_one_test_is_not_asked_of_the_next(project: Any) -> None:
    body = """
def test_fails(): play(BAD); raise KeyError("mine")
def test_next(): pass
"""
    in_a_test(project, body).assert_outcomes(failed=1, passed=1)

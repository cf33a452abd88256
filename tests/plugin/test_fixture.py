"""The fixtures `seatrial_agent` and `seatrial`, and the marker."""

from typing import Any

import pytest

from seatrial.store.store import open_store

pytest_plugins = ["pytester"]


def in_a_test(project: Any, body: str, *args: str) -> pytest.RunResult:
    project.supply_agent()
    head = "import pytest\nfrom seatrial import Contains, Scenario, ToolCalls, Turn, Expect, evaluator\n"
    project.write("test_agent.py", head + body)
    result: pytest.RunResult = project.run(*args)
    return result


def test_a_sync_test_plays_a_scenario(project: Any) -> None:
    body = """
def test_it(seatrial):
    result = seatrial.run(Scenario(name="a", input="hello", expected_output="hello"))
    assert result.passed
    assert result.reply == "You said: hello"
    assert result.tools_called == ["lookup"]
"""
    in_a_test(project, body).assert_outcomes(passed=1)


def test_an_async_test_needs_no_other_plugin(project: Any) -> None:
    body = """
async def test_it(seatrial):
    result = await seatrial.run(Scenario(name="a", input="hello"))
    seatrial.check(result, Contains(any_of=["hello"]), ToolCalls(must_include=["lookup"]))
"""
    in_a_test(project, body, "-W", "error").assert_outcomes(passed=1)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_async_test_of_anyio_plays_a_scenario(project: Any, backend: str) -> None:
    pytest.importorskip(backend)
    body = f"""
@pytest.fixture
def anyio_backend(): return {backend!r}

@pytest.mark.anyio
async def test_it(seatrial):
    result = await seatrial.run("hello")
    await seatrial.check(result, Contains(any_of=["hello"]))
"""
    in_a_test(project, body, "-W", "error").assert_outcomes(passed=1)


def test_an_async_test_can_await_several_at_once(project: Any) -> None:
    body = """
import asyncio
async def test_it(seatrial):
    one, two = await asyncio.gather(seatrial.run("one"), seatrial.run("two"))
    assert one.passed and two.passed
    assert (one.reply, two.reply) == ("You said: one", "You said: two")
"""
    in_a_test(project, body).assert_outcomes(passed=1)


def test_the_loop_of_an_async_test_goes_on_while_a_scenario_is_played(project: Any) -> None:
    body = """
import asyncio
async def test_it(seatrial):
    loop, asked = asyncio.get_running_loop(), []
    def agent(input):
        return asyncio.run_coroutine_threadsafe(answer(input), loop).result(timeout=20)
    async def answer(text):
        return f"from the test's loop: {text}"
    result = await seatrial.run("hello", agent=agent)
    assert result.passed
    assert result.reply == "from the test's loop: hello"
"""
    in_a_test(project, body).assert_outcomes(passed=1)


def test_a_check_that_fails_says_what_was_said(project: Any) -> None:
    body = """
def test_it(seatrial):
    seatrial.check(seatrial.run("hello"), ToolCalls(must_include=["refund"]))
"""
    result = in_a_test(project, body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*agent: You said: hello*", "*> ✗ tool_calls: Expected tool 'refund' not in*"])


@pytest.mark.parametrize(("wanted", "ending"), [("You said: a", "passed"), ("something else", "failed")])
def test_a_function_may_check(project: Any, wanted: str, ending: str) -> None:
    body = f"""
def test_it(seatrial):
    seatrial.check(seatrial.run("a"), lambda ctx: ctx.reply == {wanted!r})
"""
    in_a_test(project, body).assert_outcomes(**{ending: 1})


@pytest.mark.parametrize(
    ("given", "said"),
    [("Contains", "*Contains is a class, and without arguments*"), ("5", "*5 is not an evaluator*")],
)
def test_what_is_no_evaluator_is_told(project: Any, given: str, said: str) -> None:
    result = in_a_test(project, f"def test_it(seatrial): seatrial.check(seatrial.run('a'), {given})")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([said])


def test_what_check_found_is_in_the_store(project: Any) -> None:
    body = """
def test_it(seatrial):
    seatrial.check(seatrial.run("hello"), ToolCalls(must_include=["refund"]))
"""
    in_a_test(project, body, "--seatrial-report", "json=out.json").assert_outcomes(failed=1)
    assert '"refund"' not in (project.path / "out.json").read_text()
    assert "Expected tool 'refund'" in (project.path / "out.json").read_text()


def test_an_evaluator_that_raises_in_check_is_errored_not_failed(project: Any) -> None:
    body = """
@evaluator
def broken(ctx): raise KeyError("x")

def test_it(seatrial):
    result = seatrial.run("hello")
    with pytest.raises(BaseException, match="ERROR evaluator"):
        seatrial.check(result, broken)
    assert result.status == "errored"
"""
    in_a_test(project, body).assert_outcomes(passed=1)


def test_a_test_that_asserts_nothing_about_its_trials_is_an_error(project: Any) -> None:
    body = """
def test_it(seatrial):
    seatrial.run("hello")
"""
    result = in_a_test(project, body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*asserted nothing about it*"])


def test_a_test_that_never_awaits_is_an_error(project: Any) -> None:
    body = """
async def test_it(seatrial):
    seatrial.run("hello")
"""
    result = in_a_test(project, body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*has not been awaited, so nothing was played*"])


def test_a_result_that_was_not_awaited_cannot_be_asked(project: Any) -> None:
    body = """
async def test_it(seatrial):
    assert not seatrial.run("hello").passed
"""
    result = in_a_test(project, body)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*has not been awaited*"])


def test_a_test_that_only_reads_the_reply_of_a_failed_scenario_fails(project: Any) -> None:
    body = """
def test_it(seatrial):
    result = seatrial.run(Scenario(name="a", input="hello", expected_output="bye"))
    assert "hello" in result.reply
"""
    in_a_test(project, body).assert_outcomes(failed=1)


@pytest.mark.parametrize("asked", ["result", "result.outcome", "result.outcome.verdict"])
def test_whatever_holds_the_verdict_can_be_asserted(project: Any, asked: str) -> None:
    body = f"""
@pytest.mark.parametrize("expected", ["hello", "bye"])
def test_it(seatrial, expected):
    result = seatrial.run(Scenario(name="a", input="hello", expected_output=expected))
    assert {asked}
"""
    in_a_test(project, body).assert_outcomes(passed=1, failed=1)


def test_a_test_may_expect_a_failure(project: Any) -> None:
    body = """
def test_it(seatrial):
    assert not seatrial.run(Scenario(name="a", input="hello", expected_output="bye")).passed
"""
    in_a_test(project, body).assert_outcomes(passed=1)


def test_a_failed_assertion_shows_the_conversation(project: Any) -> None:
    body = """
def test_it(seatrial):
    result = seatrial.run(Scenario(name="a", input="hello", expected_output="bye"))
    assert result.passed
"""
    result = in_a_test(project, body)
    result.stdout.fnmatch_lines(
        ["*ScenarioResult test_it: a: FAIL*", "*- seatrial: test_it: a -*", "*agent: You said: hello*"]
    )


FLAKY = """
class Flaky:
    count = 0
    def __call__(self, input):
        Flaky.count += 1
        return "yes" if Flaky.count % 2 else "no"

SCENARIO = Scenario(name="a", input="hello", expected_output="yes")
"""


def test_the_marker_says_how_often_and_which_share_must_pass(project: Any) -> None:
    body = (
        FLAKY
        + """
@pytest.mark.seatrial(trials=4, threshold=0.5)
def test_it(seatrial):
    result = seatrial.run(SCENARIO, agent=Flaky())
    assert result.passed
    assert result.pass_rate == 0.5
    assert result.interval.low < 0.5 < result.interval.high

@pytest.mark.seatrial(trials=2, threshold=0.9)
def test_more(seatrial):
    assert not seatrial.run(SCENARIO, agent=Flaky()).passed
"""
    )
    in_a_test(project, body).assert_outcomes(passed=2)


def test_an_agent_that_raises_in_one_trial_loses_nothing_of_the_others(project: Any) -> None:
    body = """
class Raising:
    count = 0
    def __call__(self, input):
        Raising.count += 1
        if Raising.count == 2:
            raise RuntimeError("overloaded")
        return "yes"

@pytest.mark.seatrial(trials=5, threshold=0.5)
def test_it(seatrial):
    result = seatrial.run("hello", agent=Raising())
    assert result.passed
    assert [trial.status for trial in result.trials].count("errored") == 1
"""
    in_a_test(project, body).assert_outcomes(passed=1)


@pytest.mark.parametrize("arguments", ["5", "runs=5", "trials=0", "threshold=1.5", "trials='many'"])
def test_a_marker_that_makes_no_sense_is_an_error(project: Any, arguments: str) -> None:
    body = f"""
@pytest.mark.seatrial({arguments})
def test_it(seatrial):
    assert seatrial.run("hello").passed
"""
    assert in_a_test(project, body).ret == pytest.ExitCode.TESTS_FAILED


def test_the_flag_for_trials_comes_before_marker_and_scenario(project: Any) -> None:
    body = """
@pytest.mark.seatrial(trials=5)
def test_it(seatrial):
    result = seatrial.run(Scenario(name="a", input="x", trials=7))
    assert result.passed and len(result.trials) == 2
"""
    in_a_test(project, body, "--seatrial-trials", "2").assert_outcomes(passed=1)


def test_a_scenario_that_is_not_right_is_told_without_a_traceback(project: Any) -> None:
    body = """
def test_it(seatrial):
    assert seatrial.run(Scenario(name="a", input="x", scorers=["exact"], threshold=3)).passed
"""
    result = in_a_test(project, body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*threshold*"])
    result.stdout.no_fnmatch_line("*seatrial_pytest/*")


def test_examples_are_refused_instead_of_playing_the_first_row(project: Any) -> None:
    project.supply_agent()
    project.write(
        "test_a.py",
        """
        from seatrial import Scenario

        ROWS = [{"q": "hello", "a": "hello"}, {"q": "hello", "a": "bye"}]

        def test_it(seatrial):
            scenario = Scenario(name="says", input="{q}", expected_output="{a}", examples=ROWS)
            assert seatrial.run(scenario).passed
        """,
    )
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the examples of 'says' make 2 scenarios of it*"])


def test_an_agent_that_exits_is_errored(project: Any) -> None:
    body = """
def leaving(input):
    import sys
    sys.exit(0)

def test_it(seatrial):
    result = seatrial.run("x", agent=leaving)
    assert result.status == "errored"
"""
    in_a_test(project, body).assert_outcomes(passed=1)


def test_threads_of_a_test_take_turns(project: Any) -> None:
    body = """
from concurrent.futures import ThreadPoolExecutor
import asyncio

async def patient(input):
    await asyncio.sleep(0.01)
    return input

def test_it(seatrial):
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: seatrial.run(Scenario(name="a", input="x"), agent=patient), range(8)))
        assert all(results)
        list(threads.map(lambda result: seatrial.check(result, Contains(any_of=["x"])), results))
"""
    in_a_test(project, body).assert_outcomes(passed=1)
    with open_store(str(project.path / ".seatrial" / "runs.db")) as store:
        kept = [trial for run in store.runs() for trial in store.summaries(run.id)]
    assert len(kept) == 8


def test_an_agent_that_plays_scenarios_itself_is_errored_instead_of_waiting_for_itself(project: Any) -> None:
    body = """
def test_it(seatrial):
    def outer(input):
        return seatrial.run(Scenario(name="inner", input="x"), agent=lambda input: input).trials[0].reply
    result = seatrial.run(Scenario(name="outer", input="x"), agent=outer)
    assert result.passed
"""
    result = in_a_test(project, body)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ERROR agent: *called the fixture seatrial, which waits for it*"])

"""Seatrial's plugin beside pytest-asyncio, in both of its modes."""

import json
from textwrap import dedent
from typing import Any

import pytest

pytest_plugins = ["pytester"]

MODES = pytest.mark.parametrize("mode", ["strict", "auto"])
FILES = {
    "agent.py": """
        async def answer(messages):
            return f"You said: {messages[-1]['content']}", ["lookup"]
        """,
    "shop.trial.yaml": """
        suite: {name: shop, agent: "agent:answer"}
        scenarios:
          - {name: greets, input: hello, expected_output: hello, tags: [smoke]}
          - {name: answers thrice, input: hello, trials: 3}
        """,
    "test_shop.py": """
        import asyncio
        import pytest
        from seatrial import Contains, Scenario, ToolCalls
        from agent import answer

        LOOPS = []

        @pytest.fixture
        def seatrial_agent():
            return answer

        def test_sync(seatrial):
            result = seatrial.run(Scenario(name="hello", input="hello"))
            seatrial.check(result, Contains(any_of=["hello"]))

        @pytest.mark.asyncio
        async def test_marked(seatrial):
            result = await seatrial.run("hello")
            await seatrial.check(result, ToolCalls(must_include=["lookup"]))

        @pytest.mark.asyncio
        @pytest.mark.seatrial(trials=3, threshold=0.5)
        async def test_several_at_once(seatrial):
            one, two = await asyncio.gather(seatrial.run("one"), seatrial.run("two"))
            assert one.passed and two.passed and len(one.trials) == 3

        @pytest.mark.asyncio(loop_scope="module")
        async def test_a_loop_that_is_shared(seatrial):
            LOOPS.append(asyncio.get_running_loop())
            assert await seatrial.run("hello")

        @pytest.mark.asyncio(loop_scope="module")
        async def test_a_loop_that_is_shared_again(seatrial):
            LOOPS.append(asyncio.get_running_loop())
            assert await seatrial.run("hello")
            assert len(set(LOOPS)) == 1

        async def test_unmarked(seatrial):
            assert await seatrial.run("hello")
        """,
}


@pytest.fixture
def project(pytester: pytest.Pytester) -> Any:
    def run(mode: str, files: dict[str, str], *args: str) -> pytest.RunResult:
        for name, text in files.items():
            (pytester.path / name).write_text(dedent(text).lstrip(), encoding="utf-8")
        options = ["-o", f"asyncio_mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function"]
        return pytester.runpytest_subprocess("-W", "error", *options, *args, timeout=120)

    return run


@MODES
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_sync_tests_async_tests_and_scenario_files_run_side_by_side(
    project: Any, pytester: pytest.Pytester, mode: str, workers: tuple[str, ...]
) -> None:
    result = project(mode, FILES, *workers, "--seatrial-report=json=out.json")
    result.assert_outcomes(passed=8)
    kept = json.loads((pytester.path / "out.json").read_text())
    assert {each["status"] for each in kept["scenarios"]} == {"passed"}
    assert len(kept["scenarios"]) == 9, "the test of two scenarios keeps both"


@MODES
def test_a_failing_scenario_of_a_marked_test_fails_with_its_conversation(project: Any, mode: str) -> None:
    body = """
        import pytest
        from seatrial import Scenario
        from agent import answer

        @pytest.mark.asyncio
        async def test_it(seatrial):
            result = await seatrial.run(Scenario(name="a", input="hello", expected_output="nine"), agent=answer)
            seatrial.check(result)
        """
    result = project(mode, {"agent.py": FILES["agent.py"], "test_it.py": body})
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*user: hello*", "*agent: You said: hello*"])


@MODES
def test_a_marked_test_that_never_awaits_is_an_error(project: Any, mode: str) -> None:
    body = """
        import pytest
        from agent import answer

        @pytest.mark.asyncio
        async def test_it(seatrial):
            seatrial.run("hello", agent=answer)
        """
    result = project(mode, {"agent.py": FILES["agent.py"], "test_it.py": body})
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*has not been awaited*"])


@pytest.mark.parametrize(("mode", "decorator"), [("strict", "pytest_asyncio.fixture"), ("auto", "pytest.fixture")])
@pytest.mark.parametrize("scope", ["function", "session"])
def test_an_async_fixture_may_supply_the_agent(project: Any, mode: str, decorator: str, scope: str) -> None:
    conftest = f"""
        import asyncio, pytest, pytest_asyncio
        from agent import answer

        @{decorator}(scope={scope!r})
        async def seatrial_agent():
            await asyncio.sleep(0)
            yield answer
        """
    tests = """
        import pytest

        def test_sync(seatrial):
            assert seatrial.run("hello").passed

        @pytest.mark.asyncio
        async def test_async(seatrial):
            assert await seatrial.run("hello")
        """
    files = {**FILES, "conftest.py": conftest, "test_shop.py": tests}
    project(mode, files, "-o", f"asyncio_default_fixture_loop_scope={scope}").assert_outcomes(passed=4)


def test_in_strict_mode_an_async_fixture_that_nobody_awaits_is_told(project: Any) -> None:
    conftest = """
        import pytest
        from agent import answer

        @pytest.fixture
        async def seatrial_agent():
            return answer
        """
    files = {name: FILES[name] for name in ("agent.py", "shop.trial.yaml")}
    result = project("strict", {**files, "conftest.py": conftest}, "-W", "default")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*async*seatrial_agent*"])

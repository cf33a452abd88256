"""Seatrial's plugin beside that of anyio, on both of its backends."""

import json
from textwrap import dedent
from typing import Any

import pytest

pytest_plugins = ["pytester"]

AGENT = """
    async def answer(messages):
        return f"You said: {messages[-1]['content']}", ["lookup"]
    """
FILE = """
    suite: {name: shop, agent: "agent:answer"}
    scenarios:
      - {name: greets, input: hello, expected_output: hello}
      - {name: answers thrice, input: hello, trials: 3}
    """
TESTS = """
    import anyio
    import pytest
    from seatrial import Contains, Scenario, ToolCalls

    def test_sync(seatrial):
        result = seatrial.run(Scenario(name="hello", input="hello"))
        seatrial.check(result, Contains(any_of=["hello"]))

    @pytest.mark.anyio
    async def test_marked(seatrial):
        result = await seatrial.run("hello")
        await seatrial.check(result, ToolCalls(must_include=["lookup"]))

    @pytest.mark.anyio
    async def test_several_at_once(seatrial):
        results = []
        async def play(text):
            results.append(await seatrial.run(text))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play, "one")
            tasks.start_soon(play, "two")
        assert sorted(result.reply for result in results) == ["You said: one", "You said: two"]
        assert all(result.passed for result in results)

    async def test_unmarked(seatrial):
        assert await seatrial.run("hello")
    """
CONFTEST = """
    import pytest
    from agent import answer

    @pytest.fixture(params=["asyncio", "trio"])
    def anyio_backend(request):
        return request.param

    @pytest.fixture
    def seatrial_agent():
        return answer
    """


@pytest.fixture
def project(pytester: pytest.Pytester) -> Any:
    def run(files: dict[str, str], *args: str) -> pytest.RunResult:
        for name, text in {"agent.py": AGENT, **files}.items():
            (pytester.path / name).write_text(dedent(text).lstrip(), encoding="utf-8")
        return pytester.runpytest_subprocess("-W", "error", *args, timeout=120)

    return run


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_sync_tests_async_tests_and_scenario_files_run_side_by_side(
    project: Any, pytester: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    files = {"shop.trial.yaml": FILE, "test_shop.py": TESTS, "conftest.py": CONFTEST}
    result = project(files, *workers, "--seatrial-report=json=out.json")
    result.assert_outcomes(passed=8)
    kept = json.loads((pytester.path / "out.json").read_text())
    assert {each["status"] for each in kept["scenarios"]} == {"passed"}
    assert len(kept["scenarios"]) == 10, "the test of two scenarios keeps both, on both backends"


def test_a_failing_scenario_of_a_marked_test_fails_with_its_conversation(project: Any) -> None:
    body = """
        import pytest
        from seatrial import Scenario

        @pytest.mark.anyio
        async def test_it(seatrial):
            result = await seatrial.run(Scenario(name="a", input="hello", expected_output="nine"))
            seatrial.check(result)
        """
    result = project({"test_it.py": body, "conftest.py": CONFTEST})
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*user: hello*", "*agent: You said: hello*"])


def test_an_async_fixture_may_supply_the_agent_of_marked_tests(project: Any) -> None:
    conftest = """
        import anyio, pytest
        from agent import answer

        @pytest.fixture
        async def seatrial_agent(anyio_backend):
            await anyio.sleep(0)
            yield answer
        """
    body = """
        import pytest

        @pytest.mark.anyio
        async def test_it(seatrial):
            assert await seatrial.run("hello")
        """
    project({"test_it.py": body, "conftest.py": conftest}).assert_outcomes(passed=2)


def test_anyios_auto_mode_takes_unmarked_tests(project: Any) -> None:
    files = {"test_shop.py": TESTS, "conftest.py": CONFTEST}
    project(files, "-o", "anyio_mode=auto").assert_outcomes(passed=7)

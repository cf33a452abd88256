"""The agent of scenarios under pytest: by a fixture of any scope, by the suite, by a flag."""

from typing import Any

import pytest

from seatrial.store.store import open_store

pytest_plugins = ["pytester"]


def test_one_loop_serves_the_agents_of_the_session_whatever_their_scope(project: Any) -> None:
    project.write(
        "conftest.py",
        """
        import asyncio, pytest

        class Client:
            loop = None
            async def ask(self):
                self.loop = self.loop or asyncio.get_running_loop()
                assert self.loop is asyncio.get_running_loop(), "another loop"
                return "fine"

        client = Client()

        @pytest.fixture
        def seatrial_agent():
            async def agent(input):
                return await client.ask()
            return agent
        """,
    )
    project.write("a.trial.yaml", "scenarios: [{name: a, input: x}, {name: b, input: x}]")
    project.write("b.trial.yaml", "scenarios: [{name: a, input: x}]")
    project.write("test_c.py", "async def test_c(seatrial):\n    assert await seatrial.run('x')\n")
    project.run().assert_outcomes(passed=4)


@pytest.mark.parametrize("scope", ["function", "module", "session"])
def test_the_agent_fixture_may_have_any_scope_and_parameters(project: Any, scope: str) -> None:
    project.write(
        "conftest.py",
        f"""
        import pytest

        @pytest.fixture(scope={scope!r}, params=["polite", "rude"])
        def seatrial_agent(request):
            return lambda input: f"{{request.param}} answer"
        """,
    )
    project.write("a.trial.yaml", "scenarios: [{name: greets, input: x, expected_output: polite}]")
    project.write("test_b.py", "def test_b(seatrial):\n    assert seatrial.run('x').passed\n")
    result = project.run("-v")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*::greets?polite? PASSED*", "*::greets?rude? FAILED*"])


def test_a_missing_agent_is_told_with_every_way_to_supply_one(project: Any) -> None:
    project.write("a.trial.yaml", "scenarios: [{name: a, input: x}]")
    project.write("test_b.py", "def test_b(seatrial):\n    assert seatrial.run('x')\n")
    project.write("test_c.py", "def test_c(seatrial_agent):\n    pass\n")
    result = project.run()
    result.assert_outcomes(failed=2, errors=1)
    result.stdout.fnmatch_lines(["*a.trial.yaml::a: no agent to run*", "*def seatrial_agent():*", "*--seatrial-agent*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_an_async_agent_fixture_that_nobody_awaits_is_told(project: Any) -> None:
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture
        async def seatrial_agent():
            return lambda input: "x"
        """,
    )
    project.write("a.trial.yaml", "scenarios: [{name: a, input: x}]")
    result = project.run("-W", "ignore")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*async*seatrial_agent*"])


def test_the_fixture_comes_before_the_suite_and_the_flag_before_both(project: Any) -> None:
    project.supply_agent()
    project.write("other.py", "def theirs(input): return 'theirs'\ndef flagged(input): return 'flagged'\n")
    text = "suite: {{agent: 'other:theirs'}}\nscenarios: [{{name: a, input: x, expected_output: {}}}]"
    project.write("a.trial.yaml", text.format("You said"))
    project.run().assert_outcomes(passed=1)
    project.write("a.trial.yaml", text.format("flagged"))
    project.run("--seatrial-agent", "other:flagged").assert_outcomes(passed=1)


def test_several_agents_of_a_suite_are_tests_of_their_own(project: Any) -> None:
    project.write("other.py", "def one(input): return 'one'\ndef two(input): return 'two'\n")
    project.write(
        "a.trial.yaml",
        """
        suite: {agents: {first: "other:one", second: "other:two"}}
        scenarios: [{name: a, input: x, expected_output: one}]
        """,
    )
    result = project.run("-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*::a?first? PASSED*", "*::a?second? FAILED*"])


def test_several_agents_are_kept_for_each_parameter_of_a_fixture(project: Any) -> None:
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.fixture(autouse=True, params=["de", "en"])
        def language(): ...
        """,
    )
    project.write(
        "a.trial.yaml",
        """
        suite: {agents: {first: "agent:answer", second: "agent:answer"}}
        scenarios: [{name: greets, input: hello}]
        """,
    )
    project.run().assert_outcomes(passed=4)
    with open_store(str(project.path / ".seatrial" / "runs.db")) as store:
        kept = {entry.key.agent for run in store.runs() for entry in store.entries(run.id)}
    assert kept == {"first-de", "first-en", "second-de", "second-en"}

"""Models are asked only when somebody said so."""

from collections.abc import Iterator
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ServerReply

pytest_plugins = ["pytester"]

JUDGED = """
    suite: {name: judged, agent: "agent:answer"}
    scenarios:
      - name: deterministic
        input: hello
      - name: judged
        turns: [{user: hello, expect: {judge: {rubric: "Is polite."}}}]
"""


@pytest.fixture
def model(project: Any) -> Iterator[Any]:
    with ModelServer([ServerReply(content='{"passed": true, "reasoning": "polite"}')]) as server:
        project.write(
            "pyproject.toml",
            f"""
            [tool.seatrial.judge_model]
            model = "openai:judge"
            base_url = "{server.base_url}"
            api_key = "none"
            """,
        )
        project.write("a.trial.yaml", JUDGED)
        yield server


def test_without_live_what_asks_a_model_is_skipped_and_counted(project: Any) -> None:
    project.write("a.trial.yaml", JUDGED)
    result = project.run("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*1 test was skipped because a model*", "*it asks a model: --seatrial-live runs it*"])
    assert result.ret == pytest.ExitCode.OK


def test_nothing_is_said_where_nothing_was_skipped(project: Any) -> None:
    project.write("a.trial.yaml", JUDGED)
    project.run("-k", "deterministic").stdout.no_fnmatch_line("*skipped because a model*")


def test_where_live_is_required_a_skip_is_an_error(project: Any) -> None:
    project.write("a.trial.yaml", JUDGED)
    result = project.run("--seatrial-require-live")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*--seatrial-require-live is given without --seatrial-live*"])
    result.stdout.no_fnmatch_line("*another exception occurred*")


def test_live_without_a_model_says_how_to_name_one(project: Any) -> None:
    project.write("a.trial.yaml", JUDGED)
    result = project.run("--seatrial-live")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*'judged' needs a model for the judge*"])


@pytest.mark.parametrize(("value", "skipped"), [("1", 0), ("true", 0), ("0", 1), ("no", 1)])
def test_the_environment_can_switch_live_on(
    project: Any, monkeypatch: pytest.MonkeyPatch, value: str, skipped: int
) -> None:
    monkeypatch.setenv("SEATRIAL_LIVE", value)
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


def test_a_warm_cache_is_as_good_as_live(project: Any, model: Any) -> None:
    project.run("--seatrial-live").assert_outcomes(passed=2)
    asked = len(model.requests)
    assert asked
    project.run().assert_outcomes(passed=2)
    assert len(model.requests) == asked


def test_an_answer_that_is_not_in_the_cache_skips_and_keeps_nothing(project: Any, model: Any) -> None:
    project.run("--seatrial-live")
    asked = len(model.requests)
    project.write("a.trial.yaml", JUDGED.replace("polite", "brief"))
    result = project.run("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*an answer that it needs is not in the cache*"])
    assert len(model.requests) == asked

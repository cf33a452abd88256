"""`run --resume`, `--retry-errors`, `--retry-agent-errors` and `--failed`."""

import json
from typing import Any

import pytest

AGENT = """
    import os
    from pathlib import Path

    def answer(input):
        with open("called", "a") as called: called.write(input + "\\n")
        if input == "breaks" and not Path("mended").exists(): raise RuntimeError("broken")
        return "hello"

    def other(input):
        return "hello"
"""


@pytest.fixture
def greetings(folder: Any) -> Any:
    """A suite of four scenarios: three pass, one breaks until it is mended."""
    folder.write("agent.py", AGENT)
    write_suite(folder)
    return folder


def write_suite(folder: Any, *, names: tuple[str, ...] = ("a", "b", "breaks", "c"), **config: Any) -> None:
    scenarios = [{"name": name, "input": name, "expected_output": "hello", "tags": [name]} for name in names]
    suite = {"name": "greetings", "agent": "agent:answer", "config": {"concurrency": 1, **config}}
    folder.write("scenarios/greetings.yaml", json.dumps({"suite": suite, "scenarios": scenarios}))


def called(folder: Any) -> list[str]:
    """Whom the agent was called for since the last time."""
    file = folder.path / "called"
    lines: list[str] = file.read_text().split() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


def stop_early(folder: Any, *flags: str) -> str:
    """A run that fail-fast ended after the third scenario. Gives its id."""
    ended = folder.seatrial("run", "--fail-fast", *flags)
    assert ended.code == 1
    called(folder)
    run_id: str = folder.results()["run"]["id"]
    return run_id


def test_resuming_plays_what_is_missing_without_being_told_what_it_was(greetings: Any) -> None:
    greetings.write("greetings.yaml", (greetings.path / "scenarios/greetings.yaml").read_text())
    greetings.write("scenarios/greetings.yaml", "scenarios: [{name: another, input: x}]")
    run_id = stop_early(greetings, "greetings.yaml", "--agent", "agent:answer", "--tag", "b", "--tag", "c", "--tag",
                        "breaks", "--trials", "2", "--name", "nightly")  # fmt: skip

    ended = greetings.seatrial("run", "--resume", run_id, "--set", "fail_fast=false")

    assert ended.code == 1
    assert called(greetings) == ["breaks", "c", "c"]
    results = greetings.results()
    assert results["run"]["id"] == run_id
    assert results["run"]["name"] == "nightly"
    assert {one["name"]: len(one["trials"]) for one in results["scenarios"]} == {"b": 2, "breaks": 2, "c": 2}


CHECKS = """
    from pathlib import Path
    from seatrial import evaluator

    @evaluator
    def fair(ctx):
        if ctx.user == "breaks" and not Path("mended").exists(): raise ConnectionError("the judge is down")
        return True
"""


def write_judged_suite(folder: Any) -> None:
    """An instrument breaks in one scenario, until it is mended; the agent never does."""
    folder.write("checks.py", CHECKS)
    scenarios = [{"name": name, "input": name, "scorers": ["fair"]} for name in ("a", "breaks")]
    suite = {"name": "greetings", "agent": "agent:other", "evaluators": ["checks"]}
    folder.write("scenarios/greetings.yaml", json.dumps({"suite": suite, "scenarios": scenarios}))


def test_retrying_errors_plays_trials_that_an_instrument_spoiled_again_and_no_others(greetings: Any) -> None:
    write_judged_suite(greetings)
    assert greetings.seatrial("run").code == 1
    before = greetings.results()
    greetings.write("mended", "")

    ended = greetings.seatrial("run", "--resume", "latest", "--retry-errors")

    assert ended.code == 0, ended.out
    results = greetings.results()
    assert (results["run"]["id"], results["run"]["state"]) == (before["run"]["id"], "finished")
    assert results["totals"]["passed_count"] == results["totals"]["total_executions"] == 2
    assert results["scenarios"][0] == before["scenarios"][0], "it was not played again"
    assert results["scenarios"][1]["trials"][0]["earlier_errors"] == []


def test_retrying_errors_does_not_turn_an_agent_that_crashes_green(greetings: Any) -> None:
    assert greetings.seatrial("run").code == 1
    called(greetings)
    greetings.write("mended", "")

    ended = greetings.seatrial("run", "--resume", "latest", "--retry-errors")

    assert ended.code == 1
    assert called(greetings) == []
    assert "1 trial in which the agent errored was not repeated. To repeat it: --retry-agent-errors" in ended.err


def test_an_agent_error_that_is_repeated_still_counts_as_failed(greetings: Any) -> None:
    assert greetings.seatrial("run").code == 1
    called(greetings)
    greetings.write("mended", "")

    ended = greetings.seatrial("run", "--resume", "latest", "--retry-agent-errors")

    assert ended.code == 1
    assert called(greetings) == ["breaks"]
    why = "errored before it was repeated: agent: RuntimeError: broken"
    assert why in ended.out
    [trial] = greetings.results()["scenarios"][2]["trials"]
    assert (trial["status"], trial["failure_reasons"], trial["error"]) == ("failed", [why], None)
    assert [error["message"] for error in trial["earlier_errors"]] == ["RuntimeError: broken"]
    assert trial["turns"][0]["reply"] == "hello", "the second try is stored as well"
    assert greetings.seatrial("regrade", "latest").code == 1
    assert greetings.results()["scenarios"][2]["status"] == "failed"


def test_an_agent_that_errors_again_when_it_is_repeated_stays_errored(greetings: Any) -> None:
    greetings.seatrial("run")
    for _ in range(2):
        assert greetings.seatrial("run", "--resume", "latest", "--retry-agent-errors").code == 1

    [trial] = greetings.results()["scenarios"][2]["trials"]
    assert trial["status"] == "errored"
    assert [error["message"] for error in trial["earlier_errors"]] == ["RuntimeError: broken"], "equal ones once"


def test_resuming_a_run_that_lacks_nothing_says_so_and_ends_as_the_run_did(greetings: Any) -> None:
    first = greetings.seatrial("run")
    before = greetings.results()
    called(greetings)

    again = greetings.seatrial("run", "--resume", "latest")

    assert (first.code, again.code) == (1, 1)
    assert "no trial was missing, so nothing was run" in again.err
    assert called(greetings) == []
    assert greetings.results() == before, "not even the time at which it ended"


def test_a_sequential_test_goes_on_from_the_rows(greetings: Any) -> None:
    write_suite(greetings, names=("a",), trials="auto")
    assert greetings.seatrial("run").code == 0
    played = len(called(greetings))

    again = greetings.seatrial("run", "--resume", "latest")

    assert played > 1
    assert again.code == 0
    assert called(greetings) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"names": ("a", "b", "breaks", "c", "d")}, "d is new"),
        ({"names": ("a", "breaks", "c")}, "b is gone"),
        ({"names": ("b", "a", "breaks", "c")}, "a has moved"),
        ({"threshold": 0.5}, "a was edited"),
        ({"cases_pass_threshold": 10}, "the gates of the run changed"),
        ({"seed": 3}, "the seed changed"),
    ],
)
def test_a_run_is_not_resumed_as_another(greetings: Any, change: dict[str, Any], why: str) -> None:
    run_id = stop_early(greetings)
    write_suite(greetings, **change)

    ended = greetings.seatrial("run", "--resume", run_id)

    assert ended.code == 2
    assert why in ended.err
    assert called(greetings) == []
    assert greetings.results()["run"]["state"] == "finished", "a refusal leaves the run as it was"


def test_a_run_is_not_resumed_with_another_agent(greetings: Any) -> None:
    run_id = stop_early(greetings)

    ended = greetings.seatrial("run", "--resume", run_id, "--agent", "agent:other")

    assert ended.code == 2
    assert "a was edited (the scenario, its mocks or evaluators, or the agent)" in ended.err


def test_a_run_is_not_resumed_with_other_models(greetings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = stop_early(greetings)
    monkeypatch.setenv("SEATRIAL_JUDGE_MODEL", "openai:another")

    assert "the models changed" in greetings.seatrial("run", "--resume", run_id).err


def test_a_comment_in_the_file_does_not_make_it_another_run(greetings: Any) -> None:
    run_id = stop_early(greetings)
    file = greetings.path / "scenarios/greetings.yaml"
    file.write_text("# a comment\n" + file.read_text())

    ended = greetings.seatrial("run", "--resume", run_id)

    assert ended.code == 1
    assert called(greetings) == ["c"]
    assert ended.err == "c: 1/1 trials passed  [4/4]\n"


@pytest.mark.parametrize("flags", [("--tag", "a"), ("--scenario", "a"), ("--failed",), ("--shard", "1/2")])
def test_resuming_takes_no_other_selection(greetings: Any, flags: tuple[str, ...]) -> None:
    run_id = stop_early(greetings)

    ended = greetings.seatrial("run", "--resume", run_id, *flags)

    assert ended.code == 2
    assert f"Leave out {flags[0]}" in ended.err


@pytest.mark.parametrize("flag", ["--retry-errors", "--retry-agent-errors"])
def test_retrying_errors_needs_to_know_of_which_run(greetings: Any, flag: str) -> None:
    ended = greetings.seatrial("run", flag)

    assert ended.code == 2
    assert f"--resume RUN {flag}" in ended.err


def test_a_budget_that_is_spent_is_not_spent_again(greetings: Any) -> None:
    greetings.write(
        "agent.py",
        """
        from seatrial import AgentResult

        def answer(input):
            with open("called", "a") as called: called.write(input + "\\n")
            return AgentResult(output="hello", tool_calls=[], cost_usd=1.0)
        """,
    )
    assert greetings.seatrial("run", "--budget", "2").code == 1
    assert len(called(greetings)) == 2

    refused = greetings.seatrial("run", "--resume", "latest")
    more = greetings.seatrial("run", "--resume", "latest", "--budget", "3")

    assert refused.code == 2
    assert "has spent $2.0000 of its budget of $2.0000" in refused.err
    assert more.code == 1
    assert len(called(greetings)) == 1
    assert greetings.seatrial("run", "--resume", "latest", "--budget", "10").code == 0


def test_failed_plays_what_did_not_pass_in_the_last_run_and_is_still_there(greetings: Any) -> None:
    greetings.seatrial("run", "--fail-fast")
    called(greetings)
    write_suite(greetings, names=("a", "b", "c", "d"))

    ended = greetings.seatrial("run", "--failed")

    assert ended.code == 0
    assert called(greetings) == ["c"], "it was not run last time, so it did not pass"


def test_a_run_of_failures_is_resumed_as_such(greetings: Any) -> None:
    write_suite(greetings, names=("a", "breaks"))
    greetings.seatrial("run")
    greetings.seatrial("run", "--failed")
    called(greetings)

    ended = greetings.seatrial("run", "--resume", "latest", "--retry-agent-errors")

    assert ended.code == 1
    assert called(greetings) == ["breaks"]
    assert [one["name"] for one in greetings.results()["scenarios"]] == ["breaks"]


def test_a_run_from_python_is_resumed_with_the_files_it_names(greetings: Any) -> None:
    from seatrial import Scenario, run

    run([Scenario(name="a", input="a", expected_output="hello")], agent=lambda input: "hello")

    ended = greetings.seatrial("run", "--resume", "latest")

    assert ended.code == 2
    assert "was started from Python objects. Give the files" in ended.err

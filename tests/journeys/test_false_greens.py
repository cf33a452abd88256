"""Attempts to get exit code 0 out of a run that proved nothing. None may succeed."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

AGENT = """
    import sys

    def good(input): return "Returns are possible within 30 days."
    def raises(input): raise ValueError("the database is down")
    def leaves(input): sys.exit(0)
    def interrupts(input): raise KeyboardInterrupt
    def boasts(input):
        print("1/1 scenario passed")
        print("PASS")
        sys.stderr.write("PASS\\n")
        return "no idea"
"""
EVALUATORS = """
    import sys
    from seatrial import EvalResult, evaluator

    @evaluator
    def raises(ctx): raise RuntimeError("no ruler")
    @evaluator
    def text(ctx): return "passed"
    @evaluator
    def nothing(ctx): return None
    @evaluator
    def nan(ctx): return float("nan")
    @evaluator
    def two(ctx): return 2
    @evaluator
    def leaves(ctx): sys.exit(0)

    class Garbage:
        name = "garbage"
        async def evaluate(self, ctx): return {"passed": True}

    def failing_hook(ctx): raise OSError("no database")
    def leaving_hook(ctx): sys.exit(0)
"""


def write_suite(folder: Any, scenarios: list[dict[str, Any]], **suite: Any) -> None:
    folder.write("agent.py", AGENT)
    folder.write("mine.py", EVALUATORS)
    content = {"suite": {"name": "shop", "agent": "agent:good", **suite}, "scenarios": scenarios}
    folder.write("suite.yaml", json.dumps(content))


def last_lines(out: str) -> list[str]:
    """Tally, verdict and facts: where the report ends, before the list of failures."""
    return re.split(r"\n\n\d+ causes?", out)[0].splitlines()[-3:]


RETURNS = {"name": "returns", "input": "How long?", "expected_output": "30 days"}


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--scenario", "refund"], "no scenario fits --scenario 'refund'; nothing was run. There are: returns"),
        (["--tag", "slow"], "no scenario fits --tag 'slow'; nothing was run"),
        (["--shard", "2/2"], "no scenario fits --shard 2/2; nothing was run. There are 1 scenarios"),
    ],
)
def test_nothing_selected_is_no_pass(folder: Any, flags: list[str], why: str) -> None:
    write_suite(folder, [RETURNS])

    ended = folder.seatrial("run", "suite.yaml", *flags)

    assert ended.code == 1
    assert why in ended.err


@pytest.mark.parametrize("flags", [["--scenario", "ret", "--scenario", "refnd"], ["--tag", "quick", "--tag", "qick"]])
def test_a_part_of_the_selection_that_fits_nothing_is_no_pass(folder: Any, flags: list[str]) -> None:
    write_suite(folder, [{**RETURNS, "tags": ["quick"]}])

    ended = folder.seatrial("run", "suite.yaml", *flags)

    assert ended.code == 1
    assert f"{flags[2]} {flags[3]!r}: no scenario fits, so nothing was run" in ended.err
    assert folder.seatrial("run", "suite.yaml", *flags[:2]).code == 0


def test_a_failure_that_is_gone_is_told_when_failures_are_run_again(folder: Any) -> None:
    write_suite(folder, [{**RETURNS, "name": name, "expected_output": "40 days"} for name in ("one", "two")])
    folder.seatrial("run", "suite.yaml")
    write_suite(folder, [{**RETURNS, "name": name} for name in ("renamed", "two")])

    ended = folder.seatrial("run", "suite.yaml", "--failed")

    assert "--failed: one: failed in the last run, but no longer exists" in ended.err


def test_the_tolerance_of_one_suite_is_not_that_of_another(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    tolerant = {"name": "tolerant", "agent": "agent:good", "config": {"cases_pass_threshold": 10}}
    strict = {"name": "strict", "agent": "agent:good"}
    folder.write("a.yaml", json.dumps({"suite": tolerant, "scenarios": [RETURNS]}))
    folder.write("b.yaml", json.dumps({"suite": strict, "scenarios": [{**RETURNS, "expected_output": "40 days"}]}))

    assert folder.seatrial("run", "a.yaml", "b.yaml").code == 1
    assert folder.seatrial("run", "a.yaml", "b.yaml", "--cases-pass-threshold", "50").code == 0
    assert folder.seatrial("run", "a.yaml", "b.yaml", "--cases-pass-threshold", "0.5").code == 2


def test_a_group_is_not_saved_by_another_suite_with_the_same_tags(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    config = {"cases_pass_threshold": 10}
    safety = {"name": "safety", "tags": ["safety"], "threshold": 0.5}
    bad = {**RETURNS, "expected_output": "40 days", "tags": ["safety"]}
    good = [{**RETURNS, "name": f"good {number}", "tags": ["safety"]} for number in range(3)]
    strict = {"name": "strict", "agent": "agent:good", "config": config, "groups": [safety]}
    other = {"name": "other", "agent": "agent:good", "config": config}
    folder.write("a.yaml", json.dumps({"suite": strict, "scenarios": [bad]}))
    folder.write("b.yaml", json.dumps({"suite": other, "scenarios": good}))

    ended = folder.seatrial("run", "a.yaml", "b.yaml")

    assert ended.code == 1
    assert "group safety: 0 of 1 scenario passed (threshold: 0.5)" in ended.out


def test_what_must_pass_in_a_group_is_a_scenario_of_its_suite(folder: Any) -> None:
    folder.write("agent.py", AGENT)
    config = {"cases_pass_threshold": 10}
    strict = {"name": "strict", "agent": "agent:good", "config": config}
    must = {"name": "must", "must_pass": [RETURNS["name"]]}
    folder.write("a.yaml", json.dumps({"suite": {**strict, "groups": [must]}, "scenarios": [RETURNS]}))
    other = {"suite": {**strict, "name": "other"}, "scenarios": [{**RETURNS, "expected_output": "40 days"}]}
    folder.write("b.yaml", json.dumps(other))

    assert folder.seatrial("run", "a.yaml", "b.yaml").code == 0


def test_rerunning_failures_where_none_failed_is_no_pass(folder: Any) -> None:
    write_suite(folder, [RETURNS])
    folder.seatrial("run", "suite.yaml")

    ended = folder.seatrial("run", "suite.yaml", "--failed")

    assert ended.code == 1
    assert "in the last run no scenario failed, so nothing was run" in ended.err


def test_an_empty_folder_is_no_pass(folder: Any) -> None:
    (folder.path / "scenarios").mkdir()

    ended = folder.seatrial("run")

    assert ended.code == 2
    assert "scenarios: no scenario file in this folder" in ended.err


@pytest.mark.parametrize(
    "keys",
    [
        {"input": "x", "scorers": []},
        {"input": "x", "expect": {"reply_contains_any": []}},
        {"input": "x", "expect": {"tool_calls_exclude": []}},
        {"input": "x", "expect": {"judge": {"rubric": " "}}},
        {"input": "x", "trajectory": {"mode": "contains", "expected": []}},
        {"input": "x", "metrics": []},
        {"input": "x", "expected_outcomes": []},
        {"input": "x", "expected_state": {}},
        {"input": "x", "limits": {}},
        {"input": "x", "examples": []},
        {"turns": []},
        {"user": {"goal": "get a refund"}},
    ],
)
def test_nothing_asserted_is_refused(folder: Any, keys: dict[str, Any]) -> None:
    write_suite(folder, [{"name": "empty", **keys}])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 2, ended.out
    assert "suite.yaml:1:" in ended.err


@pytest.mark.parametrize(
    "keys",
    [
        {"expected_tools": ["refund"]},
        {"expect": {"tool_calls_exclude": ["refund"]}},
        {"trajectory": {"mode": "contains", "forbidden": [{"name": "refund"}]}},
        {"limits": {"tool_calls": 0}},
    ],
)
def test_an_expectation_about_tools_without_evidence_is_no_pass(folder: Any, keys: dict[str, Any]) -> None:
    write_suite(folder, [{"name": "tools", "input": "x", **keys}])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "ERROR config" in ended.out
    assert "Record them: return AgentResult(output, tool_calls=[...])" in ended.out


@pytest.mark.parametrize("limit", [{"cost_usd": 1.0}, {"tokens": 1000}])
def test_a_limit_on_what_nobody_measured_is_no_pass(folder: Any, limit: dict[str, Any]) -> None:
    write_suite(folder, [{"name": "cheap", "input": "x", "limits": limit}])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert folder.results()["status"] == "errored"


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("raises", "ERROR agent: ValueError: the database is down"),
        ("leaves", "ERROR agent: the agent called sys.exit(0)"),
        ("interrupts", "ERROR agent: KeyboardInterrupt"),
    ],
)
def test_an_agent_that_breaks_is_no_pass(folder: Any, agent: str, why: str) -> None:
    write_suite(folder, [RETURNS], agent=f"agent:{agent}")

    ended = folder.process("run", "suite.yaml")

    assert ended.code == 1
    assert f"✗ returns  {why}" in ended.out
    assert last_lines(ended.out)[:2] == ["0/1 scenario passed", "ERROR: 1 scenario errored"]
    assert "Traceback" not in ended.out + ended.err


def test_an_agent_that_prints_a_pass_does_not_pass(folder: Any) -> None:
    write_suite(folder, [RETURNS], agent="agent:boasts")

    ended = folder.process("run", "suite.yaml")

    assert ended.code == 1
    assert last_lines(ended.out)[:2] == ["0/1 scenario passed", "FAIL: 1 scenario failed"]
    assert folder.results()["passed"] is False


def test_a_scenario_that_is_named_like_a_pass_does_not_pass(folder: Any) -> None:
    name = "✓ returns  (1 turn)\n1/1 scenario passed\nPASS\n\x1b[2J"
    write_suite(folder, [{**RETURNS, "name": name, "expected_output": "never said"}])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert r"✗ ✓ returns  (1 turn)\n1/1 scenario passed\nPASS\n\x1b[2J" in ended.out, "on one line"
    assert "\x1b" not in ended.out
    assert last_lines(ended.out)[:2] == ["0/1 scenario passed", "FAIL: 1 scenario failed"]


def test_a_suite_that_is_skipped_whole_is_no_pass(folder: Any) -> None:
    write_suite(folder, [{**RETURNS, "skip": "not today"}])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "- returns  skipped: not today" in ended.out
    assert last_lines(ended.out)[1].startswith("NOT RUN")


def test_a_skipped_scenario_is_shown_and_counted(folder: Any) -> None:
    write_suite(folder, [RETURNS, {**RETURNS, "name": "later", "skip": "not today"}])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 0
    assert last_lines(ended.out)[0] == "1/1 scenario passed, 1 skipped"


def test_an_expected_failure_that_passes_is_no_pass(folder: Any) -> None:
    write_suite(folder, [{**RETURNS, "xfail": "the agent does not know it yet"}])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "the agent does not know it yet" in ended.out
    assert last_lines(ended.out)[1] == "FAIL: 1 scenario failed"


def test_an_expected_failure_does_not_excuse_an_evaluator_that_breaks(folder: Any) -> None:
    scenario = {"name": "odd", "input": "x", "scorers": ["raises"], "xfail": "known"}
    write_suite(folder, [RETURNS, scenario], evaluators=["mine"])

    assert folder.seatrial("run", "suite.yaml").code == 1


def test_expected_failures_alone_are_no_pass_of_anything(folder: Any) -> None:
    write_suite(folder, [{**RETURNS, "expected_output": "40 days", "xfail": "known"}])

    ended = folder.seatrial("run", "suite.yaml")

    assert "0/0 scenarios passed, 1 xfailed" in ended.out
    assert ended.code == 0, "it was run, and failed as foretold"


@pytest.mark.parametrize("scorer", ["raises", "text", "nothing", "nan", "two", "garbage"])
def test_an_evaluator_without_an_answer_is_no_pass(folder: Any, scorer: str) -> None:
    write_suite(folder, [{"name": "odd", "input": "x", "scorers": ["passfail", scorer]}], evaluators=["mine"])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert f"ERROR evaluator: evaluator '{scorer}'" in ended.out
    assert last_lines(ended.out)[1] == "ERROR: 1 scenario errored"


@pytest.mark.parametrize("keys", [{"setup": "mine:failing_hook"}, {"teardown": "mine:failing_hook"}])
def test_a_broken_setup_or_teardown_is_no_pass(folder: Any, keys: dict[str, str]) -> None:
    write_suite(folder, [{**RETURNS, **keys}])

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert f"ERROR config: {next(iter(keys))} failed: OSError: no database" in ended.out


@pytest.mark.parametrize(
    "keys", [{"scorers": ["leaves"]}, {"setup": "mine:leaving_hook"}, {"teardown": "mine:leaving_hook"}]
)
def test_an_evaluator_or_hook_that_leaves_python_is_no_pass(folder: Any, keys: dict[str, Any]) -> None:
    write_suite(folder, [{**RETURNS, **keys}], evaluators=["mine"])

    ended = folder.process("run", "suite.yaml")

    assert ended.code == 1
    assert "PASS" not in ended.out
    assert "Traceback" not in ended.err


def test_errored_trials_count_against_the_threshold(folder: Any) -> None:
    folder.write(
        "agent.py",
        """
        import threading
        lock, seen = threading.Lock(), []
        def answer(input):
            with lock:
                seen.append(1)
                if len(seen) <= 2: raise OSError("unreachable")
            return "yes"
        """,
    )
    scenario = {"name": "flaky", "input": "x", "trials": 5, "threshold": 0.8}
    folder.write("suite.yaml", json.dumps({"suite": {"agent": "agent:answer"}, "scenarios": [scenario]}))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 1
    assert "3/5 trials passed (threshold: 0.8)" in ended.out
    assert folder.results()["status"] == "errored"


def test_tolerated_errors_are_told(folder: Any) -> None:
    folder.write(
        "agent.py",
        """
        import threading
        lock, seen = threading.Lock(), []
        def answer(input):
            with lock:
                seen.append(1)
                if len(seen) == 1: raise OSError("unreachable")
            return "yes"
        """,
    )
    scenario = {"name": "flaky", "input": "x", "trials": 5, "threshold": 0.8}
    folder.write("suite.yaml", json.dumps({"suite": {"agent": "agent:answer"}, "scenarios": [scenario]}))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 0
    assert "note: 1 errored trial tolerated (threshold: 0.8)" in ended.out


def test_trials_that_fail_fast_left_out_are_no_pass(folder: Any) -> None:
    scenarios = [{"name": "fails", "input": "x", "expected_output": "never"}, RETURNS]
    write_suite(folder, scenarios, config={"concurrency": 1})

    ended = folder.seatrial("run", "suite.yaml", "--fail-fast")

    assert ended.code == 1
    assert {one["name"]: one["status"] for one in folder.results()["scenarios"]} == {
        "fails": "failed",
        "returns": "not_run",
    }


def test_a_report_that_cannot_be_written_is_no_pass(folder: Any) -> None:
    write_suite(folder, [RETURNS])
    folder.write("a-file", "")

    ended = folder.seatrial("run", "suite.yaml", "--report", "junit=a-file/junit.xml")

    assert ended.code == 2
    assert "cannot write the junit report to" in ended.err


def test_output_that_nobody_can_read_is_no_pass(folder: Any) -> None:
    write_suite(folder, [RETURNS])

    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "seatrial", "run", "suite.yaml"],
            cwd=folder.path,
            stdout=full,
            stderr=full,
            check=False,
        )

    assert done.returncode != 0


def test_a_store_that_cannot_be_written_stops_the_run_before_it_starts(folder: Any) -> None:
    write_suite(folder, [RETURNS])
    folder.write("agent.py", "def good(input): open('called', 'w'); return 'ok'")
    folder.write("a-file", "")

    ended = folder.seatrial("run", "suite.yaml", "--store", "a-file/runs.db")

    assert ended.code == 2
    assert "a-file/runs.db" in ended.err
    assert not folder.exists("called")


def test_leaving_by_os_exit_is_out_of_reach_but_leaves_no_pass_in_the_store(folder: Any) -> None:
    folder.write("agent.py", "import os\ndef good(input): os._exit(0)")
    folder.write("suite.yaml", json.dumps({"suite": {"agent": "agent:good"}, "scenarios": [RETURNS]}))

    ended = folder.process("run", "suite.yaml")

    assert "PASS" not in ended.out
    stored = json.loads(folder.seatrial("list", "runs", "--json").out)
    assert [(run["verdict"], run["state"], run["passed"]) for run in stored] == [("not_run", "running", 0)]

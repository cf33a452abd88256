"""When a scenario fails, condition by condition: errors of conversations, trajectories, severities, metrics.

The judge is a model on loopback that says what the agent's reply asks for, so each trial can be told apart.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ReceivedRequest

AGENT = """
    def answer(messages, ctx):
        text = messages[-1]["content"]
        if text.startswith("call"):
            # In every trial but the second.
            ctx.call_tool("check_availability")
            if not ctx.trial_id.endswith("-2"): ctx.call_tool("create_booking")
            return "done"
        if text == "delete and create":
            for name in ("check_availability", "delete_booking", "create_booking"): ctx.call_tool(name)
            return "done"
        if text == "fail once" and ctx.trial_id.endswith("-1"): raise RuntimeError("database down")
        return text
"""
MOCKS = {name: {"returns": "ok"} for name in ("check_availability", "create_booking", "delete_booking")}

FAILURES = [["false_information", "Wrong price"], ["repetition", "Says it twice"]]


def judged(request: ReceivedRequest) -> str:
    """The scores and failures that stand in the agent's reply as `JUDGE{…}`, or all of the best."""
    text = request.messages[1][1]
    asked = json.loads(text.partition("JUDGE<")[2].partition(">")[0].replace('\\"', '"')) if "JUDGE<" in text else {}
    scores = {
        name: {"turn_1": {"reason": "so it is", "score": asked.get(name, 5)}} for name in ("helpfulness", "coherence")
    }
    goal = {"reason": "so it is", "passed": asked.get("goal", True)}
    failures = [
        {"turn": 1, "category": category, "label": label, "explanation": "It did."}
        for category, label in asked.get("failures", [])
    ]
    return json.dumps({"metrics": {**scores, "goal_completion": goal}, "failures": failures, "summary": "s"})


@pytest.fixture
def judge() -> Iterator[ModelServer]:
    with ModelServer(judged) as server:
        yield server


def run(folder: Any, scenarios: dict[str, dict[str, Any]], judge: ModelServer | None = None) -> tuple[Any, Any]:
    """The scenarios by name, and how the run ended."""
    folder.write("agent.py", AGENT)
    config: dict[str, Any] = {"mocks": MOCKS, "trials": 3}
    if judge is not None:
        config["models"] = {"judge": f"openai:judge@{judge.base_url}"}
    suite = {"name": "salon", "agent": "agent:answer", "config": config}
    written = [{"name": name, **keys} for name, keys in scenarios.items()]
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": written}))
    ended = folder.seatrial("run", "suite.yaml", "--report", "json")
    assert ended.code in (0, 1), ended.err
    return {one["name"]: one for one in folder.results()["scenarios"]}, ended


def reply_that_asks_for(**said: Any) -> str:
    return f"JUDGE<{json.dumps(said)}>"


def test_one_errored_conversation_of_three_keeps_the_scenario_from_passing(folder: Any) -> None:
    found, ended = run(folder, {"books a slot": {"input": "fail once"}})

    assert ended.code == 1
    scenario = found["books a slot"]
    assert (scenario["status"], scenario["passed"]) == ("errored", False)
    assert "1 trial errored" in scenario["failure_reasons"]
    assert [trial["status"] for trial in scenario["trials"]] == ["errored", "passed", "passed"]
    assert "✗ books a slot  2/3 trials passed" in ended.out
    assert "  ✗ trial-1 ERROR agent: RuntimeError: database down" in ended.out
    assert "  ✓ trial-2 (1 turn)" in ended.out


def test_a_trajectory_that_fails_in_one_trial_fails_the_scenario(folder: Any) -> None:
    trajectory = {"mode": "contains", "expected": ["check_availability", "create_booking"]}

    found, ended = run(folder, {"books a slot": {"input": "call", "trajectory": trajectory}})

    assert ended.code == 1
    scenario = found["books a slot"]
    assert scenario["status"] == "failed"
    assert "Trajectory assertion failed in 1 trial" in scenario["failure_reasons"]
    assert [trial["trajectory"]["matched"] for trial in scenario["trials"]] == [True, False, True]
    assert scenario["trials"][1]["trajectory"]["missing_calls"] == ["create_booking"]
    assert "✗ books a slot  2/3 trials passed" in ended.out
    assert "  ✓ trial-1 (1 turn, trajectory matched)" in ended.out
    assert "  ✗ trial-2 (1 turn, trajectory FAILED)" in ended.out
    assert "Missing tool calls: create_booking" in ended.out


def test_a_call_with_other_arguments_is_told_from_one_that_was_not_made(folder: Any) -> None:
    trajectory = {"expected": [{"name": "create_booking", "args": {"time": "10am"}}]}

    _, ended = run(folder, {"books a slot": {"input": "call", "trajectory": trajectory, "trials": 1}})

    assert "Missing tool calls: create_booking\n    Arguments differ: create_booking.time: missing\n" in ended.out


def test_a_wrong_sequence_is_shown_with_what_was_called_and_expected(folder: Any) -> None:
    trajectory = {"mode": "strict", "expected": ["check_availability", "update_booking"]}

    found, ended = run(folder, {"updates": {"input": "delete and create", "trajectory": trajectory, "trials": 1}})

    assert ended.code == 1
    assert found["updates"]["trials"][0]["trajectory"]["extra_calls"]
    assert "Agent called: [check_availability, delete_booking, create_booking]" in ended.out
    assert "Expected (strict): [check_availability, update_booking]" in ended.out


@pytest.mark.parametrize(
    ("severity", "status", "reason"),
    [
        ("critical", "passed", None),
        ("high", "failed", "1 error at or above high"),
        ("low", "failed", "2 errors at or above low"),
    ],
)
def test_errors_at_or_above_a_severity_fail_the_scenario(
    folder: Any, judge: ModelServer, severity: str, status: str, reason: str | None
) -> None:
    said = reply_that_asks_for(failures=FAILURES)

    found, ended = run(folder, {"s": {"input": said, "fail_on_error_severity": severity, "trials": 1}}, judge)

    assert found["s"]["status"] == status, ended.out
    assert ended.code == (0 if status == "passed" else 1)
    if reason is not None:
        assert reason in found["s"]["failure_reasons"]
    assert "[high] Wrong price (1 occurrence)" in ended.out
    assert "Examples: trial-1 turn 1" in ended.out
    assert {one["severity"] for one in found["s"]["trials"][0]["behaviour_failures"]} == {"high", "low"}


def test_an_average_below_its_threshold_fails_the_scenario(folder: Any, judge: ModelServer) -> None:
    metrics = {"metrics": ["helpfulness", "coherence", "goal_completion"], "trials": 1}
    thresholds = {"helpfulness": 3.5, "goal_completion": 0.8, "coherence": 4.0}
    scenarios = {
        "met": {"input": "fine", **metrics, "thresholds": thresholds},
        "missed": {"input": reply_that_asks_for(helpfulness=3, goal=False), **metrics, "thresholds": thresholds},
        "no thresholds": {"input": reply_that_asks_for(helpfulness=1), **metrics},
    }

    found, ended = run(folder, scenarios, judge)

    assert ended.code == 1
    assert {name: one["status"] for name, one in found.items()} == {
        "met": "passed",
        "missed": "failed",
        "no thresholds": "passed",
    }
    assert found["missed"]["failure_reasons"] == [
        "helpfulness: 3 (threshold: 3.5)",
        "goal_completion: 0 (threshold: 0.8)",
    ]
    assert "helpfulness: 3 (threshold: 3.5 ✗)" in ended.out
    assert "coherence: 5 (threshold: 4 ✓)" in ended.out
    assert found["missed"]["trials"][0]["evaluation"]["helpfulness"]["value"] == 3
    assert "2/3 scenarios passed" in ended.out
    assert "FAIL: 1 scenario failed" in ended.out


def test_a_judge_without_an_answer_is_errored(folder: Any) -> None:
    with ModelServer(["I think it was rather good."]) as silent:
        found, ended = run(folder, {"s": {"input": "x", "metrics": ["helpfulness"], "trials": 1}}, silent)

    assert ended.code == 1
    assert (found["s"]["status"], found["s"]["trials"][0]["error"]["kind"]) == ("errored", "judge")
    assert "ERROR judge:" in ended.out

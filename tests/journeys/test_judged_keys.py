"""What the keys that ask a model do, with a scripted model on loopback in the judge's and the user's place."""

import json
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer


def graded(score: int) -> dict[str, Any]:
    return {"reason": "r", "score": score}


WEIGHTED = {"metrics": {"tool_routing": graded(4), "response_delivery": graded(4)}, "summary": "s"}
"""An overall score of 80."""
PER_TURN = {"metrics": {"helpfulness": {"turn_1": graded(3)}}, "summary": "s"}
OUTCOME = {"outcomes": {"o1": {"justification": "it was", "passed": True}}, "summary": "s"}
NO_OUTCOME = {"outcomes": {"o1": {"justification": "it was not", "passed": False}}, "summary": "s"}
FAILURE = {"turn": 1, "category": "false_information", "label": "Wrong price", "explanation": "It is 5."}
TWO_METRICS = {"metrics": ["tool_routing", "response_delivery"]}


def run_with(folder: Any, answer: Any, keys: dict[str, Any], config: dict[str, Any] | None = None, *flags: str) -> Any:
    """The run of one scenario whose judge, and whose user, gives this answer to everything."""
    folder.write("agent.py", "def answer(messages): return 'It costs 7.'")
    with ModelServer([json.dumps(answer)]) as server:
        model = {"model": "openai:scripted", "base_url": server.base_url}
        suite = {"agent": "agent:answer", "config": {"models": {"judge": model, "user": model}, **(config or {})}}
        scenario = {"name": "a", **({} if "user" in keys else {"input": "How much?"}), **keys}
        folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": [scenario]}))
        ended = folder.seatrial("run", "suite.yaml", *flags)
        assert server.requests, ended.err
    return ended


@pytest.mark.parametrize(
    ("answer", "keys", "config", "code"),
    [
        (WEIGHTED, TWO_METRICS, {}, 0),
        (WEIGHTED, {**TWO_METRICS, "pass_threshold": 80}, {}, 0),
        (WEIGHTED, {**TWO_METRICS, "pass_threshold": 81}, {}, 1),
        (WEIGHTED, TWO_METRICS, {"metrics_pass_threshold": 80}, 0),
        (WEIGHTED, TWO_METRICS, {"metrics_pass_threshold": 81}, 1),
        (PER_TURN, {"metrics": ["helpfulness"], "thresholds": {"helpfulness": 3}}, {}, 0),
        (PER_TURN, {"metrics": ["helpfulness"], "thresholds": {"helpfulness": 3.5}}, {}, 1),
        (OUTCOME, {"expected_outcomes": ["The price was told."]}, {}, 0),
        (NO_OUTCOME, {"expected_outcomes": ["The price was told."]}, {}, 1),
        ({"failures": [FAILURE], "summary": "s"}, {"failures": True}, {}, 0),
        ({"failures": [FAILURE], "summary": "s"}, {"fail_on_error_severity": "high"}, {}, 1),
        ({"failures": [], "summary": "s"}, {"fail_on_error_severity": "high"}, {}, 0),
        (
            {"failures": [FAILURE], "summary": "s"},
            {"fail_on_error_severity": "high", "severities": {"false_information": "low"}},
            {},
            0,
        ),
        ({"passed": True, "reasoning": "yes"}, {"expect": {"judge": {"rubric": "Names a price."}}}, {}, 0),
        ({"passed": False, "reasoning": "no"}, {"expect": {"judge": {"rubric": "Names a price."}}}, {}, 1),
    ],
)
def test_a_key_that_asks_the_judge_decides(
    folder: Any, answer: Any, keys: dict[str, Any], config: dict[str, Any], code: int
) -> None:
    ended = run_with(folder, answer, keys, config)

    assert ended.code == code, ended.out
    assert "ERROR" not in ended.out


def test_so_many_votes_of_the_judge_are_taken(folder: Any) -> None:
    run_with(folder, OUTCOME, {"expected_outcomes": ["The price was told."], "judge_votes": 3})

    assert folder.results()["scenarios"][0]["trials"][0]["instruments"]["calls"] > 1


@pytest.mark.parametrize("flag", ["--pass-threshold", "--metrics-pass-threshold"])
def test_a_flag_overrides_the_score_that_passes(folder: Any, flag: str) -> None:
    assert run_with(folder, WEIGHTED, TWO_METRICS, {}, flag, "81").code == 1
    assert run_with(folder, WEIGHTED, TWO_METRICS, {}, flag, "79.5").code == 0


def test_a_judge_that_talks_nonsense_is_no_pass(folder: Any) -> None:
    ended = run_with(folder, "all is well", {"expected_outcomes": ["The price was told."]})

    assert ended.code == 1
    assert "ERROR judge: " in ended.out


def test_a_simulated_user_asks_until_its_goal_is_met(folder: Any) -> None:
    move = {"message": "How much?", "goal_met": False, "stop": False}
    keys = {"user": {"goal": "Know the price."}, "max_turns": 2, "trials": 1, "expect": {"reply_contains_any": ["7"]}}

    ended = run_with(folder, move, keys)

    assert ended.code == 0, ended.out
    assert len(folder.results()["scenarios"][0]["trials"][0]["turns"]) == 2


def test_a_judge_without_a_model_says_how_to_set_one(folder: Any) -> None:
    folder.write("agent.py", "def answer(input): return 'ok'")
    scenario = {"name": "a", "input": "x", "expected_outcomes": ["It was told."]}
    folder.write("suite.yaml", json.dumps({"suite": {"agent": "agent:answer"}, "scenarios": [scenario]}))

    ended = folder.seatrial("run", "suite.yaml")

    assert ended.code == 2
    assert "scenario 'a' needs a model for the judge. Give --judge-model" in ended.err

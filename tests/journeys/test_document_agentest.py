"""The page "Pass/Fail Logic" of Agentest, sentence by sentence. A name quotes the claim; "conversation" is our trial.

Where Seatrial decides otherwise, the name says so, and docs/differences.md says why.
"""

import json
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ServerReply

BOOKING = {
    "input": "book",
    "trials": 3,
    "trajectory": {
        "mode": "contains",
        "expected": [
            {"name": "check_availability", "arg_match": "ignore"},
            {"name": "create_booking", "arg_match": "ignore"},
        ],
    },
}
CHECK, CREATE, DELETE = ["check_availability", {}], ["create_booking", {}], ["delete_booking", {}]
BOOKED, CHECKED = {"calls": [CHECK, CREATE]}, {"calls": [CHECK]}
DOWN = {"raises": "database down"}
GOALS = {"input": "book", "trials": 3, "metrics": ["helpfulness", "goal_completion"]}
ERRORS = ["unsafe_action|Leaked API Key", "false_information|False Information About Pricing"]
ERRORS += ["failure_to_clarify|Unnecessary Clarification Requests", "repetition|Slightly Verbose Responses"]
SEVERITIES = ["critical", "high", "medium", "low"]


# Overview


def test_the_overall_run_passes_only_if_every_scenario_passes(play: Any) -> None:
    scenarios = [
        {"name": "a", "input": "a", "expected_output": "ok"},
        {"name": "b", "input": "b", "expected_output": "ok"},
    ]

    assert play(scenarios, {"a": "ok", "b": "ok"}).results["passed"] is True
    assert play(scenarios, {"a": "ok", "b": "no"}).results["passed"] is False


@pytest.mark.parametrize(("reply", "code"), [("ok", 0), ("no", 1), (DOWN, 1)], ids=["passed", "failed", "errored"])
def test_the_cli_exits_with_code_1_on_any_failure(play: Any, reply: Any, code: int) -> None:
    assert play({"input": "a", "expected_output": "ok"}, {"a": reply}).code == code


def test_our_scenarios_are_also_errored_where_nobody_knows_instead_of_either_passing_or_failing(play: Any) -> None:
    assert play({"input": "a"}, {"a": DOWN}).scenario()["status"] == "errored"


# When a scenario passes

WHOLE = {
    **BOOKING,
    "metrics": ["helpfulness"],
    "thresholds": {"helpfulness": 3.5},
    "fail_on_error_severity": "high",
}


def test_a_scenario_passes_when_all_of_the_following_conditions_are_true(play: Any) -> None:
    played = play(WHOLE, {"book": {**BOOKED, "graded": {"helpfulness": 4}}})

    assert played.code == 0
    assert played.scenario()["passed"] is True


@pytest.mark.parametrize(
    "broken",
    [
        DOWN,
        CHECKED,
        {**BOOKED, "graded": {"failure": [ERRORS[1]]}},
        {**BOOKED, "graded": {"helpfulness": 1}},
    ],
    ids=["error", "trajectory", "severity", "threshold"],
)
def test_if_any_of_these_conditions_fail_the_scenario_fails(play: Any, broken: Any) -> None:
    graded = {**BOOKED, "graded": {"helpfulness": 4}}

    played = play(WHOLE, {"book": [graded, graded, broken]})

    assert played.code == 1
    assert played.scenario()["passed"] is False


# 1. Conversation errors

CALL = {"id": "c", "type": "function", "function": {"name": "send_email", "arguments": "{}"}}
NO_MESSAGE = json.dumps({"choices": []})
ASKS = json.dumps({"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [CALL]}}]})


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (ServerReply(status=500), "agent", "500"),
        (ServerReply(status=404), "agent", "404"),
        (ServerReply(body="<html>"), "agent", "JSON"),
        (ServerReply(body=NO_MESSAGE), "agent", "choices"),
        (ServerReply(body=ASKS), "tool", "Tool 'send_email' was called but no mock is defined"),
    ],
    ids=["500", "404", "invalid JSON", "malformed", "unmocked tool"],
)
def test_a_conversation_errors_when_the_agent_endpoint_fails_or_calls_an_unmocked_tool(
    play: Any, answer: ServerReply, kind: str, words: str
) -> None:
    with ModelServer([answer]) as endpoint:
        agent = {"type": "openai", "base_url": endpoint.base_url}
        played = play({"input": "hello"}, {}, agent=agent, unmocked_tools="error")

    assert played.code == 1
    assert played.trial()["error"]["kind"] == kind
    assert words in played.trial()["error"]["message"]


def test_a_conversation_errors_when_the_agent_endpoint_is_unreachable(play: Any) -> None:
    with ModelServer(["hello"]) as endpoint:
        closed = endpoint.base_url
    played = play({"input": "hello"}, {}, agent={"type": "openai", "base_url": closed})

    assert played.trial()["status"] == "errored"
    assert played.code == 1


def test_a_conversation_errors_when_the_simulated_user_fails_to_generate_valid_json(play: Any) -> None:
    asked = {"user": {"goal": "Book a slot."}, "trials": 1, "expect": {"reply_contains_any": ["ok"]}}
    with ModelServer(["I would like a haircut."]) as user:
        played = play(asked, {}, models={"user": f"openai:user@{user.base_url}"})

    assert played.code == 1
    assert played.trial()["error"]["kind"] == "simulator"


def test_a_conversation_errors_on_an_internal_error_of_an_evaluator(play: Any, folder: Any) -> None:
    folder.write("checks.py", "from seatrial import evaluator\n\n@evaluator\ndef mine(ctx): return 1 / 0\n")
    folder.write(
        "one_trials.py",
        "from checks import mine\nfrom seatrial import Scenario\n"
        "ONE = Scenario(name='one', input='a', scorers=[mine])\n",
    )
    play({"input": "a"}, {"a": "ok"})

    ended = folder.seatrial("run", "one_trials.py", "--agent", "agent:answer")

    assert ended.code == 1
    assert folder.results()["scenarios"][0]["trials"][0]["error"]["kind"] == "evaluator"


def test_a_scenario_fails_even_though_2_of_3_conversations_succeeded(play: Any) -> None:
    played = play({"name": "user books a morning slot", "input": "a", "trials": 3}, {"a": [DOWN, "ok", "ok"]})

    assert played.code == 1
    assert "✗ user books a morning slot  2/3 trials passed" in played.out
    assert "  ✗ trial-1 ERROR agent: RuntimeError: database down" in played.out
    assert "  ✓ trial-2 (1 turn)" in played.out
    assert "1 trial errored" in played.scenario("user books a morning slot")["failure_reasons"]


# 2. Trajectory assertion failures


def test_every_conversation_must_match_the_expected_trajectory(play: Any) -> None:
    played = play(BOOKING, {"book": [BOOKED, CHECKED, BOOKED]})

    assert played.code == 1
    assert "Trajectory assertion failed in 1 trial" in played.scenario()["failure_reasons"]
    assert "  ✓ trial-1 (1 turn, trajectory matched)" in played.out
    assert "  ✗ trial-2 (1 turn, trajectory FAILED)\n" in played.out
    assert "Missing tool calls: create_booking" in played.out
    assert "2/3 trials passed" in played.out


# 3. Error severity gate


@pytest.mark.parametrize(("gate", "count"), list(zip(SEVERITIES, range(1, 5), strict=True)))
def test_fail_on_error_severity_fails_errors_of_that_severity_and_above(play: Any, gate: str, count: int) -> None:
    """Severity ladder: low, medium, high, critical."""
    at_least, below = ERRORS[:count], ERRORS[count:]
    asked = {"input": "book", "fail_on_error_severity": gate, "severities": {"failure_to_clarify": "medium"}}

    failed = play(asked, {"book": {"graded": {"failure": ERRORS}}})
    passed = play(asked, {"book": {"graded": {"failure": below}}})

    assert (failed.code, passed.code) == (1, 0)
    errors = "1 error" if count == 1 else f"{len(at_least)} errors"
    assert f"{errors} at or above {gate}" in failed.scenario()["failure_reasons"]
    assert [one["severity"] for one in failed.scenario()["unique_errors"]] == SEVERITIES


@pytest.mark.parametrize(("failure", "code"), [(ERRORS[0], 1), (ERRORS[1], 0)], ids=["critical", "high"])
def test_by_default_only_critical_errors_fail(play: Any, failure: str, code: int) -> None:
    assert play({"input": "book", "failures": True}, {"book": {"graded": {"failure": [failure]}}}).code == code


def test_our_errors_are_detected_only_where_a_suite_asks_for_it(play: Any) -> None:
    assert play({"input": "book", "expected_output": "done"}, {"book": {"graded": {"failure": ERRORS}}}).code == 0


def test_qualitative_metrics_detect_failures_and_group_them_by_severity(play: Any) -> None:
    graded = [{"graded": {"failure": failures}} for failures in ([ERRORS[3], ERRORS[1]], [], [ERRORS[1]])]
    played = play({"input": "book", "trials": 3, "fail_on_error_severity": "high"}, {"book": graded})

    unique = played.out.partition("Unique errors:")[2].splitlines()
    assert "[high] False Information About Pricing (2 occurrences)" in unique[1]
    assert "It is about False Information About Pricing." in unique[2]
    assert "Examples: trial-1 turn 1, trial-3 turn 1" in unique[3]
    assert "[low] Slightly Verbose Responses (1 occurrence)" in "\n".join(unique[4:])


# 4. Metric threshold violations


def test_if_any_metrics_average_falls_below_its_configured_threshold_the_scenario_fails(play: Any) -> None:
    grades = [{"helpfulness": h, "coherence": c, "goal_completion": g} for h, c, g in [(3, 5, 1), (3, 4, 0), (4, 5, 1)]]
    metrics = ["helpfulness", "goal_completion", "coherence"]
    thresholds = {"helpfulness": 3.5, "goal_completion": 0.8, "coherence": 4.0}
    asked = {"input": "book", "trials": 3, "metrics": metrics, "thresholds": thresholds}

    played = play(asked, {"book": [{"graded": grade} for grade in grades]})

    assert played.code == 1
    assert played.scenario()["failure_reasons"] == [
        "helpfulness: 3.33 (threshold: 3.5)",
        "goal_completion: 0.67 (threshold: 0.8)",
    ]
    assert "helpfulness: 3.33 (threshold: 3.5 ✗)" in played.out
    assert "goal_completion: 0.67 (threshold: 0.8 ✗)" in played.out
    assert "coherence: 4.67 (threshold: 4 ✓)" in played.out


@pytest.mark.parametrize(("score", "code"), [(3, 0), (2, 1)])
def test_an_average_meets_the_threshold_that_it_equals(play: Any, score: int, code: int) -> None:
    asked = {"input": "book", "metrics": ["helpfulness"], "thresholds": {"helpfulness": 3}}

    assert play(asked, {"book": {"graded": {"helpfulness": score}}}).code == code


def test_all_turn_scores_across_all_conversations_are_averaged(play: Any) -> None:
    """3 conversations, 2 turns each: 6 scores, a single average."""
    asked = {"turns": [{"user": "a"}, {"user": "b"}], "trials": 3, "metrics": ["helpfulness"]}
    script = {
        "a": [{"graded": {"helpfulness": score}} for score in (1, 2, 3)],
        "b": [{"graded": {"helpfulness": score}} for score in (5, 5, 4)],
    }

    played = play(asked, script)

    assert played.scenario()["metric_averages"]["helpfulness"] == pytest.approx(20 / 6)


def test_per_conversation_goal_completion_scores_are_averaged(play: Any) -> None:
    """Scores [1, 0, 1] give 0.67."""
    played = play(GOALS, {"book": [{"graded": {"goal_completion": met}} for met in (1, 0, 1)]})

    assert played.scenario()["metric_averages"]["goal_completion"] == pytest.approx(2 / 3)


# Overall run


def test_2_of_3_scenarios_passed_is_a_fail_with_1_scenario_failed(play: Any) -> None:
    names = ["user books a morning slot", "user cancels booking", "user reschedules appointment"]
    scenarios = [{"name": name, "input": name, "expected_output": "ok"} for name in names]

    played = play(scenarios, {names[0]: "ok", names[1]: "no", names[2]: "ok"})

    assert played.code == 1
    assert "2/3 scenarios passed\nFAIL: 1 scenario failed\n" in played.out
    assert f"✓ {names[0]}" in played.out
    assert f"✗ {names[1]}" in played.out


def test_exit_code_1_when_no_scenarios_found(play: Any, folder: Any) -> None:
    play({"input": "a"}, {"a": "ok"})

    assert folder.seatrial("run", "suite.yaml", "--scenario", "nothing is called this").code == 1


def test_our_exit_code_is_2_where_the_files_or_flags_are_wrong(play: Any, folder: Any) -> None:
    play({"input": "a"}, {"a": "ok"})

    assert folder.seatrial("run", "nowhere.yaml").code == 2
    assert folder.seatrial("run", "suite.yaml", "--set", "trials=none").code == 2


# Common failure scenarios


def test_scenario_a_only_1_of_3_conversations_completed_the_goal_but_threshold_requires_80_percent(play: Any) -> None:
    asked = {**GOALS, "name": "user asks about weather", "thresholds": {"goal_completion": 0.8}}
    played = play(asked, {"book": [{"graded": {"goal_completion": met}} for met in (0, 0, 1)]})

    assert played.code == 1
    assert "goal_completion: 0.33 (threshold: 0.8 ✗)" in played.out
    assert "✓ trial-1" in played.out, "the conversation itself is in order"
    assert "✗ user asks about weather" in played.out, "ours: a scenario that failed has the cross"


def test_scenario_a_lower_the_threshold_if_80_percent_is_too_strict(play: Any) -> None:
    asked = {**GOALS, "thresholds": {"goal_completion": 0.33}}

    assert play(asked, {"book": [{"graded": {"goal_completion": met}} for met in (0, 0, 1)]}).code == 0


EMAIL = {"book": {"asks": [["send_confirmation_email", {"to": "a"}]]}}


def test_scenario_b_a_tool_was_called_but_no_mock_is_defined(play: Any) -> None:
    played = play({"input": "book", "trials": 3}, EMAIL, mocks={"other": {"returns": 1}})

    assert played.code == 1
    error = "ERROR tool: Tool 'send_confirmation_email' was called but no mock is defined"
    assert [f"✗ trial-{index} {error}" in played.out for index in (1, 2, 3)] == [True] * 3


def test_scenario_b_a_mock_fixes_it(play: Any) -> None:
    mock = {"returns": {"success": True, "messageId": "msg-123"}}
    played = play({"input": "book", "mocks": {"send_confirmation_email": mock}}, EMAIL)

    assert played.code == 0
    assert played.trial()["turns"][0]["tool_calls"][0]["result"] == mock["returns"]


def test_scenario_b_or_switch_to_passthrough_if_you_do_not_want_to_mock_this_tool(folder: Any) -> None:
    folder.write(
        "agent.py",
        """
        from seatrial import tool

        @tool
        def send_confirmation_email(to): return {"sent": to}

        def answer(messages, ctx):
            return f"Sent: {send_confirmation_email(to='a')}"
        """,
    )
    suite = {"agent": "agent:answer", "config": {"unmocked_tools": "passthrough"}}
    scenario = {
        "name": "one",
        "input": "book",
        "expected_tools": ["send_confirmation_email"],
        "expected_output": "sent",
    }
    folder.write("suite.yaml", json.dumps({"suite": suite, "scenarios": [scenario]}))

    assert folder.seatrial("run", "suite.yaml").code == 0


WRONG = {"book": {"calls": [CHECK, DELETE, CREATE]}}
UPDATES = {"input": "book", "trajectory": {"mode": "contains", "expected": ["check_availability", "update_booking"]}}


def test_scenario_c_the_agent_deleted_and_recreated_instead_of_updating(play: Any) -> None:
    played = play(UPDATES, WRONG)

    assert played.code == 1
    assert "trajectory FAILED" in played.out
    assert "Agent called: [check_availability, delete_booking, create_booking]" in played.out
    assert "Expected (contains): [check_availability, update_booking]" in played.out


def test_scenario_c_ours_names_what_is_missing_since_contains_allows_extra_calls(play: Any) -> None:
    found = play(UPDATES, WRONG).trial()["trajectory"]

    assert (found["missing_calls"], found["extra_calls"]) == (["update_booking"], [])
    strict = {"input": "book", "trajectory": {"mode": "strict", "expected": ["check_availability", "update_booking"]}}
    assert play(strict, WRONG).trial()["trajectory"]["extra_calls"] == ["delete_booking", "create_booking"]


def test_scenario_c_adjust_the_assertion_if_delete_and_create_is_acceptable(play: Any) -> None:
    contains = {"mode": "contains", "expected": [{"name": "check_availability", "arg_match": "ignore"}]}

    assert play({"input": "book", "trajectory": contains}, WRONG).code == 0


def test_scenario_d_the_agent_completed_goals_but_responses_were_not_helpful_enough(play: Any) -> None:
    asked = {**GOALS, "thresholds": {"helpfulness": 3.5, "goal_completion": 1.0}}
    played = play(asked, {"book": [{"graded": {"helpfulness": score}} for score in (2, 3, 4)]})

    assert played.scenario()["failure_reasons"] == ["helpfulness: 3 (threshold: 3.5)"]


# Debugging failures


def test_verbose_shows_transcripts_tool_calls_and_results_turn_by_turn_scores_and_error_details(play: Any) -> None:
    asked = {
        "input": "book",
        "trials": 2,
        "metrics": ["helpfulness"],
        "mocks": {"look": {"returns": {"slot": "09:45"}}},
    }
    script = {
        "book": [{"reply": "It is at 09:45.", "asks": [["look", {"day": "Tue"}]], "graded": {"helpfulness": 2}}, DOWN]
    }

    played = play(asked, script, "--verbose")

    for shown in ("book", "It is at 09:45.", "look", "Tue", '{"slot": "09:45"}', "helpfulness: 2", "database down"):
        assert shown in played.out, shown


def test_json_output_writes_full_results(play: Any, folder: Any) -> None:
    asked = {**BOOKING, "name": "user books a morning slot", "metrics": ["helpfulness"]}
    play(asked, {"book": [{**CHECKED, "graded": {"helpfulness": 3}}, BOOKED, BOOKED]}, "--report", "json")

    written = json.loads((folder.path / ".seatrial" / "results.json").read_text("utf-8"))
    [scenario] = written["scenarios"]
    trial = scenario["trials"][0]
    assert scenario["name"] == "user books a morning slot"
    assert trial["id"]
    assert trial["turns"][0]["user"] == "book"
    assert trial["error"] is None
    wanted = {"matched": False, "missing_calls": ["create_booking"], "extra_calls": [], "ordering_issues": []}
    assert {key: trial["trajectory"][key] for key in wanted} == wanted
    assert trial["evaluation"]["helpfulness"]["value"] == 3
    assert trial["evaluation"]["helpfulness"]["reason"]
    assert scenario["passed"] is False
    assert "Trajectory assertion failed in 1 trial" in scenario["failure_reasons"]


def test_filter_to_failing_scenarios(play: Any) -> None:
    scenarios = [{"name": "user cancels a Booking", "input": "a"}, {"name": "user asks about weather", "input": "a"}]

    played = play(scenarios, {"a": "ok"}, "--scenario", "booking")

    assert [each["name"] for each in played.results["scenarios"]] == ["user cancels a Booking"]


# Adjusting pass/fail criteria


@pytest.mark.parametrize(
    ("strict", "lenient"),
    [
        ({"thresholds": {"helpfulness": 3.5}}, {"thresholds": {"helpfulness": 3.0}}),
        ({"thresholds": {"goal_completion": 0.8}}, {"thresholds": {"goal_completion": 0.6}}),
        ({"fail_on_error_severity": "high"}, {"fail_on_error_severity": "critical"}),
    ],
    ids=["helpfulness", "goal_completion", "severity"],
)
def test_more_lenient_criteria_pass_what_stricter_ones_fail(play: Any, strict: Any, lenient: Any) -> None:
    graded = [{"graded": {"helpfulness": 3, "goal_completion": met, "failure": [ERRORS[1]]}} for met in (1, 0, 1)]

    assert play({**GOALS, **strict}, {"book": graded}).code == 1
    assert play({**GOALS, **lenient}, {"book": graded}).code == 0


def test_ours_allows_conversations_to_fail_by_a_threshold_not_by_more_conversations(play: Any) -> None:
    asked = {"input": "a", "expected_output": "ok", "trials": 5}
    script = {"a": ["ok", "ok", "no", "ok", "ok"]}

    assert play(asked, script).code == 1
    assert play({**asked, "threshold": 0.8}, script).code == 0


@pytest.mark.parametrize("metric", ["helpfulness", "coherence", "relevance", "faithfulness"])
def test_more_strict_faithfulness_5_means_no_hallucinations_allowed(play: Any, metric: str) -> None:
    asked = {"input": "book", "trials": 3, "metrics": [metric], "thresholds": {metric: 5.0}}

    assert play(asked, {"book": {}}).code == 0
    assert play(asked, {"book": [{}, {}, {"graded": {metric: 4}}]}).code == 1


def test_more_strict_goal_completion_1_means_all_conversations_must_complete_goal(play: Any) -> None:
    asked = {**GOALS, "thresholds": {"goal_completion": 1.0}}

    assert play(asked, {"book": {}}).code == 0
    assert play(asked, {"book": [{}, {}, {"graded": {"goal_completion": 0}}]}).code == 1


@pytest.mark.parametrize(
    ("calls", "code"),
    [([CHECK, CREATE], 0), ([CREATE, CHECK], 1), ([CHECK], 1), ([CHECK, CREATE, CREATE], 1)],
    ids=["exact", "order", "missing", "extra"],
)
def test_more_strict_match_mode_strict_requires_the_exact_sequence(play: Any, calls: Any, code: int) -> None:
    strict = {"mode": "strict", "expected": ["check_availability", "create_booking"]}

    assert play({"input": "book", "trajectory": strict}, {"book": {"calls": calls}}).code == code

"""The page "PassFail Scorer" of AgenticAssure, sentence by sentence. A name quotes the claim.

Where Seatrial decides otherwise, the name says so, and docs/differences.md says why.
"""

import asyncio
import json
from typing import Any

import pytest

from seatrial import AgentResult, EvalResult, PassFail, Scenario, ToolCall, TurnContext, run

WEATHER = {"input": "weather", "expected_tools": ["get_weather"]}
WEATHER_ARGS = {**WEATHER, "expected_tool_args": {"get_weather": {"location": "Seattle"}}}
GET, FORMAT = ["get_weather", {"location": "Seattle"}], ["format_response", {}]
ORDER = {
    "input": "Look up order #12345",
    "expected_tools": ["query_orders"],
    "expected_tool_args": {"query_orders": {"order_id": "12345"}},
    "expected_output": "order #12345",
}


def scored(reply: str | None, calls: Any = (), **expected: Any) -> EvalResult:
    """What passfail says of a reply and the calls before it."""
    made = [ToolCall(*call) if isinstance(call, (list, tuple)) else ToolCall(call, {}) for call in calls]
    ctx = TurnContext(reply=reply, tool_calls=made)  # type: ignore[arg-type]
    return asyncio.run(PassFail(**expected).evaluate(ctx))


# Introduction


def test_the_passfail_scorer_is_the_default_scorer(play: Any) -> None:
    played = play({"input": "a", "expected_output": "ok"}, {"a": "ok"})

    assert [result["evaluator"] for result in played.trial()["results"]] == ["passfail"]


@pytest.mark.parametrize(("reply", "score"), [("yes", 1.0), ("no", 0.0)])
def test_it_produces_a_binary_pass_1_or_fail_0_score(reply: str, score: float) -> None:
    result = scored(reply, expected_output="yes")

    assert (result.passed, result.score) == (score == 1.0, score)


# How it works


def test_it_runs_up_to_four_sequential_checks() -> None:
    result = scored("order #12345", [("query_orders", {"order_id": "12345"})], **_expected(ORDER))

    names = ["output_produced", "expected_tools", "tool_args", "expected_output"]
    assert [check.name for check in result.checks] == names


def _expected(scenario: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in scenario.items() if key.startswith("expected_")}


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        ("", [("query_orders", {"order_id": "12345"})]),
        ("order #12345", []),
        ("order #12345", [("query_orders", {"order_id": "1"})]),
        ("order #1", [("query_orders", {"order_id": "12345"})]),
    ],
    ids=["output", "tools", "arguments", "text"],
)
def test_if_any_check_fails_the_score_is_0_and_evaluation_stops(reply: str, calls: Any) -> None:
    result = scored(reply, calls, **_expected(ORDER))

    assert result.score == 0.0
    assert [check.passed for check in result.checks] == [True] * (len(result.checks) - 1) + [False]


@pytest.mark.parametrize(
    ("expected", "names"),
    [
        ({}, ["output_produced"]),
        ({"expected_tools": ["a"]}, ["output_produced", "expected_tools"]),
        ({"expected_tool_args": {"a": {}}}, ["output_produced", "tool_args"]),
        ({"expected_output": "x"}, ["output_produced", "expected_output"]),
    ],
    ids=["nothing", "tools", "arguments", "text"],
)
def test_checks_that_are_not_defined_are_simply_skipped(expected: Any, names: list[str]) -> None:
    assert [check.name for check in scored("x", ["a"], **expected).checks] == names


# Check 1: output produced


@pytest.mark.parametrize("reply", ["", None, " ", "\n\t "])
def test_an_agent_that_returns_empty_none_or_whitespace_only_fails_this_check(reply: str | None) -> None:
    scenario = Scenario(name="one", input="a")
    report = run(scenario, agent=lambda input: AgentResult(reply), store=None)

    [trial] = report.trials()
    assert not report.passed
    assert trial.results[0].reasoning == "Output produced: FAIL (empty output)."


def test_any_non_empty_string_counts_as_a_pass() -> None:
    assert scored(".").passed


def test_this_catches_those_cases_before_any_content_level_validation_happens() -> None:
    assert scored("", ["get_weather"], expected_tools=["get_weather"], expected_output="").checks[0].passed is False


# Check 2: expected tools called


def test_if_the_agent_calls_get_weather_and_format_response_this_scenario_passes_the_tool_check(play: Any) -> None:
    assert play(WEATHER, {"weather": {"calls": [GET, FORMAT]}}).code == 0


def test_if_the_agent_skips_get_weather_entirely_it_fails(play: Any) -> None:
    assert play(WEATHER, {"weather": {"calls": [FORMAT]}}).code == 1


def test_every_expected_tool_must_appear_at_least_once() -> None:
    assert scored("x", ["a", "b"], expected_tools=["a", "b"]).passed
    assert scored("x", ["a", "a", "b"], expected_tools=["a", "b"]).passed
    assert not scored("x", ["a", "a"], expected_tools=["a", "b"]).passed


def test_the_check_compares_with_the_tools_called_field_on_the_agent_result() -> None:
    result = AgentResult("x", tool_calls=[ToolCall("get_weather", {}), ToolCall("mail", {})])

    assert result.tools_called == ["get_weather", "mail"]


# Check 3: tool arguments match


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"location": "Seattle"}, 0),
        ({"location": "Seattle", "unit": "C"}, 0),
        ({"location": "Paris"}, 1),
        ({"unit": "C"}, 1),
        ({}, 1),
    ],
    ids=["equal", "additional", "other value", "missing", "none"],
)
def test_only_the_arguments_explicitly_listed_are_checked(play: Any, arguments: Any, code: int) -> None:
    assert play(WEATHER_ARGS, {"weather": {"calls": [["get_weather", arguments]]}}).code == code


# Check 4: expected output substring


@pytest.mark.parametrize(
    ("reply", "code"), [("Hello there! How can I help you?", 0), ("Hi! What can I do for you?", 1)], ids=["hello", "hi"]
)
def test_hello_is_found_case_insensitively_somewhere_within_the_full_output(play: Any, reply: str, code: int) -> None:
    asked = {"name": "greeting", "input": "Say hello", "expected_output": "hello"}

    assert play(asked, {"Say hello": reply}).code == code


# Example scenarios


def test_minimal_scenario_passes_as_long_as_the_agent_produces_any_non_empty_output(play: Any) -> None:
    asked = {"name": "basic-response", "input": "Summarize the company's return policy"}

    assert play(asked, {asked["input"]: "Anything."}).code == 0
    assert play(asked, {asked["input"]: " "}).code == 1


def test_substring_check_the_output_must_contain_30_days_case_insensitive(play: Any) -> None:
    asked = {"name": "refund-info", "input": "How do I get a refund?", "expected_output": "30 days"}

    assert play(asked, {asked["input"]: "Within 30 DAYS."}).code == 0
    assert play(asked, {asked["input"]: "Within a month."}).code == 1


def test_tool_usage_check_must_call_both_query_orders_and_format_order_summary(play: Any) -> None:
    both = ["query_orders", "format_order_summary"]
    asked = {"name": "database-query", "input": "Look up order #12345", "expected_tools": both}

    assert play(asked, {asked["input"]: {"calls": [[name, {}] for name in both]}}).code == 0
    assert [play(asked, {asked["input"]: {"calls": [[name, {}]]}}).code for name in both] == [1, 1]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"reply": "Your ORDER #12345 is on its way.", "calls": [["query_orders", {"order_id": "12345"}]]}, 0),
        ({"reply": "", "calls": [["query_orders", {"order_id": "12345"}]]}, 1),
        ({"reply": "Your order #12345.", "calls": []}, 1),
        ({"reply": "Your order #12345.", "calls": [["query_orders", {"order_id": 12345}]]}, 1),
        ({"reply": "It is on its way.", "calls": [["query_orders", {"order_id": "12345"}]]}, 1),
    ],
    ids=["all", "output", "tool", "argument", "text"],
)
def test_tool_arguments_check_all_four_checks_run(play: Any, said: Any, code: int) -> None:
    assert play(ORDER, {ORDER["input"]: said}).code == code


# The details field


def test_every_result_includes_a_details_string_that_explains_what_happened() -> None:
    result = scored("yes", expected_output="yes")

    assert result.details == result.reasoning


def test_a_passing_result_might_look_like_this() -> None:
    result = scored(
        "Within 30 days.",
        [("get_weather", {"location": "Seattle"})],
        expected_tools=["get_weather"],
        expected_tool_args={"get_weather": {"location": "Seattle"}},
        expected_output="30 days",
    )

    assert result.details == (
        "Output produced: PASS. Expected tools called: PASS (get_weather). Tool arguments match: PASS. "
        'Expected output found: PASS ("30 days" found in output).'
    )


def test_a_failing_result_stops_at_the_first_failure() -> None:
    result = scored("x", ["get_weather"], expected_tools=["get_weather", "format_response"], expected_output="y")

    assert result.details == "Output produced: PASS. Expected tools called: FAIL (missing: format_response)."


def test_this_field_is_shown_in_cli_reports_html_reports_and_json_output(play: Any, folder: Any) -> None:
    asked = {"input": "a", "expected_tools": ["format_response"]}
    played = play(asked, {"a": "ok"}, "--report", "console", "--report", "html=out.html", "--report", "json=out.json")

    assert "missing: format_response" in played.out
    assert "missing: format_response" in (folder.path / "out.html").read_text("utf-8")
    written = json.loads((folder.path / "out.json").read_text("utf-8"))
    [result] = written["scenarios"][0]["trials"][0]["results"]
    assert result["reasoning"] == "Output produced: PASS. Expected tools called: FAIL (missing: format_response)."


# Limitations and edge cases


def test_substring_matching_is_loose_im_not_saying_yes_to_that_would_still_pass() -> None:
    assert scored("I'm not saying yes to that", expected_output="yes").passed


@pytest.mark.parametrize("scorer", ["exact", {"regex": "^yes$"}])
def test_for_strict_matching_use_the_exact_match_scorer_or_the_regex_scorer(play: Any, scorer: Any) -> None:
    asked = {"input": "a", "scorers": [scorer], **({"expected_output": "yes"} if scorer == "exact" else {})}

    assert play(asked, {"a": "yes"}).code == 0
    assert play(asked, {"a": "I'm not saying yes to that"}).code == 1


@pytest.mark.parametrize(
    "call", [("Get_Weather", {"location": "Seattle"}), ("get_weather", {"location": "seattle"})], ids=["name", "value"]
)
def test_case_insensitivity_applies_only_to_the_output_check(call: Any) -> None:
    assert not scored("x", [call], **_expected(WEATHER_ARGS)).passed


def test_order_of_tools_is_not_checked() -> None:
    assert scored("x", ["b", "a"], expected_tools=["a", "b"]).passed


@pytest.mark.parametrize(
    "scenario",
    [
        {"trajectory": {"mode": "in_order", "expected": ["a", "b"]}},
        {"expect": {"tool_calls_include": ["a", "b"], "tool_calls_ordered": True}},
    ],
    ids=["trajectory", "ordered"],
)
def test_if_order_matters_ours_has_a_key_and_needs_no_custom_scorer(play: Any, scenario: Any) -> None:
    asked = {"input": "x", **scenario}

    assert play(asked, {"x": {"calls": [["a", {}], ["b", {}]]}}).code == 0
    assert play(asked, {"x": {"calls": [["b", {}], ["a", {}]]}}).code == 1


def test_only_one_expected_output_string_is_supported(folder: Any) -> None:
    folder.write("suite.yaml", "scenarios: [{name: one, input: a, expected_output: [a, b]}]")

    ended = folder.seatrial("validate", "suite.yaml")

    assert ended.code == 2
    assert "expected_output" in ended.err


@pytest.mark.parametrize(
    "keys",
    [
        {"scorers": ["regex"], "metadata": {"regex_pattern": "(?=.*phrase one)(?=.*phrase two)"}},
        {"expect": {"reply_contains_all": ["phrase one", "phrase two"]}},
    ],
    ids=["regex", "ours"],
)
def test_to_check_for_multiple_phrases_use_the_regex_scorer_or_our_reply_contains_all(play: Any, keys: Any) -> None:
    assert play({"input": "x", **keys}, {"x": "phrase two and phrase one"}).code == 0
    assert play({"input": "x", **keys}, {"x": "phrase two"}).code == 1


def test_if_you_set_expected_output_to_empty_the_check_will_trivially_pass(play: Any) -> None:
    assert play({"input": "x", "expected_output": ""}, {"x": "anything"}).code == 0


@pytest.mark.parametrize("reply", ["30  days", "30\ndays", "30\tdays"])
def test_the_output_check_is_not_whitespace_normalized(reply: str) -> None:
    assert not scored(reply, expected_output="30 days").passed

"""The page "Evaluators API Reference" of pytest-agent-eval, sentence by sentence. A name quotes the claim.

Where Seatrial decides otherwise, the name says so, and docs/differences.md says why.
"""

import asyncio
import json
import threading
from typing import Any

import pytest

from seatrial import Contains, EvalResult, ToolCall, ToolCalls, TurnContext
from seatrial.testing.model_server import ModelServer, ServerReply

NOW = {"retry-after": "0"}


def contains(reply: str | None, **texts: Any) -> EvalResult:
    ctx = TurnContext(reply=reply, tool_calls=[])  # type: ignore[arg-type]
    return asyncio.run(Contains(**texts).evaluate(ctx))


def tool_calls(called: list[str], **rules: Any) -> EvalResult:
    ctx = TurnContext(reply="ok", tool_calls=[ToolCall(name, {}) for name in called])
    return asyncio.run(ToolCalls(**rules).evaluate(ctx))


# Contains


@pytest.mark.parametrize(
    ("reply", "passed"),
    [("It is confirmed.", True), ("BOOKED!", True), ("booked and confirmed", True), ("Sorry.", False), ("", False)],
)
def test_any_of_reply_must_contain_at_least_one_of_these_strings_case_insensitive(reply: str, passed: bool) -> None:
    assert contains(reply, any_of=["confirmed", "booked"]).passed is passed


@pytest.mark.parametrize(
    ("reply", "passed"),
    [("Booking with reference number 7", True), ("REFERENCE NUMBER of the BOOKING", True), ("Your booking", False)],
)
def test_all_of_reply_must_contain_every_one_of_these_strings_case_insensitive(reply: str, passed: bool) -> None:
    assert contains(reply, all_of=["booking", "reference number"]).passed is passed


def test_the_strings_may_be_in_upper_case_as_well() -> None:
    assert contains("booked", any_of=["BOOKED"], all_of=["BooKed"]).passed


@pytest.mark.parametrize("reply", ["anything", "", None])
def test_both_default_to_an_empty_list_and_then_everything_passes(reply: str | None) -> None:
    result = contains(reply)

    assert (result.passed, result.reasoning) == (True, "All substring checks passed")


def test_reply_did_not_contain_any_of() -> None:
    result = contains("Sorry.", any_of=["confirmed", "booked"], all_of=["never looked at"])

    assert (result.passed, result.reasoning) == (False, "Reply did not contain any of ['confirmed', 'booked']")


def test_reply_missing_required_strings_lists_those_that_are_missing() -> None:
    result = contains("Your booking.", any_of=["booking"], all_of=["booking", "reference number", "10am"])

    assert result.reasoning == "Reply missing required strings: ['reference number', '10am']"


def test_all_substring_checks_passed() -> None:
    assert contains("Booked.", any_of=["booked"]).reasoning == "All substring checks passed"


@pytest.mark.parametrize(
    ("expect", "code"),
    [
        ({"reply_contains_any": ["confirmed", "booked"]}, 0),
        ({"reply_contains_any": ["sorry"]}, 1),
        ({"reply_contains_all": ["booked", "10"]}, 0),
        ({"reply_contains_all": ["booked", "11"]}, 1),
    ],
)
def test_in_files_they_are_reply_contains_any_and_reply_contains_all(play: Any, expect: Any, code: int) -> None:
    assert play({"turns": [{"user": "a", "expect": expect}]}, {"a": "Booked for 10am."}).code == code


@pytest.mark.parametrize("expect", [{"reply_contains_any": []}, {"tool_calls_include": []}, {"judge": {"rubric": " "}}])
def test_our_files_refuse_an_empty_list_or_rubric_since_it_asserts_nothing(folder: Any, expect: Any) -> None:
    scenario = {"name": "one", "turns": [{"user": "a", "expect": expect}]}
    folder.write("suite.yaml", json.dumps({"scenarios": [scenario]}))

    assert folder.seatrial("validate", "suite.yaml").code == 2


# ToolCalls


@pytest.mark.parametrize(
    ("called", "passed"),
    [(["book_slot"], True), (["look", "book_slot", "book_slot"], True), ([], False), (["Book_slot"], False)],
)
def test_must_include_tool_names_that_must_appear_in_tool_calls(called: list[str], passed: bool) -> None:
    assert tool_calls(called, must_include=["book_slot"]).passed is passed


@pytest.mark.parametrize(
    ("called", "passed"), [([], True), (["book_slot"], True), (["book_slot", "cancel_slot"], False)]
)
def test_must_exclude_tool_names_that_must_not_appear_in_tool_calls(called: list[str], passed: bool) -> None:
    assert tool_calls(called, must_exclude=["cancel_slot"]).passed is passed


def test_example_must_include_book_slot_must_exclude_cancel_slot() -> None:
    rules = {"must_include": ["book_slot"], "must_exclude": ["cancel_slot"]}

    assert tool_calls(["book_slot"], **rules).passed
    assert not tool_calls(["book_slot", "cancel_slot"], **rules).passed
    assert not tool_calls([], **rules).passed


@pytest.mark.parametrize(
    ("called", "passed"),
    [
        (["auth", "fetch", "respond"], True),
        (["auth", "log", "fetch", "auth", "respond"], True),
        (["fetch", "auth", "respond"], False),
        (["auth", "respond"], False),
        ([], False),
    ],
    ids=["in order", "others between", "another order", "one missing", "none"],
)
def test_if_ordered_must_include_tools_must_appear_in_the_given_order(called: list[str], passed: bool) -> None:
    assert tool_calls(called, must_include=["auth", "fetch", "respond"], ordered=True).passed is passed


def test_ordered_defaults_to_false() -> None:
    assert tool_calls(["b", "a"], must_include=["a", "b"]).passed


def test_ordered_without_must_include_asks_for_nothing() -> None:
    assert tool_calls(["a"], ordered=True).passed


def test_a_tool_that_is_listed_twice_must_be_called_twice_only_if_ordered() -> None:
    assert tool_calls(["a"], must_include=["a", "a"]).passed
    assert not tool_calls(["a"], must_include=["a", "a"], ordered=True).passed


def test_expected_tool_not_in_and_forbidden_tool_was_called_are_all_reported() -> None:
    result = tool_calls(["look", "cancel"], must_include=["book", "pay"], must_exclude=["cancel"])

    assert result.reasoning.splitlines() == [
        "Expected tool 'book' not in ['look', 'cancel']",
        "Expected tool 'pay' not in ['look', 'cancel']",
        "Forbidden tool 'cancel' was called",
    ]


def test_tools_not_called_in_order() -> None:
    result = tool_calls(["b", "a"], must_include=["a", "b"], must_exclude=["b"], ordered=True)

    assert result.reasoning.splitlines() == [
        "Forbidden tool 'b' was called",
        "Tools ['a', 'b'] not called in order in ['b', 'a']",
    ]


@pytest.mark.parametrize("rules", [{}, {"must_include": ["a"]}, {"must_include": ["a"], "ordered": True}])
def test_all_tool_call_checks_passed(rules: Any) -> None:
    assert tool_calls(["a"], **rules).reasoning == "All tool call checks passed"


@pytest.mark.parametrize(
    ("expect", "code"),
    [
        ({"tool_calls_include": ["fetch"]}, 0),
        ({"tool_calls_exclude": ["fetch"]}, 1),
        ({"tool_calls_include": ["fetch", "auth"]}, 0),
        ({"tool_calls_include": ["fetch", "auth"], "tool_calls_ordered": True}, 1),
    ],
)
def test_in_files_they_are_tool_calls_include_exclude_and_ordered(play: Any, expect: Any, code: int) -> None:
    calls = [["auth", {}], ["fetch", {}]]

    assert play({"turns": [{"user": "a", "expect": expect}]}, {"a": {"calls": calls}}).code == code


def test_our_missing_record_is_an_error_and_proves_no_tool_was_not_called() -> None:
    ctx = TurnContext(reply="ok", tool_calls=None)
    result = asyncio.run(ToolCalls(must_exclude=["cancel_slot"]).evaluate(ctx))

    assert result.passed is False
    assert result.error is not None


# Judge

RUBRIC = "Reply must confirm booking with date and time"


def judged(play: Any, answers: Any, **judge: Any) -> Any:
    """The run of one turn whose rubric is put to a judge that gives these answers."""
    with ModelServer(answers) as server:
        asked = {"rubric": RUBRIC, "model": f"openai:gpt-4o@{server.base_url}", **judge}
        asked = {key: value for key, value in asked.items() if value is not None}
        models = {"judge": f"openai:of-the-suite@{server.base_url}"}
        played = play({"turns": [{"user": "a", "expect": {"judge": asked}}]}, {"a": "Booked."}, models=models)
        return played, server.requests


def verdict(passed: bool) -> str:
    return json.dumps({"passed": passed, "reasoning": "It says when."})


@pytest.mark.parametrize("passed", [True, False])
def test_use_an_llm_to_evaluate_the_reply_against_a_rubric(play: Any, passed: bool) -> None:
    played, requests = judged(play, [verdict(passed)])

    result = played.trial()["results"][-1]
    assert (result["passed"], result["reasoning"]) == (passed, "It says when.")
    assert RUBRIC in json.dumps(requests[0].body)
    assert "Booked." in json.dumps(requests[0].body)
    assert played.code == (0 if passed else 1)


def test_rubric_is_required(folder: Any) -> None:
    scenario = {"name": "one", "turns": [{"user": "a", "expect": {"judge": {"model": "openai:gpt-4o"}}}]}
    folder.write("suite.yaml", json.dumps({"scenarios": [scenario]}))

    ended = folder.seatrial("validate", "suite.yaml")

    assert ended.code == 2
    assert "rubric" in ended.err


@pytest.mark.parametrize(("model", "asked"), [({}, "gpt-4o"), ({"model": None}, "of-the-suite")], ids=["own", "none"])
def test_model_falls_back_to_the_setting_if_none(play: Any, model: Any, asked: str) -> None:
    _, requests = judged(play, [verdict(True)], **model)

    assert requests[0].body["model"] == asked


def test_model_falls_back_to_pyproject_toml_here_tool_seatrial(folder: Any) -> None:
    with ModelServer([verdict(True)]) as server:
        folder.write("pyproject.toml", f'[tool.seatrial]\njudge_model = "openai:of-toml@{server.base_url}"\n')
        folder.write("agent.py", "def answer(input): return 'Booked.'")
        turn = {"user": "a", "expect": {"judge": {"rubric": RUBRIC}}}
        suite = {"suite": {"agent": "agent:answer"}, "scenarios": [{"name": "one", "turns": [turn]}]}
        folder.write("suite.yaml", json.dumps(suite))

        assert folder.seatrial("run", "suite.yaml").code == 0
        assert server.requests[0].body["model"] == "of-toml"


@pytest.mark.parametrize(("judge", "attempts"), [({}, 3), ({"retries": 0}, 1), ({"retries": 1}, 2)])
def test_retries_is_the_number_of_retry_attempts_on_api_failure_2_by_default(
    play: Any, judge: Any, attempts: int
) -> None:
    played, requests = judged(play, [ServerReply(status=500, headers=NOW)], **judge)

    assert len(requests) == attempts
    reasoning = played.trial()["results"][-1]["reasoning"]
    words = "attempt" if attempts == 1 else "attempts"
    assert reasoning.startswith(f"Judge failed after {attempts} {words}: ")


def test_an_attempt_that_succeeds_ends_the_retries(play: Any) -> None:
    played, requests = judged(play, [ServerReply(status=500, headers=NOW), verdict(True)])

    assert (played.code, len(requests)) == (0, 2)


def test_our_judge_that_failed_is_an_error_and_not_the_agents_fail_verdict(play: Any) -> None:
    played, _ = judged(play, [ServerReply(status=500, headers=NOW)], retries=0)

    assert played.trial()["results"][-1]["passed"] is False
    assert (played.trial()["status"], played.trial()["error"]["kind"]) == ("errored", "judge")
    assert played.code == 1


def test_timeout_is_the_seconds_before_the_judge_call_times_out(play: Any) -> None:
    played, _ = judged(play, [ServerReply(hold=threading.Event())], timeout=0.2, retries=0)

    assert "no answer within 0.2 s" in played.trial()["error"]["message"]


def test_timeout_is_30_and_retries_is_2_by_default(folder: Any) -> None:
    file = json.loads(folder.seatrial("schema").out)["else"]["properties"]
    judge = file["scenarios"]["items"]["properties"]["expect"]["properties"]["judge"]["properties"]

    assert (judge["timeout"]["default"], judge["retries"]["default"]) == (30, 2)

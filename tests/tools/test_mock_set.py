"""Mocks as a scenario gives them: what they answer, trial by trial."""

import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import ToolAnswer, ToolBox
from seatrial.model.results import TrialError
from seatrial.tools.tool_box import MockedTools, MockSet


def same(expected: Any, actual: Any) -> bool:
    return bool(expected == actual)


def tools(unmocked_tools: Any = "error", **mocks: Any) -> MockedTools:
    return MockSet.parse(mocks, matches=same, unmocked_tools=unmocked_tools).open("trial-1", 7)


def call(box: ToolBox, name: str, arguments: Any = None, *, turn: int = 0) -> ToolAnswer:
    return asyncio.run(box.call(name, arguments, turn=turn))


def test_returns_gives_its_value():
    assert call(tools(search={"returns": {"hits": 3}}), "search") == ToolAnswer(result={"hits": 3})


@pytest.mark.parametrize("value", [None, 0, "", False, []])
def test_an_empty_result_is_a_result(value: Any):
    assert call(tools(search={"returns": value}), "search") == ToolAnswer(result=value)


def test_raises_is_an_error_that_the_agent_sees():
    assert call(tools(search={"raises": "index offline"}), "search") == ToolAnswer(error="index offline")


def test_the_last_value_of_a_sequence_repeats():
    box = tools(book={"sequence": [{"raises": "timeout"}, {"returns": {"id": 1}}]})
    answers = [call(box, "book") for _ in range(3)]
    assert answers == [ToolAnswer(error="timeout"), ToolAnswer(result={"id": 1}), ToolAnswer(result={"id": 1})]


def test_a_plain_value_in_a_sequence_is_a_result():
    box = tools(temperature={"sequence": [20, [21], "hot", None]})
    assert [call(box, "temperature").result for _ in range(4)] == [20, [21], "hot", None]


def test_each_trial_starts_its_sequences_anew():
    mocks = MockSet.parse({"book": {"sequence": [1, 2]}}, matches=same)
    assert [call(mocks.open(trial, 0), "book").result for trial in ("a", "b")] == [1, 1]


def test_two_sequences_of_one_tool_are_counted_apart():
    box = tools(stock={"when": [{"args": {"id": 1}, "sequence": ["a", "b"]}], "sequence": ["x", "y"]})
    calls = [{"id": 1}, {"id": 2}, {"id": 1}, {"id": 2}]
    assert [call(box, "stock", arguments).result for arguments in calls] == ["a", "x", "b", "y"]


def test_when_takes_the_first_entry_whose_arguments_match():
    box = tools(
        lookup={
            "when": [{"args": {"id": 1}, "returns": "one"}, {"args": {"id": 2}, "raises": "gone"}],
            "returns": "other",
        }
    )
    assert call(box, "lookup", {"id": 1, "verbose": True}).result == "one"
    assert call(box, "lookup", {"id": 2}).error == "gone"
    assert call(box, "lookup", {}).result == "other"


def test_when_compares_with_the_rules_it_was_given():
    seen = []

    def matches(expected: Any, actual: Any) -> bool:
        seen.append((expected, actual))
        return True

    mocks = MockSet.parse({"lookup": {"when": [{"args": {"id": {"$gt": 1}}, "returns": 1}]}}, matches=matches)
    call(mocks.open("t", 0), "lookup", {"id": 5})
    assert seen == [({"$gt": 1}, 5)]


def test_a_call_that_no_when_entry_matches_ends_the_trial():
    box = tools(lookup={"when": [{"args": {"id": 1}, "returns": "one"}]})
    with pytest.raises(TrialError, match="no entry of its mock's `when` matches") as caught:
        call(box, "lookup", {"id": 9})
    assert caught.value.info.kind is ErrorKind.TOOL
    assert "mocks.lookup" in (caught.value.info.hint or "")


def test_a_result_that_the_agent_changes_is_whole_for_the_next_call():
    box = tools(search={"returns": {"hits": [1]}})
    call(box, "search").result["hits"].clear()
    assert call(box, "search").result == {"hits": [1]}


def test_a_tool_without_mock_ends_the_trial_with_the_snippet_to_add():
    with pytest.raises(TrialError) as caught:
        call(tools(), "send_email", {"to": "a@example.org"})
    assert caught.value.info.kind is ErrorKind.TOOL
    assert str(caught.value) == "Tool 'send_email' was called but no mock is defined"
    assert "mocks:\n  send_email: {returns: {}}" in (caught.value.info.hint or "")
    assert '{"to": "a@example.org"}' in (caught.value.info.hint or "")


def test_a_tool_without_mock_names_the_closest_mocked_one():
    with pytest.raises(TrialError) as caught:
        call(tools(send_mail={"returns": 1}), "send_email")
    assert "'send_mail'" in (caught.value.info.hint or "")


def test_passthrough_leaves_tools_without_mock_to_the_adapter():
    box = tools("passthrough", search={"returns": 1})
    assert (box.knows("search"), box.knows("send_email")) == (True, False)
    with pytest.raises(TrialError, match="no real tool to pass the call to"):
        call(box, "send_email")


def test_names_of_python_attributes_are_no_mocks():
    assert not tools().knows("__class__")


@pytest.mark.parametrize("arguments", ['{"id": ', "[1]", [1], 5, True])
def test_arguments_that_are_no_object_are_an_error_that_the_agent_sees(arguments: Any):
    answer = call(tools(search={"returns": 1}), "search", arguments)
    assert (answer.error or "").startswith("arguments are not a JSON object: ")


def test_a_call_without_arguments_is_answered():
    assert call(tools(search={"returns": 1}), "search", None).result == 1


def test_a_refused_call_does_not_use_up_a_sequence():
    box = tools(book={"sequence": [1, 2]})
    call(box, "book", "nonsense")
    assert call(box, "book").result == 1


def test_state_belongs_to_the_trial():
    mocks = MockSet.parse({}, matches=same)
    first, second = mocks.open("a", 0), mocks.open("b", 0)
    first.state["x"] = 1
    assert (first.state, second.state) == ({"x": 1}, {})


def test_delay_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    call(tools(search={"returns": 1, "delay_ms": 250}), "search")
    assert waited == [0.25]


def test_the_delay_of_an_entry_stands_in_for_that_of_the_mock(monkeypatch: pytest.MonkeyPatch):
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    box = tools(search={"delay_ms": 100, "sequence": [{"returns": 1, "delay_ms": 500}, {"returns": 2}]})
    call(box, "search")
    call(box, "search")
    assert waited == [0.5, 0.1]


@pytest.mark.parametrize(
    ("fault", "part"),
    [
        ("timeout", "did not answer in time"),
        ("error", "500 Internal Server Error"),
        ("rate_limited", "429 Too Many Requests"),
    ],
)
def test_timeout_error_and_rate_limit_are_errors_that_the_agent_sees(fault: str, part: str):
    assert part in (call(tools(search={"fault": fault}), "search").error or "")


def test_a_malformed_result_is_a_page_where_json_was_due():
    answer = call(tools(search={"fault": "malformed"}), "search")
    assert (answer.error, answer.result[:6]) == (None, "<html>")


@pytest.mark.parametrize(
    ("value", "seen"), [({"id": "BK-1"}, '{"id": '), ("confirmed", "conf"), ([1, 2, 3], "[1, "), ({}, "{")]
)
def test_a_truncated_result_is_the_first_half_of_its_text(value: Any, seen: str):
    assert call(tools(search={"fault": "truncated", "returns": value}), "search").result == seen


@pytest.mark.parametrize(("value", "seen"), [({"id": 1}, {}), ([1, 2], []), ("text", ""), (7, None)])
def test_an_empty_result_has_the_kind_of_the_usual_one(value: Any, seen: Any):
    assert call(tools(search={"fault": "empty", "returns": value}), "search").result == seen
    assert call(tools(search={"fault": "empty"}), "search").result is None


def test_a_slow_tool_answers_as_usual_after_five_seconds_or_its_own_delay(monkeypatch: pytest.MonkeyPatch):
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("asyncio.sleep", wait)
    for more in ({}, {"delay_ms": 300}):
        answer = call(tools(search={"fault": "slow", "returns": {"id": 1}, **more}), "search")
        assert (answer.result, answer.error) == ({"id": 1}, None)
    assert waited == [5.0, 0.3]


def test_all_mistakes_are_reported_at_once():
    with pytest.raises(UsageError) as caught:
        tools(search={"retuns": 1}, book={"delay_ms": -1, "returns": 1})
    assert "mocks.search.retuns: unknown key 'retuns'. Did you mean 'returns'?" in str(caught.value)
    assert "mocks.book.delay_ms: expected milliseconds" in str(caught.value)

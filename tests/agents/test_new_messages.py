"""What counts as new of a list of messages, however the agent keeps its conversation."""

from typing import Any

import pytest

from seatrial.agents.return_values import only_new
from seatrial.model.results import AgentFailure

SYSTEM = {"role": "system", "content": "You are a clerk."}
CALLED = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "book"}}]}
ANSWERED = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
NUDGE = {"role": "user", "content": "Now answer in one sentence."}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def agent(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


SAID = [user("Book it."), CALLED, ANSWERED, agent("Booked."), user("Thanks.")]
NEW = [agent("You are welcome.")]


@pytest.mark.parametrize(
    "returned",
    [
        [*SAID, *NEW],
        [SYSTEM, *SAID, *NEW],
        [user("For example"), CALLED, ANSWERED, agent("Booked."), *SAID, *NEW],
        [user("Book it."), CALLED, ANSWERED, agent("I did."), user([{"type": "text", "text": "Thanks."}]), *NEW],
        [user("Thanks.\n"), *NEW],
        NEW,
    ],
    ids=["appended", "own system prompt", "own examples", "own words", "only the end", "only new"],
)
def test_calls_of_earlier_turns_are_not_new(returned: list[Any]) -> None:
    assert only_new(returned, SAID) == NEW


def test_what_the_agent_tells_itself_in_the_users_name_does_not_hide_its_calls() -> None:
    new = [CALLED, ANSWERED, NUDGE, agent("Booked.")]
    assert only_new([SYSTEM, user("Book it."), *new], [user("Book it.")]) == new


def test_the_results_of_tools_in_a_users_message_do_not_begin_a_turn() -> None:
    result = user([{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}])
    assert only_new([user("Book it."), CALLED, result, *NEW], [user("Book it.")]) == [CALLED, result, *NEW]


def test_the_calls_that_were_answered_in_this_turn_are_not_new() -> None:
    said = [user("Book it."), CALLED, ANSWERED]
    assert only_new([SYSTEM, *said, agent("Booked.")], said) == [agent("Booked.")]


def test_a_first_message_in_other_words_leaves_the_list_whole() -> None:
    returned = [SYSTEM, user("Question: Book it."), CALLED, ANSWERED, agent("Booked.")]
    assert only_new(returned, [user("Book it.")]) == returned


def test_a_list_without_a_recognisable_start_of_the_turn_is_refused() -> None:
    returned = [user("Question: Book it."), CALLED, ANSWERED, agent("Booked."), user("Question: Thanks."), *NEW]
    with pytest.raises(AgentFailure, match=r"without the latest one, 'Thanks.'.*return only the new messages"):
        only_new(returned, SAID)


def test_what_is_no_list_of_messages_is_left_to_its_reader() -> None:
    assert only_new(["a"], SAID) == ["a"]
    assert only_new("text", SAID) == "text"

"""What is said of a conversation: blank texts, and calls that are known in part."""

import pytest

from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript, is_blank


@pytest.mark.parametrize(
    "text", [None, "", " \n\t", "\u200b", "\ufeff\u2060\u00ad", "\u3164", "\u2800", "\u00a0\u200d", "\x00", "\ufe0f"]
)
def test_a_text_of_which_nothing_can_be_seen_is_blank(text: str | None) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["0", "\u200bok", "é", "日", "…", "👍", "\u0301e"])
def test_a_text_of_which_anything_can_be_seen_is_not(text: str) -> None:
    assert not is_blank(text)


def turn(*calls: str, known: bool = True, complete: bool = True) -> PlayedTurn:
    made = tuple(ToolCall(name) for name in calls) if known else None
    return PlayedTurn(index=0, user="u", reply="r", tool_calls=made, calls_complete=complete)


def transcript(*turns: PlayedTurn) -> Transcript:
    return Transcript(turns=turns, stop_reason=StopReason.SCRIPT_ENDED)


def test_calls_are_complete_where_those_of_every_turn_are() -> None:
    assert transcript(turn("a"), turn()).calls_complete
    assert not transcript(turn("a"), turn(complete=False)).calls_complete
    assert not transcript(turn("a"), turn(known=False)).calls_complete


def test_the_calls_that_were_seen_are_those_of_the_turns_that_have_some() -> None:
    played = transcript(turn("a"), turn(known=False), turn("b", complete=False))
    assert [call.name for call in played.seen_calls] == ["a", "b"]
    assert played.tool_calls is None

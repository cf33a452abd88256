"""What was said in any reply, and who ended the conversation."""

import asyncio
from typing import Any

import pytest

from seatrial import UsageError
from seatrial.evaluators.said import Ended, Said
from seatrial.model.conversation import PlayedTurn, StopReason, Transcript
from seatrial.model.protocols import TrialContext


def a_trial(*replies: str | None, stopped: StopReason = StopReason.USER_STOPPED, recorded: Any = None) -> TrialContext:
    turns = tuple(
        PlayedTurn(index=index, user="hi", reply=reply, tool_calls=None) for index, reply in enumerate(replies)
    )
    return TrialContext(transcript=Transcript(turns=turns, stop_reason=stopped, recorded=recorded))


def verdict(evaluator: Any, ctx: TrialContext) -> str:
    result = asyncio.run(evaluator.evaluate(ctx))
    return "errored" if result.error is not None else "passed" if result.passed else "failed"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"contains_all": ["order W1"]}, "passed"),
        ({"contains_all": ["w1", "1,500"]}, "passed"),
        ({"contains_all": ["w1", "2,500"]}, "failed"),
        ({"contains_all": ["shipped. It costs"]}, "failed"),
        ({"contains_any": ["W2", "SHIPPED"]}, "passed"),
        ({"contains_any": ["W2", "W3"]}, "failed"),
        ({"excludes": ["guarantee"]}, "passed"),
        ({"excludes": ["shipped"]}, "failed"),
        ({"matches_all": [r"w\d", r"\$[\d,]+$"]}, "passed"),
        ({"matches_all": [r"w\d", r"^shipped"]}, "failed"),
        ({"contains_all": ["1500"]}, "failed"),
        ({"contains_all": ["1500"], "ignore": ","}, "passed"),
        ({"contains_all": ["$1,5,00"], "ignore": ","}, "passed"),
        ({"excludes": ["1500"], "ignore": ","}, "failed"),
    ],
)
def test_texts_are_searched_in_all_replies(given: dict[str, Any], expected: str) -> None:
    assert verdict(Said(**given), a_trial("Your order W1 is shipped.", None, "It costs $1,500")) == expected


def test_a_redacted_reply_may_have_contained_a_forbidden_text() -> None:
    trial = a_trial("The key is [redacted].")

    assert verdict(Said(excludes=["hunter2"]), trial) == "errored"
    assert verdict(Said(matches_all=["key is .+"]), trial) == "errored"
    assert verdict(Said(contains_all=["The key"]), trial) == "passed"


def test_a_text_of_ignored_characters_is_refused() -> None:
    with pytest.raises(UsageError, match="only characters of said_ignore"):
        Said(contains_all=[", ,"], ignore=", ")


@pytest.mark.parametrize(
    ("stopped", "recorded", "expected"),
    [
        (StopReason.GOAL_MET, None, "passed"),
        (StopReason.USER_STOPPED, None, "passed"),
        (StopReason.MAX_TURNS, None, "failed"),
        (StopReason.LIMIT, None, "failed"),
        (StopReason.SCRIPT_ENDED, None, "failed"),
        (StopReason.SCRIPT_ENDED, {"id": 1}, "errored"),
    ],
)
def test_ended_asks_who_ended_the_conversation(stopped: StopReason, recorded: Any, expected: str) -> None:
    assert verdict(Ended(), a_trial("Bye.", stopped=stopped, recorded=recorded)) == expected

"""Secrets are taken out of whatever holds them, and nothing else is touched."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from seatrial.runner import Redaction
from seatrial.vocabulary.conversation import (
    ErrorInfo,
    ErrorKind,
    PlayedTurn,
    StopReason,
    ToolCall,
    Transcript,
)

SECRET = "hunter2-hunter2"
OTHER = "swordfish-123"


def redact(value: Any) -> Any:
    return Redaction([SECRET, OTHER]).value(value)


@dataclass
class Order:
    token: str


@pytest.mark.parametrize(
    ("value", "redacted"),
    [
        (f"a {SECRET} b {OTHER}", "a [redacted] b [redacted]"),
        ({"k": {"deep": [SECRET, 1, None]}}, {"k": {"deep": ["[redacted]", 1, None]}}),
        ({SECRET: 1}, {"[redacted]": 1}),
        ({SECRET: 1, OTHER: 2}, {"[redacted]": 1, "[redacted]'": 2}),
        ((SECRET, "x"), ("[redacted]", "x")),
        ({SECRET}, "{'[redacted]'}"),
        (SECRET.encode(), "b'[redacted]'"),
        (Order(SECRET), "Order(token='[redacted]')"),
        ({"order": Order(SECRET)}, {"order": "Order(token='[redacted]')"}),
    ],
)
def test_secrets_are_found_wherever_they_are(value: Any, redacted: Any) -> None:
    assert redact(value) == redacted


@pytest.mark.parametrize("value", ["text", 5, None, 2.5, True, {"a": [1, {"b": ("c",)}]}, [], Order("x"), {1, 2}])
def test_a_value_without_secrets_stays_the_very_same(value: Any) -> None:
    assert redact(value) is value


def test_a_longer_secret_is_taken_out_whole_where_a_shorter_one_is_part_of_it() -> None:
    assert Redaction(["abcdefgh", "abcdefgh-ijkl"]).text("x abcdefgh-ijkl y") == "x [redacted] y"


def test_texts_of_fewer_than_eight_characters_are_no_secrets() -> None:
    assert Redaction(["short", "1234567"]).text("short 1234567") == "short 1234567"


def test_a_secret_is_no_pattern() -> None:
    assert Redaction(["a.b*c(d)e"]).text("a.b*c(d)e axbbcde") == "[redacted] axbbcde"


@pytest.mark.parametrize(
    "secret", ['q"uo\\te/d+1==', "pässwört-1", "two words/1", "-----begin\nabc/+=\n-----end", "\udc80bcdefghi"]
)
@pytest.mark.parametrize(
    "write",
    [
        json.dumps,
        lambda secret: json.dumps({"key": secret}, ensure_ascii=False),
        lambda secret: json.dumps(secret).replace("/", "\\/"),
        lambda secret: repr({"key": secret}),
        lambda secret: urlencode({"key": secret}, errors="replace"),
        lambda secret: quote(secret, errors="replace"),
        lambda secret: quote(secret, safe="", errors="replace").lower(),
    ],
    ids=["json", "utf-8 json", "php", "python", "form", "path", "lower case"],
)
def test_a_secret_is_found_as_others_write_it(secret: str, write: Any) -> None:
    shown = Redaction([secret]).text(f"<{write(secret)}>")
    assert "[redacted]" in shown
    assert len(shown) <= len('<{"key": "[redacted]"}>')


def test_a_value_that_holds_itself_does_not_end_in_recursion() -> None:
    held: list[Any] = [SECRET]
    held.append(held)
    assert SECRET not in repr(redact(held))


def test_an_object_that_cannot_be_shown_is_replaced() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError

    assert redact(Shy()) == "<Shy that cannot be shown>"


def a_transcript(text: str) -> Transcript:
    error = ErrorInfo(kind=ErrorKind.AGENT, message=text, hint=text, traceback=text)
    calls = (ToolCall(text, {text: text}, [text], text, text),)
    return Transcript(
        turns=(PlayedTurn(index=0, user=text, reply=text, tool_calls=calls, error=error),),
        stop_reason=StopReason.ERROR,
        history=({"role": "system", "content": text},),
        state={"k": text},
        recorded=[{"content": text}],
        error=error,
    )


def test_every_text_of_a_transcript_is_redacted() -> None:
    assert Redaction([SECRET]).transcript(a_transcript(SECRET)) == a_transcript("[redacted]")


def test_a_transcript_without_secrets_stays_the_very_same() -> None:
    turn = PlayedTurn(index=0, user="a", reply="b", tool_calls=(ToolCall("t", {"k": 1}),))
    transcript = Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED, state={"k": 1})
    assert Redaction([SECRET]).transcript(transcript) is transcript

"""Secrets are taken out of whatever holds them, and nothing else is touched."""

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from seatrial.engine.redact import Redaction, Secret
from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript

SECRET = "hunter2-hunter2"
OTHER = "swordfish-123"


def redaction(*secrets: str) -> Redaction:
    return Redaction([Secret(f"SECRET_{place}", secret) for place, secret in enumerate(secrets, 1)])


def redact(value: Any) -> Any:
    return redaction(SECRET, OTHER).value(value)


@pytest.mark.parametrize(
    ("value", "redacted"),
    [
        (f"a {SECRET} b {OTHER}", "a [redacted] b [redacted]"),
        ({"k": {"deep": [SECRET, 1, None]}}, {"k": {"deep": ["[redacted]", 1, None]}}),
        ({SECRET: 1}, {"[redacted]": 1}),
        ({SECRET: 1, OTHER: 2}, {"[redacted]": 1, "[redacted]'": 2}),
        ((SECRET, "x"), ("[redacted]", "x")),
    ],
)
def test_secrets_are_found_wherever_they_are(value: Any, redacted: Any) -> None:
    assert redact(value) == redacted


@pytest.mark.parametrize("value", ["text", 5, None, 2.5, True, {"a": [1, {"b": ("c",)}]}, []])
def test_a_value_without_secrets_stays_the_very_same(value: Any) -> None:
    assert redact(value) is value


@pytest.mark.parametrize("word", ["customer", "customer-12345", "pässword"])
def test_a_secret_of_fewer_than_sixteen_characters_is_replaced_only_as_a_whole_word(word: str) -> None:
    shown = redaction(word).text(f"{word}, delete_{word}_record, {word}s, my{word}, {word}2 ({word}) {word}")
    assert shown == f"[redacted], delete_{word}_record, {word}s, my{word}, {word}2 ([redacted]) [redacted]"


@pytest.mark.parametrize("text", ["x\\nhunter22", "a%20hunter22", "\\u00e4hunter22", "me:hunter22@host", "'hunter22'"])
def test_an_escape_before_a_short_secret_is_no_part_of_its_word(text: str) -> None:
    assert redaction("hunter22").text(text) == text.replace("hunter22", "[redacted]")


def test_a_short_secret_that_begins_or_ends_with_a_sign_is_found_beside_letters() -> None:
    assert redaction("-hunter2!").text("x-hunter2!y") == "x[redacted]y"


def test_a_secret_of_sixteen_characters_is_found_in_the_middle_of_words() -> None:
    assert redaction("a" * 15 + "1").text("sk_" + "a" * 15 + "1x") == "sk_[redacted]x"


def test_a_longer_secret_is_taken_out_whole_where_a_shorter_one_is_part_of_it() -> None:
    assert redaction("abcdefgh", "abcdefgh-ijkl").text("x abcdefgh-ijkl y") == "x [redacted] y"


def test_texts_of_fewer_than_eight_characters_are_no_secrets() -> None:
    assert redaction("short", "1234567").text("short 1234567") == "short 1234567"


def test_a_secret_is_no_pattern() -> None:
    assert redaction("a.b*c(d)e").text("a.b*c(d)e axbbcde") == "[redacted] axbbcde"


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
    shown = redaction(secret).text(f"<{write(secret)}>")
    assert "[redacted]" in shown
    assert len(shown) <= len('<{"key": "[redacted]"}>')


@pytest.mark.parametrize("secret", ["hunter22", "hunter22-long-and-safe", "pässwört-1+/", "sk-live-7f3a9c11?>"])
@pytest.mark.parametrize("write", [b64encode, urlsafe_b64encode], ids=["standard", "in addresses"])
@pytest.mark.parametrize("before", ["", "u:", "usr:", "user:"])
@pytest.mark.parametrize("after", ["", "\n", ", and more"])
def test_a_secret_is_found_in_base64_alone_and_between_other_bytes(
    secret: str, write: Any, before: str, after: str
) -> None:
    written = write(f"{before}{secret}{after}".encode()).decode()
    shown = redaction(secret).text(f"Authorization: Basic {written}")

    assert "[redacted]" in shown
    left = len(written) - len(shown.removeprefix("Authorization: Basic ").replace("[redacted]", ""))
    assert left >= len(secret.encode()) * 8 // 6 - 2  # at most the characters that also hold bits of their neighbours
    if not before and not after:
        assert shown == "Authorization: Basic [redacted]"


def a_transcript(text: str, **more: Any) -> Transcript:
    error = ErrorInfo(kind=ErrorKind.AGENT, message=text, hint=text, traceback=text)
    calls = (ToolCall(SECRET, {SECRET: {SECRET: text}}, [text], text, text),)
    return Transcript(
        turns=(PlayedTurn(index=0, user=text, reply=text, tool_calls=calls, error=error),),
        stop_reason=StopReason.ERROR,
        history=({"role": "system", "content": text},),
        state={"k": text},
        recorded=[{"content": text}],
        error=error,
        **more,
    )


def test_every_text_of_a_transcript_is_redacted_but_tool_names_and_keys_of_arguments() -> None:
    expected = a_transcript("[redacted]", redacted=("SECRET_1",))
    assert redaction(SECRET, OTHER).transcript(a_transcript(SECRET)) == expected


def test_a_transcript_without_secrets_stays_the_very_same() -> None:
    turn = PlayedTurn(index=0, user="a", reply="b", tool_calls=(ToolCall("t", {"k": 1}),))
    transcript = Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED, state={"k": 1})
    assert redaction(SECRET).transcript(transcript) is transcript


def test_a_transcript_names_all_variables_that_hold_the_value() -> None:
    both = Redaction([Secret("B_TOKEN", SECRET), Secret("A_TOKEN", SECRET), Secret("C_TOKEN", OTHER)])
    transcript = Transcript(
        turns=(PlayedTurn(index=0, user="a", reply=SECRET, tool_calls=()),), stop_reason=StopReason.SCRIPT_ENDED
    )
    assert both.transcript(transcript).redacted == ("A_TOKEN", "B_TOKEN")

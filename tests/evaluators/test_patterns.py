"""Which patterns are matched in this process, and that the answers are those of `re` wherever they are matched."""

import re

import pytest

from seatrial import patterns
from seatrial.patterns import PatternError, find_all, search

WORKER_ONLY = ["(x|xy)*z", "(?:ab?)*c", r"(\w+)\s+\1", "a*b*c*$"]


@pytest.mark.parametrize("pattern", ["hello", r"\bORD-\d{4}\b", "(?i)refund|money back", "[^ ]+", r"^a+$"])
def test_a_pattern_of_few_steps_needs_no_other_process(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_worker", None)

    search(pattern, "A reply of a usual length, in which ORD-1234 is refunded. " * 3)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*$", "(a|b|ab)*$", "(.*)*x", r"(\w+)\1", "(a?){30}a{30}", "(a*){9}b"]
)
def test_a_pattern_of_many_steps_is_left_to_the_worker(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_worker", None)

    with pytest.raises(AttributeError, match="ask"):
        search(pattern, "a" * 1000)


@pytest.mark.parametrize("pattern", [*WORKER_ONLY, "x", "(?P<a>x)(?(a)y|z)", "(?>x+)y", "x++y", "(?<!x)y", ""])
@pytest.mark.parametrize("text", ["", "xyxyz ab abc", "the the end", "aabbcc" * 40, "x\nX\ud800z", "é" * 300 + "xyz"])
@pytest.mark.parametrize("flags", [0, re.IGNORECASE])
def test_the_answers_are_those_of_re(pattern: str, text: str, flags: int) -> None:
    found = re.search(pattern, text, flags)

    assert search(pattern, text, flags) == (None if found is None else found.span())
    assert find_all(pattern, text, flags) == [each.span() for each in re.finditer(pattern, text, flags)]


def test_a_text_that_is_larger_than_a_pipe_is_matched() -> None:
    text = "xy" * 500_000 + "z"

    assert search("(?:x|y){1,2}z", text) == (999_998, 1_000_001)
    assert len(find_all("(?:x|w)y?", text)) == 500_000


def test_the_next_pattern_is_matched_after_one_that_took_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "LIMIT_SECONDS", 0.05)
    with pytest.raises(PatternError, match=re.escape("matching the pattern '^(a+)+$' took longer than 0.05 s")):
        search("^(a+)+$", "a" * 41 + "!")
    monkeypatch.undo()

    assert search("(x|xy)*z", "xyz") == (0, 3)


def test_what_cannot_be_started_is_told_with_the_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_worker", patterns._Worker())
    monkeypatch.setattr("sys.executable", "/no/such/python")

    with pytest.raises(PatternError, match=r"the pattern '\(x\|xy\)\*z' needs a worker process.*No such file"):
        search("(x|xy)*z", "xyz")

import asyncio
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.evaluators.text import Contains, Exact, Regex, ReplyProduced
from seatrial.model.conversation import ErrorKind
from seatrial.model.protocols import Evaluator, TurnContext
from seatrial.model.results import EvalResult
from seatrial.model.scenario import Scenario


def judged(evaluator: Evaluator, reply: str | None, **more: Any) -> EvalResult:
    return asyncio.run(evaluator.evaluate(TurnContext(reply=reply, **more)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "reasoning"),
    [
        ({"any_of": ["a", "b"]}, "Reply did not contain any of ['a', 'b']"),
        ({"all_of": ["xx", "nope"]}, "Reply missing required strings: ['nope']"),
        ({"matches_any": ["a+", "b"]}, "Reply did not match any of ['a+', 'b']"),
        ({"matches_all": ["x", "b"]}, "Reply missing required patterns: ['b']"),
        ({"none_of": ["x", "b"]}, "Reply contained forbidden strings: ['x']"),
    ],
)
def test_a_failing_group_of_contains_is_named_with_what_was_missing(given: Any, reasoning: str) -> None:
    result = judged(Contains(**given), "XX")

    assert not result.passed
    assert result.reasoning == reasoning
    assert [check.name for check in result.checks] == list(given)


def test_contains_says_when_everything_is_there() -> None:
    result = judged(Contains(any_of=("booked",), none_of=["sorry"]), "Booked!")

    assert result.passed
    assert result.reasoning == "All substring checks passed"


def test_contains_can_mind_the_case_of_patterns() -> None:
    assert judged(Contains(matches_any=["bk-1"]), "BK-1").passed
    assert not judged(Contains(matches_any=["bk-1"], case_sensitive=True), "BK-1").passed


def test_a_missing_reply_is_an_empty_one() -> None:
    assert not judged(Contains(any_of=["a"]), None).passed
    assert not judged(Regex("a"), None).passed
    assert not judged(Exact("a"), None).passed
    assert not judged(ReplyProduced(), None).passed


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: Contains(any_of="booked"), r"contains\.any_of: expected a list of strings, got the string"),
        (lambda: Contains(all_of=[1]), r"contains\.all_of\[0\]: expected a string, got 1"),
        (
            lambda: Contains(matches_all=["a", "["]),
            r"contains\.matches_all\[1\]: '\[' is not a regular expres",
        ),
        (lambda: Contains(case_sensitive="no"), r"contains\.case_sensitive: expected true or false"),
        (lambda: Regex("["), r"regex\.pattern: '\[' is not a regular expression"),
        (lambda: Regex(5), r"regex\.pattern: expected a string, got 5"),
        (lambda: Exact(5), r"exact\.expected: expected a string, got 5"),
        (lambda: Exact(normalize=None), r"exact\.normalize: expected true or false, got None"),
    ],
)
def test_a_wrong_argument_is_refused_when_the_evaluator_is_built(build: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        build()


def test_exact_takes_the_scenarios_text_unless_it_has_its_own() -> None:
    scenario = Scenario(name="s", input="x", expected_output="Yes")

    assert judged(Exact(), " yes ", scenario=scenario).passed
    assert not judged(Exact("no"), "yes", scenario=scenario).passed
    assert not judged(Exact(normalize=False), "yes", scenario=scenario).passed


def test_exact_without_any_text_has_no_answer() -> None:
    result = judged(Exact(), "x")

    assert not result.passed
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONFIG


def test_regex_shows_what_it_found() -> None:
    assert (
        judged(Regex(r"ORD-\d+"), "it is ORD-789").reasoning == "Pattern found: PASS ('ORD-789' matches 'ORD-\\\\d+')."
    )
    assert judged(Regex("a"), "b").reasoning == "Pattern found: FAIL ('a' not found in output)."


def test_a_reply_of_white_space_is_none() -> None:
    assert judged(ReplyProduced(), "x").passed
    result = judged(ReplyProduced(), " \t")
    assert not result.passed
    assert result.reasoning == "Output produced: FAIL (empty output)."

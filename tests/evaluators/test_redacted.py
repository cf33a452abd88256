"""A rule that passes only because a secret was taken out of what it looks at has no answer."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.engine.redact import Redaction, Secret
from seatrial.evaluators.end_state import EndState
from seatrial.evaluators.matchers import matches
from seatrial.evaluators.passfail import PassFail
from seatrial.evaluators.redacted_evidence import matches_surely
from seatrial.evaluators.text import Contains, Regex
from seatrial.evaluators.tool_calls import ToolArgs
from seatrial.evaluators.trajectory import Trajectory
from seatrial.model.conversation import ErrorKind, StopReason, ToolCall, Transcript
from seatrial.model.protocols import Evaluator, TrialContext, TurnContext
from seatrial.model.results import EvalResult

LEAK = {"to": "ann", "body": "the key is sk-[redacted]"}
HINT = (
    "To test that no secret is told, forbid '[redacted]' itself. If it is no secret, exempt it in the settings: "
    "redact: {except: [SHOP_API_KEY]}."
)


def judged(evaluator: Evaluator, *, reply: str = "ok", args: Any = None) -> EvalResult:
    calls = (ToolCall("send", LEAK if args is None else args),)
    return asyncio.run(evaluator.evaluate(TurnContext(reply=reply, tool_calls=calls, redacted=["SHOP_API_KEY"])))


def forbids(body: Any, **args: Any) -> Trajectory:
    return Trajectory(forbidden=[{"name": "send", "args": {"body": body, **args}}])


@pytest.mark.parametrize(
    "evaluator",
    [
        forbids({"$regex": "sk-[a-z]{4}"}),
        forbids({"$contains": "verysecret"}),
        forbids("the key is sk-verysecretvalue123"),
        forbids({"$one_of": ["x", "the key is sk-verysecretvalue123"]}),
        forbids({"$gt": "the key is sk-u"}),
        Trajectory(expected=[{"name": "send", "args": {"body": {"$contains": "verysecret"}}, "max": 0}]),
        Trajectory(expected=[{"name": "send", "args": {"body": {"$not": {"$contains": "verysecret"}}}}]),
        Trajectory(mode="within", expected=[{"name": "send", "args": {"body": {"$regex": "^[^0-9]*$"}}}]),
        ToolArgs("send", {"body": {"$not": {"$contains": "verysecret"}}}),
        ToolArgs("send", {"body": {"$regex": "^(?!.*delivered)"}}, calls="all"),
        PassFail(expected_tool_args={"send": {"body": {"$not": {"$regex": "[0-9]{3}"}}}}),
    ],
)
def test_arguments_that_fit_only_without_their_secret_have_no_answer(evaluator: Evaluator) -> None:
    result = judged(evaluator)
    assert result.error is not None
    assert result.error.kind is ErrorKind.CONFIG
    assert "the value of SHOP_API_KEY was redacted from the arguments of 'send'" in result.error.message
    assert result.error.hint == HINT


@pytest.mark.parametrize(
    "evaluator",
    [
        forbids({"$regex": "[0-9]"}, to="bob"),
        forbids("hello"),
        forbids({"$type": "number"}),
        Trajectory(expected=[{"name": "send", "args": {"to": "ann", "body": {"$contains": "the key"}}}]),
        Trajectory(expected=[{"name": "send", "args": {"body": {"$regex": "^the key"}}}]),
        ToolArgs("send", {"body": {"$type": "string"}}),
        ToolArgs("send", {"body": {"$contains": "[redacted]"}}),
        PassFail(expected_tool_args={"send": {"to": "ann", "body": {"$any": True}}}),
    ],
)
def test_what_holds_whatever_the_secret_is_passes(evaluator: Evaluator) -> None:
    assert judged(evaluator).passed


@pytest.mark.parametrize(
    "evaluator",
    [
        forbids({"$contains": "[redacted]"}),
        forbids({"$regex": r"\[redacted\]"}),
        forbids({"$regex": "the key"}),
        ToolArgs("send", {"body": {"$not": {"$contains": "[redacted]"}}}),
        ToolArgs("send", {"body": "hello"}),
    ],
)
def test_what_fails_whatever_the_secret_is_fails(evaluator: Evaluator) -> None:
    result = judged(evaluator)
    assert (result.passed, result.error) == (False, None)


def test_a_call_beside_that_fits_surely_is_enough() -> None:
    evaluator = ToolArgs("send", {"body": {"$not": {"$contains": "verysecret"}}})
    calls = (ToolCall("send", LEAK), ToolCall("send", {"body": "hello"}))
    assert asyncio.run(evaluator.evaluate(TurnContext(reply="ok", tool_calls=calls))).passed


@pytest.mark.parametrize(
    "evaluator",
    [
        Regex("^(?!.*delivered).*$"),
        Regex("^[^0-9]+$"),
        Contains(matches_all=["key", "^(?!.*delivered)"]),
        Contains(matches_any=["^[^0-9]+$", "nowhere"]),
        Contains(none_of=["delivered"]),
    ],
)
def test_a_reply_that_fits_only_without_its_secret_has_no_answer(evaluator: Evaluator) -> None:
    result = judged(evaluator, reply="The key is [redacted].")
    assert result.error is not None
    assert "the value of SHOP_API_KEY was redacted from the reply, so it cannot be searched for" in result.error.message
    assert result.error.hint == HINT


@pytest.mark.parametrize(
    "evaluator",
    [
        Regex("^The key"),
        Regex("(?i)KEY"),
        Regex(r"^(?!.*delivered).*\[redacted\]"),
        Contains(matches_any=["^[^0-9]+$", "the key"]),
    ],
)
def test_a_pattern_that_is_found_beside_the_secret_passes(evaluator: Evaluator) -> None:
    assert judged(evaluator, reply="The key is [redacted].").passed


def test_a_state_that_fits_only_without_its_secret_has_no_answer() -> None:
    state = {"sent": [{"body": "sk-[redacted]", "to": "ann"}]}
    transcript = Transcript(turns=(), stop_reason=StopReason.SCRIPT_ENDED, state=state, redacted=("SHOP_API_KEY",))
    ctx = TrialContext(transcript=transcript)

    doubtful = asyncio.run(EndState(contains={"sent": [{"body": {"$not": {"$contains": "very"}}}]}).evaluate(ctx))
    certain = asyncio.run(EndState(contains={"sent": [{"to": "ann"}]}).evaluate(ctx))

    assert doubtful.error is not None
    assert "the value of SHOP_API_KEY was redacted from the state" in doubtful.error.message
    assert certain.passed


SECRET = "abcabcab" * 2
TEXTS = st.lists(st.sampled_from(["a", "ab", "c", " ", SECRET]), max_size=4).map("".join)
MATCHERS = st.recursive(
    st.one_of(
        TEXTS,
        TEXTS.map(lambda text: {"$contains": text}),
        st.sampled_from(["a", "^a", "c$", "[^b]*", "ca?b", "^(?!.*bca)", "(?<!a)b", "."]).map(
            lambda it: {"$regex": it}
        ),
        TEXTS.map(lambda text: {"$gt": text}),
        TEXTS.map(lambda text: {"$between": [text, text + "b"]}),
        st.sampled_from([{"$gt": 5}, {"$between": [1, 9]}]),
        st.sampled_from([{"$any": True}, {"$type": "string"}, {"$type": "array"}]),
    ),
    lambda inner: st.one_of(
        inner.map(lambda it: {"$not": it}),
        st.lists(inner, min_size=1, max_size=2).map(lambda them: {"$one_of": them}),
        st.lists(inner, max_size=2),
        inner.map(lambda it: {"$contains": it}),
        st.dictionaries(st.sampled_from(["a", "b", SECRET]), inner, max_size=2),
        st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2).map(lambda it: {"$subset": it}),
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    TEXTS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["a", "b", SECRET]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(MATCHERS, VALUES)
def test_an_answer_about_a_redacted_value_is_that_about_the_value_itself(expected: Any, value: Any) -> None:
    answer = matches_surely(expected, Redaction([Secret("SHOP_API_KEY", SECRET)]).value(value))
    assert answer is None or answer is matches(expected, value)


@given(MATCHERS, VALUES)
def test_a_value_without_secrets_always_has_an_answer(expected: Any, value: Any) -> None:
    assert matches_surely(expected, value) is matches(expected, value)

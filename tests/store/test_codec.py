from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from seatrial.errors import StoreError
from seatrial.model.conversation import PlayedTurn, StopReason, ToolCall, Transcript, Usage
from seatrial.model.json_values import plain_value
from seatrial.model.results import EvalResult, Judgement, MetricScore
from seatrial.model.run import ScenarioKey, Status, Trial
from seatrial.store.codec import decode, encode

TEXTS = st.text(st.characters(exclude_categories=())).map(plain_value)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
).map(plain_value)
USAGES = st.none() | st.builds(Usage, input_tokens=st.none() | st.integers(), output_tokens=st.none())
CALLS = st.builds(ToolCall, TEXTS, JSON, JSON, st.none() | TEXTS, st.none() | TEXTS, st.none() | st.floats())
TURNS = st.builds(
    PlayedTurn,
    index=st.integers(0, 9),
    user=TEXTS,
    reply=st.none() | TEXTS,
    tool_calls=st.none() | st.lists(CALLS, max_size=2).map(tuple),
    latency_ms=st.floats(),
    usage=USAGES,
    cost_usd=st.none() | st.floats(),
)
TRANSCRIPTS = st.builds(
    Transcript,
    turns=st.lists(TURNS, max_size=2).map(tuple),
    stop_reason=st.sampled_from(StopReason),
    history=st.lists(st.dictionaries(TEXTS, JSON, max_size=2), max_size=2).map(tuple),
    state=st.none() | st.dictionaries(TEXTS, JSON, max_size=2),
)
TRIALS = st.builds(
    Trial,
    key=st.builds(ScenarioKey, TEXTS, TEXTS, TEXTS),
    index=st.integers(0),
    status=st.sampled_from(Status),
    failure_reasons=st.lists(TEXTS, max_size=2).map(tuple),
    error=st.none(),
    transcript=TRANSCRIPTS,
    results=st.lists(st.builds(EvalResult, passed=st.just(True), reasoning=TEXTS, error=st.none()), max_size=2).map(
        tuple
    ),
    judgement=st.none()
    | st.builds(
        Judgement,
        scores=st.lists(st.builds(MetricScore, metric=TEXTS, value=st.floats()), max_size=2).map(tuple),
        error=st.none(),
        details=st.none() | st.dictionaries(TEXTS, JSON, max_size=2),
    ),
    instruments=st.none(),
    seed=st.integers(),
    started_at=st.datetimes().map(lambda time: time.replace(fold=0, tzinfo=UTC)),
)


@settings(deadline=None)
@given(TRIALS)
def test_any_trial_comes_back_exactly(trial: Trial) -> None:
    body = encode(trial)
    assert body.isascii()
    assert repr(decode(Trial, body)) == repr(trial)


def a_call(arguments: Any) -> Trial:
    turn = PlayedTurn(index=0, user="u", reply="r", tool_calls=(ToolCall("t", arguments),))
    return Trial(
        key=ScenarioKey("s", "n"),
        index=0,
        status=Status.PASSED,
        transcript=Transcript(turns=(turn,), stop_reason=StopReason.SCRIPT_ENDED),
        started_at=datetime(2025, 5, 1, tzinfo=UTC),
    )


def test_calls_that_were_not_recorded_do_not_become_no_calls() -> None:
    trial = a_call({})
    for recorded in (None, ()):
        turn = replace(trial.transcript.turns[0], tool_calls=recorded, reply=None)
        body = encode(replace(trial, transcript=replace(trial.transcript, turns=(turn,))))
        assert decode(Trial, body).transcript.turns[0].tool_calls == recorded


def test_a_body_with_a_field_nobody_knows_is_refused() -> None:
    with pytest.raises(StoreError, match=r"a Usage cannot be read: .*`planet`.* newer Seatrial"):
        decode(Usage, b'{"planet":"Mars"}')


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff"])
def test_a_damaged_body_is_refused(body: bytes) -> None:
    with pytest.raises(StoreError, match="a Trial cannot be read"):
        decode(Trial, body)


def test_a_field_left_out_by_an_older_version_has_its_default() -> None:
    assert decode(MetricScore, b'{"metric":"m","value":1.0}') == MetricScore(metric="m", value=1.0)


def test_times_of_a_tool_call_come_back_though_they_do_not_count_for_equality() -> None:
    call = ToolCall("f", started_ms=float("inf"), duration_ms=2.5)
    found = decode(ToolCall, encode(call))
    assert (found.started_ms, found.duration_ms) == (float("inf"), 2.5)

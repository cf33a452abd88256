"""`{type: replay}`: recordings as an agent, through the public names."""

import json
from pathlib import Path
from typing import Any

import pytest

import seatrial
from seatrial import Scenario, Turn, UsageError
from seatrial.evaluators.limits import Limits
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Trial
from seatrial.model.scenario import Expect
from seatrial.traces.formats import read_trace

FIXTURES = Path(__file__).parent / "fixtures"


def said(user: str, reply: str, *, tool: str | None = None) -> list[Any]:
    call = {"id": "1", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    asked = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "1", "content": "x"}]
    return [{"role": "user", "content": user}, *(asked if tool else []), {"role": "assistant", "content": reply}]


@pytest.fixture
def recordings(tmp_path: Path) -> Any:
    """Writes conversations, each a list of messages under a name."""

    def write(*conversations: tuple[str | None, list[Any]]) -> str:
        file = tmp_path / "recorded.jsonl"
        lines = [json.dumps({"id": name, "messages": messages}) for name, messages in conversations]
        file.write_text("\n".join(lines), encoding="utf-8")
        return str(file)

    return write


def played(path: str, scenario: Scenario, **overrides: Any) -> list[Trial]:
    report = seatrial.run(scenario, agent={"type": "replay", "path": path}, store=None, **overrides)
    return list(report.trials())


def a_scenario(*users: str, **keys: Any) -> Scenario:
    return Scenario(name=keys.pop("name", "a"), turns=[Turn(user=user) for user in users], **keys)


def test_a_recording_is_answered_turn_by_turn_with_its_evidence(recordings: Any) -> None:
    path = recordings(("a", [*said("one", "1", tool="f"), *said("two", "2")]))

    (trial,) = played(path, a_scenario("one", "two"))

    assert trial.status == "passed"
    assert [turn.reply for turn in trial.transcript.turns] == ["1", "2"]
    assert [[call.name for call in turn.tool_calls or ()] for turn in trial.transcript.turns] == [["f"], []]


def test_recorded_calls_count_against_the_agent(recordings: Any) -> None:
    path = recordings(("a", said("one", "1", tool="delete_all")))

    (trial,) = played(path, a_scenario("one", expect=Expect(tool_calls_exclude=["delete_all"])))

    assert trial.status == "failed"


def test_of_recordings_that_begin_alike_the_one_that_goes_on_alike_is_played(recordings: Any) -> None:
    path = recordings(
        ("x", [*said("hi", "hello x"), *said("bye", "x")]), ("y", [*said("hi", "hello y"), *said("stop", "y")])
    )

    (trial,) = played(path, a_scenario("hi", "stop"))

    assert [turn.reply for turn in trial.transcript.turns] == ["hello y", "y"]


def test_of_recordings_that_say_the_same_the_one_of_the_same_name_is_played(recordings: Any) -> None:
    path = recordings(("x", said("hi", "from x")), ("a", said("hi", "from a")))

    (trial,) = played(path, a_scenario("hi"))

    assert trial.transcript.reply == "from a"


def test_every_trial_has_a_recording_of_its_own(recordings: Any) -> None:
    path = recordings(("x", said("hi", "first")), ("y", said("hi", "second")))

    trials = played(path, a_scenario("hi"), trials=3)

    assert [trial.transcript.reply for trial in trials[:2]] == ["first", "second"]
    assert trials[2].status == "errored"
    assert trials[2].error is not None
    assert trials[2].error.kind is ErrorKind.CONFIG
    assert trials[2].error.message == "'a' has 2 recordings, and none for trial 3"


def test_a_user_who_says_something_else_is_told_both_texts(recordings: Any) -> None:
    path = recordings(("a", [*said("one", "1"), *said("two", "2")]))

    (trial,) = played(path, a_scenario("one", "three"))

    assert trial.status == "errored"
    assert trial.error is not None
    assert trial.error.kind is ErrorKind.CONFIG
    assert "the user says 'three', but in the recording 'a' the user says 'two'" in trial.error.message


def test_a_user_who_goes_on_after_the_end_is_an_error(recordings: Any) -> None:
    (trial,) = played(recordings(("a", said("one", "1"))), a_scenario("one", "two"))

    assert trial.status == "errored"
    assert trial.error is not None
    assert "ends after 1 turn, but the user says 'two'" in trial.error.message


def test_a_scenario_that_nobody_recorded_is_an_error(recordings: Any) -> None:
    (trial,) = played(recordings(("x", said("one", "1"))), a_scenario("other"))

    assert trial.status == "errored"
    assert trial.error is not None
    assert trial.error.kind is ErrorKind.CONFIG
    assert "nothing is recorded for 'a': no recording begins with 'other'" in trial.error.message
    assert trial.error.hint == "recorded are: 'x'"


def test_spaces_and_line_ends_make_no_difference(recordings: Any) -> None:
    (trial,) = played(recordings(("x", said("one  two\n", "1"))), a_scenario("one two"))

    assert trial.status == "passed"


def test_a_limit_on_latency_has_no_answer_where_no_times_were_recorded(recordings: Any) -> None:
    (trial,) = played(recordings(("a", said("one", "1"))), a_scenario("one", limits=Limits(latency_ms=1000)))

    assert trial.status == "errored"
    assert trial.error is not None
    assert "limits.latency_ms cannot be checked" in trial.error.message


def test_the_recorded_time_is_held_against_a_limit() -> None:
    path = str(FIXTURES / "openinference.json")
    users = ("Where is order ORD-789?", "Please refund it.")

    (slow,) = played(path, a_scenario(*users, limits=Limits(latency_ms=1)))

    assert slow.status == "failed"
    assert slow.transcript.turns[0].latency_ms > 10


def test_a_recording_in_which_the_agent_failed_is_an_error_of_the_agent(tmp_path: Path) -> None:
    span = {
        "traceId": "t",
        "spanId": "s",
        "startTimeUnixNano": "1800000000000000000",
        "endTimeUnixNano": "1800000000001000000",
        "status": {"code": 2, "message": "overloaded"},
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {
                "key": "gen_ai.input.messages",
                "value": {"stringValue": '[{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]'},
            },
        ],
    }
    file = tmp_path / "spans.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))

    (trial,) = played(str(file), a_scenario("hi"))

    assert trial.status == "errored"
    assert trial.error is not None
    assert (trial.error.kind, trial.error.message) == (ErrorKind.AGENT, "overloaded")


def test_a_run_of_recordings_says_that_it_is_one(recordings: Any) -> None:
    path = recordings(("a", said("one", "1")))

    report = seatrial.run(a_scenario("one"), agent={"type": "replay", "path": [path]}, store=None)

    assert report.run.replayed


def test_history_before_the_first_turn_is_not_taken_for_the_user(recordings: Any) -> None:
    history = [{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "yes"}]

    (trial,) = played(recordings(("a", said("one", "1"))), a_scenario("one", history=history))

    assert trial.status == "passed"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"type": "replay"}, "type 'replay' needs 'path'"),
        ({"type": "replay", "path": "none.json"}, "none.json: cannot be read: No such file"),
        ({"type": "replay", "path": 3}, "path: expected a file or a list of files, got 3"),
        ({"type": "replay", "path": []}, "path: expected a file or a list of files, got []"),
        ({"type": "replay", "path": "x", "format": "xml"}, "unknown format 'xml'"),
        ({"type": "replay", "paths": "x"}, "unknown key 'paths'. Did you mean 'path'?"),
    ],
)
def test_wrong_settings_are_refused_clearly(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as refused:
        seatrial.run(a_scenario("one"), agent=spec, store=None)

    assert told in str(refused.value)


@pytest.mark.parametrize("given", ["user_stopped", "goal_met", "max_turns", "end_turn", None])
def test_a_file_may_say_how_a_conversation_ended(given: str | None, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps({"messages": said("one", "1", tool="f"), "stop_reason": given}), encoding="utf-8")

    [recording] = read_trace(file).recordings

    known = given if given in ("user_stopped", "goal_met", "max_turns") else "script_ended"
    assert recording.transcript.stop_reason == known

"""Recordings of tracing and evaluation tools, and JSON of any form by JMESPath."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from seatrial.model.conversation import ErrorKind, Usage
from seatrial.traces.formats import read_trace
from seatrial.traces.scenario_file import notes_on, write_scenarios
from seatrial.traces.transcript_builder import MessagePaths, RecordedConversation, TraceError

FIXTURES = Path(__file__).parent / "fixtures"
USERS = ["Where is order ORD-789?", "Please refund it."]
REPLIES = ["Order ORD-789 has shipped and arrives on Friday.", "Done: your refund is RF-1."]


def a_file(folder: Path, *documents: Any) -> Path:
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return file


def said(recording: RecordedConversation) -> list[tuple[str, str | None]]:
    return [(turn.user, turn.reply) for turn in recording.transcript.turns]


def test_a_session_of_claude_code_is_one_conversation_with_times_and_tokens() -> None:
    trace = read_trace(FIXTURES / "claude-code.jsonl")
    (session,) = trace.recordings

    assert (trace.format, session.name) == ("claude-code", "11111111-2222-4333-8444-555555555555")
    assert said(session) == list(zip(USERS, REPLIES, strict=True))
    found, missing = session.transcript.tool_calls or ()
    assert (found.name, found.arguments) == ("Read", {"file_path": "/shop/order.json"})
    assert "shipped" in found.result
    assert missing.error is not None
    assert missing.error.startswith("File does not exist")
    assert session.timed
    assert found.duration_ms is not None
    assert [turn.usage for turn in session.transcript.turns] == [Usage(input_tokens=40, output_tokens=10)] * 2


def a_line(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {"type": kind, "sessionId": "s-1", "message": message, "timestamp": "2026-11-16T10:00:00Z", **more}


def test_parts_of_one_message_of_claude_code_count_their_tokens_once(tmp_path: Path) -> None:
    whole = {"id": "msg_1", "usage": {"input_tokens": 20, "output_tokens": 5}}
    file = a_file(
        tmp_path,
        a_line("user", "Hello"),
        a_line("assistant", [{"type": "thinking", "thinking": "Hm."}], message=whole),
        a_line("assistant", [{"type": "text", "text": "Hi."}], message=whole),
    )

    (session,) = read_trace(file).recordings

    assert session.transcript.usage == Usage(input_tokens=20, output_tokens=5)


def test_subagents_commands_and_notes_of_claude_code_are_not_said_by_the_user(tmp_path: Path) -> None:
    file = a_file(
        tmp_path,
        a_line("user", "<command-name>/clear</command-name>"),
        a_line("user", "Caveat", isMeta=True),
        a_line("user", "Hello"),
        a_line("user", "search the web", isSidechain=True),
        a_line("assistant", [{"type": "text", "text": "Hi."}]),
    )

    trace = read_trace(file)

    assert said(trace.recordings[0]) == [("Hello", "Hi.")]
    assert trace.notes == ("1 message of subagents was left out",)


def test_an_error_of_the_api_is_an_error_of_the_agent_in_claude_code(tmp_path: Path) -> None:
    limit = a_line("assistant", [{"type": "text", "text": "API Error: 529"}], isApiErrorMessage=True)

    (session,) = read_trace(a_file(tmp_path, a_line("user", "Hello"), limit)).recordings

    assert session.transcript.error is not None
    assert (session.transcript.error.kind, session.transcript.error.message) == (ErrorKind.AGENT, "API Error: 529")


def inspect_files(tmp_path: Path) -> dict[str, Path]:
    """The log as JSON, as the archive that Inspect wrote, and as an archive that every Python reads."""
    deflated = tmp_path / "deflated.eval"
    document = json.loads((FIXTURES / "inspect.json").read_text("utf-8"))
    with zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as archive:
        for sample in document.pop("samples"):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        archive.writestr("header.json", json.dumps(document))
    return {"json": FIXTURES / "inspect.json", "eval": FIXTURES / "inspect.eval", "deflated": deflated}


@pytest.mark.parametrize("form", ["json", "eval", "deflated"])
def test_samples_of_an_inspect_log_are_conversations(form: str, tmp_path: Path) -> None:
    if form == "eval":
        pytest.importorskip("zstandard")
    trace = read_trace(inspect_files(tmp_path)[form])
    first, second = trace.recordings

    assert (trace.format, first.name, second.name) == ("inspect", "turn 1", "turn 2")
    assert said(first) + said(second) == list(zip(USERS, REPLIES, strict=True))
    down, again = second.transcript.tool_calls or ()
    assert (down.name, down.arguments) == ("refund", {"order_id": "ORD-789", "amount": 12.5})
    assert (down.error, again.result) == ("the refund service is down", {"refund_id": "RF-1"})
    assert second.transcript.usage == Usage(input_tokens=60, output_tokens=15)
    assert second.timed
    assert second.transcript.turns[0].latency_ms > 0


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.eval"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "hello")

    with pytest.raises(TraceError, match=r"is a zip archive, but no log of Inspect"):
        read_trace(file)


def test_results_of_promptfoo_are_conversations() -> None:
    trace = read_trace(FIXTURES / "promptfoo.json")
    found, failed, called = trace.recordings

    assert (trace.format, found.name, failed.name) == ("promptfoo", "finds an order", "test 1")
    assert said(found) == [(USERS[0], REPLIES[0])]
    assert found.transcript.tool_calls is None, "a text does not say which tools were called"
    assert found.transcript.usage == Usage(input_tokens=20, output_tokens=5)
    assert failed.transcript.error is not None
    assert failed.transcript.error.message == "the refund service is down"
    (cancelled,) = called.transcript.tool_calls or ()
    assert (cancelled.name, cancelled.arguments) == ("cancel_order", {"order_id": "ORD-789"})


def test_the_lines_of_a_promptfoo_output_are_read_too(tmp_path: Path) -> None:
    results = json.loads((FIXTURES / "promptfoo.json").read_text("utf-8"))["results"]["results"]

    assert read_trace(a_file(tmp_path, *results)).recordings[0].name == "finds an order"


def test_child_runs_of_langsmith_are_read(tmp_path: Path) -> None:
    runs = [json.loads(line) for line in (FIXTURES / "langsmith.jsonl").read_text("utf-8").splitlines()[1:]]
    start, end = runs[0]["start_time"], runs[-1]["end_time"]
    root = {"id": "root", "name": "shop", "run_type": "chain", "inputs": {}, "start_time": start, "end_time": end}
    inner = [{**run, "parent_run_id": "root", "trace_id": "root"} for run in runs]

    (recording,) = read_trace(a_file(tmp_path, {**root, "child_runs": inner})).recordings

    assert said(recording) == list(zip(USERS, REPLIES, strict=True))


def test_traces_of_the_openai_agents_sdk_without_texts_say_what_to_record(tmp_path: Path) -> None:
    span = {"object": "trace.span", "id": "s", "trace_id": "t", "parent_id": None, "error": None}
    times = {"started_at": "2026-11-16T10:00:00+00:00", "ended_at": "2026-11-16T10:00:01+00:00"}
    response = {"type": "response", "response_id": "resp_1"}

    with pytest.raises(TraceError, match=r"1 model call without texts.*to_input_list"):
        read_trace(a_file(tmp_path, {**span, **times, "span_data": response}))


def a_tool_span(**attributes: Any) -> dict[str, Any]:
    kept = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    return {
        "traceId": "t",
        "spanId": "s2",
        "startTimeUnixNano": "2000000",
        "endTimeUnixNano": "3000000",
        "attributes": kept,
    }


def test_flat_attributes_of_traceloop_match_results_by_the_ids_of_their_calls(tmp_path: Path) -> None:
    def calls(prefix: str) -> dict[str, str]:
        both = (("call_a", "A-1"), ("call_b", "B-2"))
        return {
            f"{prefix}.tool_calls.{place}.{key}": value
            for place, (identity, order) in enumerate(both)
            for key, value in (("id", identity), ("name", "lookup"), ("arguments", json.dumps({"order": order})))
        }

    first = {
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": "Where are A-1 and B-2?",
        "gen_ai.completion.0.role": "assistant",
        **calls("gen_ai.completion.0"),
    }
    second = {
        **{key: value for key, value in first.items() if "completion" not in key},
        "gen_ai.prompt.1.role": "assistant",
        **calls("gen_ai.prompt.1"),
        "gen_ai.prompt.2.role": "tool",
        "gen_ai.prompt.2.tool_call_id": "call_b",
        "gen_ai.prompt.2.content": "b is here",
        "gen_ai.prompt.3.role": "tool",
        "gen_ai.prompt.3.tool_call_id": "call_a",
        "gen_ai.prompt.3.content": "a is here",
        "gen_ai.completion.0.content": "Both are here.",
    }
    later = {"spanId": "s3", "startTimeUnixNano": "5000000", "endTimeUnixNano": "6000000"}
    spans = [a_tool_span(**first), {**a_tool_span(**second), **later}]

    (recording,) = read_trace(a_file(tmp_path, *spans)).recordings

    assert said(recording) == [("Where are A-1 and B-2?", "Both are here.")]
    found = [(call.arguments, call.result) for call in recording.transcript.tool_calls or ()]
    assert found == [({"order": "A-1"}, "a is here"), ({"order": "B-2"}, "b is here")]


def unanswered(tmp_path: Path) -> RecordedConversation:
    call = {"id": "c1", "type": "function", "function": {"name": "refund", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Refund it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "content": "Done."},
    ]
    (recording,) = read_trace(a_file(tmp_path, {"messages": messages})).recordings
    return recording


def test_a_result_that_is_not_recorded_is_unknown(tmp_path: Path) -> None:
    (call,) = unanswered(tmp_path).transcript.tool_calls or ()

    assert not call.result_known


def test_a_result_that_is_null_is_known(tmp_path: Path) -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "refund",
        "gen_ai.tool.call.arguments": "{}",
    }
    with_result = a_tool_span(**attributes, **{"gen_ai.tool.call.result": "null"})
    without = a_tool_span(**attributes)
    found = [
        call.result_known
        for span in (with_result, without)
        for one in read_trace(a_file(tmp_path, span)).recordings
        for call in one.transcript.seen_calls
    ]

    assert found == [True, False]


def test_an_unknown_result_makes_no_mock_and_says_so(tmp_path: Path) -> None:
    recording = unanswered(tmp_path)
    (scenario,) = write_scenarios([recording], suite="s", agent="a:b")["scenarios"]

    assert "mocks" not in scenario
    assert scenario["trajectory"]["expected"] == [{"name": "refund"}]
    assert any("these tools have no mock: refund" in note for note in notes_on([recording]))


CHATS = {
    "exported": "today",
    "chats": [
        {"ref": "one", "log": [{"who": "user", "said": "Hello"}, {"who": "assistant", "said": "Hi."}]},
        {"ref": "two", "log": [{"who": "user", "said": "Bye"}, {"who": "assistant", "said": "See you."}]},
    ],
}


def test_json_of_any_form_is_read_by_jmespath(tmp_path: Path) -> None:
    paths = MessagePaths(messages="chats[].log[].{role: who, content: said}", name="chats[].ref")
    each = MessagePaths(messages="chats[*].log[*].{role: who, content: said}", name="chats[].ref")
    file = a_file(tmp_path, CHATS)

    assert [(one.name, said(one)) for one in read_trace(file, paths=each).recordings] == [
        ("one", [("Hello", "Hi.")]),
        ("two", [("Bye", "See you.")]),
    ]
    with pytest.raises(TraceError, match=r"finds 2 names for 1 conversations"):
        read_trace(file, paths=paths)


def test_each_line_of_any_json_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    lines = [{"id": n, "turns": [{"role": "user", "content": f"Hello {n}"}]} for n in (1, 2)]
    paths = MessagePaths(messages="turns", name="id")

    found = read_trace(a_file(tmp_path, *lines), paths=paths).recordings

    assert [(one.name, one.users) for one in found] == [("1", ("Hello 1",)), ("2", ("Hello 2",))]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("chat", r"--messages 'chat' finds no list of messages. The document has the keys: exported, chats."),
        ("chats[*].log", r"the messages have the keys who, said, but no role. Rename them"),
        ("chats[", r"--messages 'chats\[' does not fit"),
    ],
)
def test_a_wrong_path_says_what_the_file_has(path: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        read_trace(a_file(tmp_path, CHATS), paths=MessagePaths(messages=path))


def test_a_file_of_an_unknown_format_suggests_to_name_the_place_of_the_messages(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"as JMESPath: --messages PATH"):
        read_trace(a_file(tmp_path, CHATS))

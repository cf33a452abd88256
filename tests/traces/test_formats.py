"""Every format that is read, from files that the libraries themselves wrote (fixtures/make.py)."""

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.model.conversation import ToolCall, Usage
from seatrial.traces.formats import read_trace
from seatrial.traces.transcript_builder import RecordedConversation, TraceError

FIXTURES = Path(__file__).parent / "fixtures"
WHOLE = {
    "openai-chat": "openai-chat",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "langchain-dict": "langchain",
    "langchain-dumpd": "langchain",
    "langchain-model-dump": "langchain",
    "pydantic-ai": "pydantic-ai",
    "otel-genai": "otlp",
    "otel-genai-2": "otlp",
    "openinference": "otlp",
    "traceloop": "otlp",
    "langfuse-otlp": "otlp",
    "langfuse-api": "langfuse",
    "langsmith": "langsmith",
    "openai-agents-trace": "openai-agents",
}
"""Files with the same conversation of two turns, and their formats."""
BROKEN = sorted(path.stem for path in FIXTURES.glob("*-broken.json"))
ERRORS = [name for name in WHOLE if not name.startswith("openai")]
"""Files whose format tells an error of a tool from its result."""
TIMED = ["pydantic-ai", "otel-genai", "otel-genai-2", "openinference", "traceloop", "langsmith", "openai-agents-trace"]
AS_TEXT = ("openai-responses", "openai-agents-trace")
"""Files of the OpenAI Agents SDK, which gives the model a tool's result as Python writes it."""


def the_recording(name: str) -> RecordedConversation:
    (recording,) = read_trace(file_of(name)).recordings
    return recording


def file_of(name: str) -> Path:
    (file,) = FIXTURES.glob(f"{name}.json*")
    return file


def read(tmp_path: Path, document: Any, **options: Any) -> tuple[RecordedConversation, ...]:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return read_trace(file, **options).recordings


def calls_of(recording: RecordedConversation) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in recording.transcript.tool_calls or ()]


@pytest.mark.parametrize("name", WHOLE)
def test_the_format_is_found_out(name: str) -> None:
    assert read_trace(file_of(name)).format == WHOLE[name]


@pytest.mark.parametrize("name", WHOLE)
def test_users_and_replies_are_read(name: str) -> None:
    turns = the_recording(name).transcript.turns

    assert [(turn.user, turn.reply) for turn in turns] == [
        ("Where is order ORD-789?", "Order ORD-789 has shipped and arrives on Friday."),
        ("Please refund it.", "Done: your refund is RF-1."),
    ]


@pytest.mark.parametrize("name", WHOLE)
def test_calls_are_read_with_their_arguments_in_their_turns(name: str) -> None:
    first, second = the_recording(name).transcript.turns

    refund = ("refund", {"order_id": "ORD-789", "amount": 12.5})
    assert [(call.name, call.arguments) for call in first.tool_calls or ()] == [
        ("lookup_order", {"order_id": "ORD-789"})
    ]
    assert [(call.name, call.arguments) for call in second.tool_calls or ()] == [refund, refund]


@pytest.mark.parametrize("name", [name for name in WHOLE if name not in AS_TEXT])
def test_results_that_are_json_become_what_they_say(name: str) -> None:
    found, _, refunded = the_recording(name).transcript.tool_calls or ()

    assert (found.result, refunded.result) == ({"status": "shipped", "eta": "Friday"}, {"refund_id": "RF-1"})


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_tools_are_errors(name: str) -> None:
    _, down, again = the_recording(name).transcript.tool_calls or ()

    assert (down.error, down.result, again.error) == ("the refund service is down", None, None)


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "openai-responses"])
def test_the_system_message_stands_before_the_conversation(name: str) -> None:
    assert the_recording(name).transcript.history == ({"role": "system", "content": "You are the shop's assistant."},)


@pytest.mark.parametrize(
    "name", [name for name in WHOLE if name == "openai-agents-trace" or not name.startswith("openai-")]
)
def test_tokens_are_summed_by_turn_cached_ones_included(name: str) -> None:
    first, second = the_recording(name).transcript.turns

    assert first.usage == Usage(input_tokens=40, output_tokens=10)
    assert second.usage == Usage(input_tokens=60, output_tokens=15)


@pytest.mark.parametrize("name", TIMED)
def test_times_are_read_where_there_are_any(name: str) -> None:
    recording = the_recording(name)
    first, second = recording.transcript.turns
    call = (first.tool_calls or ())[0]

    assert recording.timed
    assert recording.started_at is not None
    assert first.latency_ms > 0
    assert second.started_ms > first.started_ms + first.latency_ms - 1
    assert call.started_ms is not None
    assert 0 <= call.started_ms <= first.latency_ms
    assert call.duration_ms is not None


def test_a_recording_without_times_says_so() -> None:
    assert not the_recording("anthropic").timed


@pytest.mark.parametrize("name", BROKEN)
def test_broken_arguments_are_kept_as_they_came(name: str) -> None:
    call = (the_recording(name).transcript.tool_calls or ())[0]

    assert (call.name, call.arguments) == ("lookup_order", '{"order_id": "ORD-')


@pytest.mark.parametrize("name", [name for name in BROKEN if name != "otel-genai-broken"])
def test_parts_of_unknown_types_are_told_and_left_out(name: str) -> None:
    (note,) = [note for note in read_trace(FIXTURES / f"{name}.json").notes if "unknown type" in note]

    assert note.startswith("1 ")
    assert note.endswith("' was left out")


def leaves(value: Any) -> set[str]:
    """All keys and texts in a JSON value."""
    if isinstance(value, dict):
        return set(value) | {leaf for item in value.values() for leaf in leaves(item)}
    if isinstance(value, list):
        return {leaf for item in value for leaf in leaves(item)}
    return {value} if isinstance(value, str) else set()


@pytest.mark.parametrize("name", BROKEN)
def test_a_conversation_is_kept_as_it_stood_in_the_file_whatever_is_unknown_in_it(name: str, tmp_path: Path) -> None:
    document = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
    messages = next(document[key] for key in ("messages", "items", "resourceSpans") if key in document)
    span_or_message = messages[0]["scopeSpans"][0]["spans"][0] if "resourceSpans" in document else messages[0]
    span_or_message["x_mood"] = {"grumpy": ["very much"]}
    file = tmp_path / "recorded.json"
    file.write_text(json.dumps(document), "utf-8")

    (recording,) = read_trace(file).recordings
    kept = leaves(recording.transcript.recorded)
    of_messages = leaves(span_or_message) if "resourceSpans" in document else leaves(messages)

    assert {"x_mood", "grumpy", "very much"} <= kept
    assert of_messages <= kept


def documents_of(file: Path) -> list[Any]:
    text = file.read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else [json.loads(text)]


def test_every_fixture_says_which_library_made_it() -> None:
    for file in (*FIXTURES.glob("*.json"), *FIXTURES.glob("*.jsonl")):
        held = documents_of(file)[0]
        assert held["library"], file
        assert held["version"], file


@pytest.mark.parametrize("name", ["pydantic-ai", "openai-chat", "openai-responses", "langchain-dumpd"])
def test_a_bare_list_is_read_like_the_same_list_in_a_wrapper(name: str, tmp_path: Path) -> None:
    held = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
    wrapped = the_recording(name)

    (bare,) = read(tmp_path, held.get("messages") or held.get("items"))

    assert calls_of(bare) == calls_of(wrapped)
    assert bare.users == wrapped.users


def test_lines_of_conversations_are_one_recording_each(tmp_path: Path) -> None:
    lines = [
        {"id": "a", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]},
        {"messages": [{"role": "user", "content": "bye"}]},
    ]
    file = tmp_path / "chat.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    recordings = read_trace(file).recordings

    assert [(one.name, one.users) for one in recordings] == [("a", ("hi",)), ("chat-2", ("bye",))]


def test_lines_of_messages_are_one_conversation(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text('{"role": "user", "content": "hi"}\n\n{"role": "assistant", "content": "hello"}\n')

    (recording,) = read_trace(file).recordings

    assert (recording.name, recording.transcript.reply) == ("chat", "hello")


def test_a_request_with_its_response_is_one_conversation(tmp_path: Path) -> None:
    message = {"role": "assistant", "content": "hello"}
    logged = {
        "request": {"messages": [{"role": "user", "content": "hi"}]},
        "response": {"id": "c-1", "choices": [{"message": message}], "usage": {"prompt_tokens": 3}},
    }

    (recording,) = read(tmp_path, logged)

    assert (recording.name, recording.users, recording.transcript.reply) == ("c-1", ("hi",), "hello")
    assert recording.transcript.usage == Usage(input_tokens=3)


def test_tokens_that_only_some_answers_tell_are_not_known(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    tail = {"choices": [{"message": {"role": "assistant", "content": "x"}}], "usage": {"prompt_tokens": 3}}

    (recording,) = read(tmp_path, {"messages": messages, **tail})

    assert recording.transcript.usage is None


def test_what_is_said_before_a_call_is_not_the_reply(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": ""}}
    said = {"role": "assistant", "content": "One moment.", "tool_calls": [call]}
    file = tmp_path / "t.json"
    file.write_text(json.dumps([{"role": "user", "content": "hi"}, said]))

    trace = read_trace(file)

    assert trace.recordings[0].transcript.turns[0].reply is None
    assert trace.recordings[0].transcript.tool_calls == (ToolCall("f", {}, id="1"),)
    assert trace.notes == ("1 text of the agent before a tool call was left out",)


def test_a_greeting_stands_before_the_first_turn(tmp_path: Path) -> None:
    (recording,) = read(tmp_path, [{"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "hi"}])

    assert recording.transcript.history == ({"role": "assistant", "content": "Hello!"},)
    assert recording.users == ("hi",)


def test_a_call_before_the_user_spoke_is_not_lost(tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "delete_all", "arguments": "{}"}}
    (recording,) = read(tmp_path, [{"role": "assistant", "tool_calls": [call]}, {"role": "user", "content": "hi"}])

    assert [call.name for call in recording.transcript.tool_calls or ()] == ["delete_all"]


def test_a_result_belongs_to_the_last_call_of_its_id(tmp_path: Path) -> None:
    call = {"id": "call_0", "function": {"name": "f", "arguments": "{}"}}
    turn = [{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": [call]}]

    (recording,) = read(tmp_path, [*turn, *turn, {"role": "tool", "tool_call_id": "call_0", "content": "x"}])

    assert [call.result for call in recording.transcript.tool_calls or ()] == [None, "x"]


def test_the_same_id_in_two_turns_means_two_calls(tmp_path: Path) -> None:
    def turn(number: int) -> list[Any]:
        call = {"id": "call_0", "function": {"name": "f", "arguments": json.dumps({"n": number})}}
        answer = {"role": "tool", "tool_call_id": "call_0", "content": f"result {number}"}
        return [{"role": "user", "content": f"{number}"}, {"role": "assistant", "tool_calls": [call]}, answer]

    (recording,) = read(tmp_path, [*turn(1), *turn(2)])

    assert [call.result for call in recording.transcript.tool_calls or ()] == ["result 1", "result 2"]


def test_a_structured_output_of_pydantic_ai_is_the_reply(tmp_path: Path) -> None:
    call = {"part_kind": "tool-call", "tool_name": "final_result", "args": '{"city": "Oslo"}', "tool_call_id": "1"}
    processed = {"part_kind": "tool-return", "tool_name": "final_result", "content": "Final result processed."}
    messages = [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Where?"}]},
        {"kind": "response", "parts": [call]},
        {"kind": "request", "parts": [{**processed, "tool_call_id": "1"}]},
    ]

    (recording,) = read(tmp_path, messages)

    assert recording.transcript.reply == '{"city": "Oslo"}'
    assert recording.transcript.tool_calls == ()


def test_the_zeros_that_pydantic_ai_writes_for_tokens_nobody_told_are_not_known(tmp_path: Path) -> None:
    usage = {"input_tokens": 0, "output_tokens": 0}
    messages = [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Where?"}]},
        {"kind": "response", "parts": [{"part_kind": "text", "content": "Oslo"}], "usage": usage},
    ]

    (recording,) = read(tmp_path, messages)

    assert recording.transcript.usage is None


def test_an_mcp_item_carries_its_own_error(tmp_path: Path) -> None:
    item = {"type": "mcp_call", "id": "m", "name": "search", "arguments": "{}", "output": None, "error": "refused"}

    (recording,) = read(tmp_path, [{"role": "user", "content": "hi"}, item])

    assert (recording.transcript.tool_calls or ())[0].error == "refused"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "the file is empty"),
        ("hello", "neither JSON nor lines of JSON"),
        ('{"a": 1}\nnonsense', "t.json:2: the line is not JSON"),
        ('{"a": 1}', "has an unknown format. Name the format: --format"),
        ("[]", "has an unknown format"),
        ("[" * 100_000, "nested too deeply"),
        ('{"messages": [], "choices": []}', "has an unknown format"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_clearly(content: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    file.write_text(content)

    with pytest.raises(TraceError) as refused:
        read_trace(file)

    assert told in str(refused.value)
    assert str(refused.value).startswith(str(file))


def test_a_file_that_is_not_there_is_refused_clearly(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none.json")


def test_a_file_of_two_formats_asks_which(tmp_path: Path) -> None:
    chat = {"role": "tool", "tool_call_id": "1", "content": "x"}
    blocks = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}

    with pytest.raises(TraceError, match=r"several formats: openai-chat and anthropic\. Name the format: --format"):
        read(tmp_path, [chat, blocks])

    assert read(tmp_path, [blocks, chat], format="anthropic")[0].transcript.tool_calls


def test_an_unknown_format_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"unknown format 'xml'\. Known: openai-chat, "):
        read(tmp_path, [], format="xml")


def test_an_export_with_values_that_json_lacks_is_read(tmp_path: Path) -> None:
    turn = {"index": 0, "user": "hi", "reply": "ok", "tool_calls": [{"name": "f", "arguments": {"x": None}}]}
    trial = {
        "key": ["s", "n"],
        "index": 0,
        "status": "passed",
        "transcript": {"turns": [turn], "stop_reason": "script_ended"},
        "started_at": "2025-05-01T12:00:00Z",
    }
    place = ["transcript", "turns", 0, "tool_calls", 0, "arguments", "x"]
    lines = [
        {"format": "seatrial-runs", "version": 1},
        {"trial": {"$parts": {"numbers": [[place, "inf"]], "contents": []}, "value": trial}},
        {"trial": {"$marked": "of an older version"}},
    ]
    file = tmp_path / "run.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")

    trace = read_trace(file)

    [recording] = trace.recordings
    assert (recording.name, recording.users, calls_of(recording)) == ("n", ("hi",), [("f", {"x": float("inf")})])
    assert trace.notes == ("1 trial that this version cannot read was left out",)

"""Conversations out of spans: each thing once, in its turn, whoever noted it."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from seatrial import Scenario, run
from seatrial.traces.formats import read_trace
from seatrial.traces.transcript_builder import RecordedConversation

FIXTURES = Path(__file__).parent / "fixtures"


class Trace:
    """Spans one after the other, each of a millisecond."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self._ids = count(1)
        self._time = count(1_800_000_000_000)

    def add(self, parent: str | None = None, trace: str = "t1", **attributes: Any) -> str:
        """A span with these attributes, `__` for a dot; times may be given as start and end."""
        number = f"{next(self._ids):016x}"
        start = next(self._time)
        named = {key.replace("__", "."): value for key, value in attributes.items()}
        status = {"code": 2, "message": named.pop("failed")} if "failed" in named else {}
        events = named.pop("events", [])
        self.spans.append(
            {
                "traceId": trace,
                "spanId": number,
                "parentSpanId": parent or "",
                "startTimeUnixNano": str(start * 1_000_000),
                "endTimeUnixNano": str(start * 1_000_000 + 900_000),
                "attributes": [{"key": key, "value": wrap(value)} for key, value in named.items()],
                "status": status,
                "events": events,
            }
        )
        return number

    def ask(self, given: list[Any], said: list[Any], **more: Any) -> str:
        """A model was asked."""
        return self.add(
            gen_ai__operation__name="chat",
            gen_ai__input__messages=json.dumps(given),
            gen_ai__output__messages=json.dumps(said),
            **more,
        )

    def read(self, tmp_path: Path) -> tuple[RecordedConversation, ...]:
        file = tmp_path / "spans.json"
        file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": self.spans}]}]}))
        return read_trace(file).recordings


def wrap(value: Any) -> Any:
    if isinstance(value, list):
        return {"arrayValue": {"values": [wrap(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": wrap(item)} for key, item in value.items()]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def user(text: str) -> Any:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def reply(text: str) -> Any:
    return {"role": "assistant", "parts": [{"type": "text", "content": text}]}


def call(call_id: str, name: str = "f", **arguments: Any) -> Any:
    part = {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
    return {"role": "assistant", "parts": [part]}


def answer(call_id: str, key: str = "response", value: Any = "done") -> Any:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, key: value}]}


def names(recording: RecordedConversation) -> list[str]:
    return [call.name for call in recording.transcript.tool_calls or ()]


def test_a_call_that_agent_mcp_client_and_server_noted_counts_once() -> None:
    spans = json.loads((FIXTURES / "otel-mcp.json").read_text("utf-8"))["resourceSpans"]
    noted = json.dumps(spans).count('"tools/call"')

    (recording,) = read_trace(FIXTURES / "otel-mcp.json").recordings

    assert noted >= 1, "the SDK notes calls by itself"
    assert names(recording) == ["lookup_order"]
    assert recording.name == "conversation-3"


def test_an_mcp_span_alone_is_a_call(tmp_path: Path) -> None:
    trace = Trace()
    trace.ask([user("hi")], [reply("ok")])
    trace.add(mcp__method__name="tools/call", gen_ai__tool__name="search")

    assert names(trace.read(tmp_path)[0]) == ["search"]


def test_two_mcp_calls_side_by_side_are_two(tmp_path: Path) -> None:
    trace = Trace()
    root = trace.add(gen_ai__operation__name="invoke_agent", gen_ai__input__messages=json.dumps([user("hi")]))
    for request in ("1", "2"):
        trace.add(
            root,
            mcp__method__name="tools/call",
            gen_ai__tool__name="search",
            mcp__session__id="s",
            jsonrpc__request__id=request,
        )

    assert names(trace.read(tmp_path)[0]) == ["search", "search"]


@pytest.mark.parametrize("key", ["response", "result"])
def test_a_tool_result_is_read_under_both_of_its_names(key: str, tmp_path: Path) -> None:
    trace = Trace()
    trace.ask([user("hi")], [call("1")])
    trace.ask([user("hi"), call("1"), answer("1", key)], [reply("ok")])

    (recording,) = trace.read(tmp_path)

    assert (recording.transcript.tool_calls or ())[0].result == "done"
    assert recording.transcript.reply == "ok"


def test_messages_may_be_structured_instead_of_json(tmp_path: Path) -> None:
    trace = Trace()
    trace.add(
        gen_ai__operation__name="chat",
        gen_ai__input__messages=[user("hi")],
        gen_ai__output__messages=[reply("ok")],
    )

    (recording,) = trace.read(tmp_path)

    assert (recording.users, recording.transcript.reply) == (("hi",), "ok")


def test_traces_of_one_conversation_are_its_turns(tmp_path: Path) -> None:
    trace = Trace()
    trace.ask([user("one")], [reply("1")], trace="a", gen_ai__conversation__id="c")
    trace.ask([user("one"), reply("1"), user("two")], [reply("2")], trace="b", gen_ai__conversation__id="c")
    trace.ask([user("other")], [reply("3")], trace="d", session__id="s")

    recordings = trace.read(tmp_path)

    assert [(one.name, one.users) for one in recordings] == [("c", ("one", "two")), ("s", ("other",))]


def test_a_user_who_repeats_the_same_words_is_heard_twice(tmp_path: Path) -> None:
    trace = Trace()
    for name in ("a", "b"):
        trace.ask([user("yes")], [reply("ok")], trace=name, session__id="s")

    (recording,) = trace.read(tmp_path)

    assert recording.users == ("yes", "yes")


def test_a_loop_of_bare_model_calls_is_one_turn(tmp_path: Path) -> None:
    trace = Trace()
    trace.ask([user("hi")], [call("1")], trace="a", session__id="s")
    trace.ask([user("hi"), call("1"), answer("1")], [reply("ok")], trace="b", session__id="s")

    (recording,) = trace.read(tmp_path)

    assert (recording.users, names(recording)) == (("hi",), ["f"])


@pytest.mark.parametrize(("second", "cost"), [({}, None), ({"llm__cost__total": 2}, 3.0)])
def test_the_cost_of_a_turn_is_known_where_every_model_call_tells_it(
    tmp_path: Path, second: dict[str, int], cost: float | None
) -> None:
    trace = Trace()
    trace.ask([user("hi")], [call("1")], trace="a", session__id="s", llm__cost__total=1)
    trace.ask([user("hi"), call("1"), answer("1")], [reply("ok")], trace="b", session__id="s", **second)
    trace.read(tmp_path)

    asked = Scenario(name="x", input="hi", limits={"cost_usd": 3})
    report = run(asked, agent={"type": "replay", "path": str(tmp_path / "spans.json")}, store=None)

    (trial,) = report.trials()
    assert trial.transcript.cost_usd == cost
    assert report.passed is (cost is not None)


def test_an_agent_behind_a_tool_says_nothing_to_the_user_but_its_calls_count(tmp_path: Path) -> None:
    trace = Trace()
    root = trace.add(gen_ai__operation__name="invoke_agent")
    trace.ask([user("hi")], [call("1", "ask_expert")], parent=root)
    tool = trace.add(
        root, gen_ai__operation__name="execute_tool", gen_ai__tool__name="ask_expert", gen_ai__tool__call__id="1"
    )
    inner = trace.add(tool, gen_ai__operation__name="invoke_agent")
    trace.ask([user("the expert is asked")], [reply("the expert says")], parent=inner)
    trace.add(inner, gen_ai__operation__name="execute_tool", gen_ai__tool__name="delete_all")
    trace.ask([user("hi"), call("1", "ask_expert"), answer("1")], [reply("ok")], parent=root)

    (recording,) = trace.read(tmp_path)

    assert (recording.users, recording.transcript.reply) == (("hi",), "ok")
    assert names(recording) == ["ask_expert", "delete_all"]


def test_a_span_of_an_agent_alone_leaves_calls_unrecorded(tmp_path: Path) -> None:
    trace = Trace()
    trace.add(openinference__span__kind="AGENT", input__value="hi", output__value="ok")

    (recording,) = trace.read(tmp_path)

    assert (recording.users, recording.transcript.reply) == (("hi",), "ok")
    assert recording.transcript.tool_calls is None


def test_spans_of_tools_beside_an_agent_are_evidence(tmp_path: Path) -> None:
    trace = Trace()
    root = trace.add(openinference__span__kind="AGENT", input__value="hi", output__value="ok")
    trace.add(root, openinference__span__kind="TOOL", tool__name="f", tool__parameters='{"a": 1}', output__value="x")

    (recording,) = trace.read(tmp_path)

    (found,) = recording.transcript.tool_calls or ()
    assert (found.name, found.arguments, found.result) == ("f", {"a": 1}, "x")


def test_retired_events_are_read(tmp_path: Path) -> None:
    def event(name: str, **attributes: Any) -> Any:
        return {"name": name, "attributes": [{"key": key, "value": wrap(value)} for key, value in attributes.items()]}

    calls = json.dumps([{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}])
    trace = Trace()
    trace.add(
        gen_ai__operation__name="chat",
        gen_ai__system="openai",
        gen_ai__usage__prompt_tokens=7,
        gen_ai__usage__completion_tokens=2,
        events=[
            event("gen_ai.system.message", content="Be kind."),
            event("gen_ai.user.message", content="hi"),
            event("gen_ai.assistant.message", tool_calls=calls),
            event("gen_ai.tool.message", id="1", content="done"),
            event("gen_ai.choice", index=0, message=json.dumps({"role": "assistant", "content": "ok"})),
        ],
    )

    (recording,) = trace.read(tmp_path)

    (found,) = recording.transcript.tool_calls or ()
    assert recording.transcript.history == ({"role": "system", "content": "Be kind."},)
    assert (recording.users, recording.transcript.reply) == (("hi",), "ok")
    assert (found.arguments, found.result) == ({"a": 1}, "done")
    assert recording.transcript.usage is not None
    assert recording.transcript.usage.total_tokens == 9


def test_an_agent_that_failed_is_an_error_of_the_agent(tmp_path: Path) -> None:
    trace = Trace()
    root = trace.add(gen_ai__operation__name="invoke_agent", failed="the model is overloaded")
    trace.ask([user("hi")], [], parent=root)

    (recording,) = trace.read(tmp_path)

    error = recording.transcript.error
    assert error is not None
    assert (error.kind, error.message) == ("agent", "the model is overloaded")


def test_a_span_that_was_exported_twice_counts_once(tmp_path: Path) -> None:
    trace = Trace()
    trace.ask([user("hi")], [reply("ok")])
    trace.add(gen_ai__operation__name="execute_tool", gen_ai__tool__name="f")
    trace.spans += trace.spans

    assert names(trace.read(tmp_path)[0]) == ["f"]


def test_spans_that_are_each_others_parents_are_read_all_the_same(tmp_path: Path) -> None:
    trace = Trace()
    first = trace.ask([user("hi")], [reply("ok")], parent="0000000000000002")
    trace.add(first, gen_ai__operation__name="execute_tool", gen_ai__tool__name="f")

    assert len(trace.read(tmp_path)) == 1

"""Streamed chat completions, whole and broken."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from seatrial.agents.openai import OpenAIChatAgent
from seatrial.model.conversation import ToolCall, Usage
from seatrial.model.protocols import AgentReply, TrialStart
from seatrial.model.results import AgentFailure

DONE = "data: [DONE]\n\n"


def start() -> TrialStart:
    nothing: Any = None
    return TrialStart(
        trial_id="t",
        scenario="s",
        index=0,
        seed=0,
        tools=nothing,
        record=nothing,
        turn=lambda: 0,
        elapsed_ms=lambda: 0.0,
    )


def delta(finish: str | None = None, **fields: Any) -> str:
    return f"data: {json.dumps({'choices': [{'delta': fields, 'finish_reason': finish}]})}\n\n"


def call(
    index: int | None = 0, name: str | None = None, arguments: Any = None, id: str | None = None
) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    given = {"index": index, "id": id, "function": function}
    return {key: value for key, value in given.items() if value is not None}


def stream(*events: str, media: str = "text/event-stream", pieces: Sequence[bytes] | None = None) -> AgentReply:
    """What an agent makes of these events, sent as they are."""
    sent: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(x.split(b":")[1]) for x in head.splitlines() if x.lower().startswith(b"content-length"))
        sent.append(json.loads(await reader.readexactly(length)))
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {media}\r\nconnection: close\r\n\r\n".encode())
        for piece in pieces or ["".join(events).encode()]:
            writer.write(piece)
            await writer.drain()
        writer.close()

    async def asking() -> AgentReply:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            agent = OpenAIChatAgent(base_url=f"http://127.0.0.1:{port}", stream=True)
            try:
                return await agent.open(start()).respond([{"role": "user", "content": "hi"}], timeout=5)
            finally:
                await agent.close()

    got = asyncio.run(asking())
    assert sent[0]["stream"] is True
    assert sent[0]["stream_options"] == {"include_usage": True}
    return got


def failure(*events: str, **more: Any) -> str:
    with pytest.raises(AgentFailure) as caught:
        stream(*events, **more)
    return str(caught.value)


def test_pieces_become_one_reply():
    got = stream(delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"), delta("stop"), DONE)
    assert (got.reply, got.tool_calls) == ("Hello", ())
    assert got.messages == ({"role": "assistant", "content": "Hello"},)


def test_usage_comes_in_a_chunk_of_its_own():
    usage = 'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}\n\n'
    assert stream(delta("stop", content="x"), usage, DONE).usage == Usage(input_tokens=1, output_tokens=2)


def test_pieces_of_tool_calls_are_put_together_by_index():
    got = stream(
        delta(tool_calls=[call(0, "search", '{"q":', "a"), call(1, "book", "", "b")]),
        delta(tool_calls=[call(1, None, '{"n": 1}')]),
        delta(tool_calls=[call(0, None, ' "x"}')]),
        delta("tool_calls"),
        DONE,
    )
    assert got.requested == (ToolCall("search", {"q": "x"}, id="a"), ToolCall("book", {"n": 1}, id="b"))
    assert got.messages[0]["content"] is None


def test_calls_without_index_are_told_apart_by_their_start():
    got = stream(
        delta(tool_calls=[call(None, "search", "{}"), call(None, "book", '{"n"')]),
        delta("stop", tool_calls=[call(None, None, ": 1}")]),
        DONE,
    )
    assert [(made.name, made.arguments) for made in got.requested] == [("search", {}), ("book", {"n": 1})]


def test_calls_that_share_an_index_are_told_apart_by_their_id():
    got = stream(
        delta(tool_calls=[call(0, "search", "{}", "a")]), delta("stop", tool_calls=[call(0, "book", "{}", "b")])
    )
    assert [made.name for made in got.requested] == ["search", "book"]


@pytest.mark.parametrize("id", [None, ""])
@pytest.mark.parametrize("second", [("cancel", '{"a": 2}'), ("book", '{"a": 2}')])
def test_calls_that_share_an_index_and_have_no_id_are_told_apart_by_what_came_before(id: Any, second: tuple[str, str]):
    first, other = call(0, "book", '{"a":', id=id), call(0, *second, id=id)
    reply = stream(delta(tool_calls=[first]), delta(tool_calls=[call(0, None, " 1}")]), delta(tool_calls=[other]), DONE)
    assert [(c.name, c.arguments) for c in reply.requested] == [("book", {"a": 1}), (second[0], {"a": 2})]
    assert len({c.id for c in reply.requested}) == 2


@pytest.mark.parametrize("rest", ["", "\n"])
@pytest.mark.parametrize("id", [None, "a"])
def test_a_name_that_is_repeated_after_the_last_of_the_arguments_is_no_second_call(id: Any, rest: str):
    first, last = call(0, "book", '{"a": 1}', id=id), call(0, "book", rest, id=None)
    reply = stream(delta(tool_calls=[first]), delta(tool_calls=[last]), DONE)
    assert [(c.name, c.arguments) for c in reply.requested] == [("book", {"a": 1})]


def test_a_name_that_is_repeated_in_each_piece_counts_once():
    got = stream(delta(tool_calls=[call(0, "f", "{", "a")]), delta("stop", tool_calls=[call(0, "f", "}", "a")]), DONE)
    assert got.requested == (ToolCall("f", {}, id="a"),)


def test_arguments_may_be_an_object():
    assert stream(delta("stop", tool_calls=[call(0, "f", {"a": 1}, "x")])).requested[0].arguments == {"a": 1}


def test_broken_arguments_are_kept():
    assert stream(delta("length", tool_calls=[call(0, "f", '{"a', "x")])).requested[0].arguments == '{"a'


def test_a_refusal_is_the_reply():
    assert stream(delta(refusal="I "), delta("stop", refusal="cannot"), DONE).reply == "I cannot"


def test_content_in_parts_is_joined():
    assert stream(delta("stop", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])).reply == "ab"


def test_an_empty_reply_that_was_finished_is_an_empty_reply():
    assert stream(delta("stop"), DONE).reply == ""


@pytest.mark.parametrize("events", [[], [DONE], [": ping\n\n"], ["\n\n\n"]])
def test_an_empty_stream_is_a_failure(events: list[str]):
    assert failure(*events) == "endpoint returned an empty stream"


def test_a_stream_that_breaks_off_is_a_failure_not_a_shorter_reply():
    assert failure(delta(content="The answer is")) == "the stream broke off before its end, after: The answer is"


def test_calls_that_are_announced_but_never_come_are_a_failure():
    assert "asks for tools" in failure(delta(content="I will refund it."), delta("tool_calls"), DONE)


@pytest.mark.parametrize(
    "event",
    [
        'event: error\ndata: {"message": "overloaded"}\n\n',
        'data: {"error": "overloaded"}\n\n',
        'data: {"choices": [{"delta": {}, "error": {"message": "overloaded"}}]}\n\n',
        delta("error"),
    ],
)
def test_an_error_event_is_a_failure_whatever_was_said_before(event: str):
    assert "streamed an error: " in failure(delta(content="so far"), event, DONE)


@pytest.mark.parametrize("event", ["data: {broken\n\n", "data: 5\n\n", 'data: {"choices": [{"delta": 5}]}\n\n'])
def test_a_chunk_that_makes_no_sense_is_a_failure(event: str):
    assert failure(delta(content="so far"), event, DONE).startswith("endpoint streamed a ")


def test_events_may_come_without_space_with_any_line_end_and_without_a_last_blank_line():
    text = delta(content="a").replace("data: ", "data:") + delta("stop", content="b").replace("\n", "\r\n")
    assert stream(text, "event: message\rid: 1\rdata: [DONE]").reply == "ab"


def test_bytes_may_be_cut_anywhere():
    text = (delta(content="é\u2028") + delta("stop", content="ü")).replace("\n", "\r\n") + DONE
    raw = text.replace("\\u00e9", "é").replace("\\u2028", "\u2028").encode()
    assert stream(pieces=[raw[index : index + 1] for index in range(len(raw))]).reply == "é\u2028ü"


def test_an_endpoint_that_does_not_stream_is_understood():
    body = json.dumps({"choices": [{"message": {"content": "whole"}}]})
    assert stream(body, media="application/json").reply == "whole"


def test_a_page_instead_of_a_stream_is_a_failure():
    assert "text/html where JSON was due" in failure("<html>", media="text/html")

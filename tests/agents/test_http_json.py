"""Agents behind a JSON API of any shape, on a real server."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from seatrial.agents.http_json import HttpAgent
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, ToolCall, Usage
from seatrial.model.protocols import AgentReply, TrialStart
from seatrial.model.results import AgentFailure, TrialError

USER = {"role": "user", "content": "hello"}


def start(trial_id: str = "t-1") -> TrialStart:
    nothing: Any = None
    return TrialStart(
        trial_id=trial_id,
        scenario="s",
        index=0,
        seed=0,
        tools=nothing,
        record=nothing,
        turn=lambda: 0,
        elapsed_ms=lambda: 0.0,
    )


class Api(ThreadingHTTPServer):
    """Answers every request alike and keeps what it was sent."""

    daemon_threads = True

    def __init__(self, body: bytes, status: int, headers: dict[str, str], holds: bool) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.answer = (body, status, headers)
        self.released = threading.Event()
        if not holds:
            self.released.set()
        self.requests: list[dict[str, Any]] = []


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        api: Any = self.server
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        api.requests.append(
            {
                "method": self.command,
                "path": self.path,
                "headers": {name.lower(): value for name, value in self.headers.items()},
                "body": json.loads(sent) if sent else None,
            }
        )
        api.released.wait()
        body, status, headers = api.answer
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), "content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST

    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def api(
    answer: Any, status: int = 200, headers: dict[str, str] | None = None, holds: bool = False
) -> Iterator[tuple[str, Api]]:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    server = Api(body, status, headers or {}, holds)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server
    finally:
        server.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def respond(url: str, *conversations: list[Any], timeout: float = 5.0, path: str = "", **settings: Any) -> AgentReply:
    """The last reply of one trial that holds these conversations one after the other."""

    async def asking() -> AgentReply:
        agent = HttpAgent(url=url + path, **settings)
        try:
            session = agent.open(start())
            replies = [await session.respond(messages, timeout=timeout) for messages in conversations or [[USER]]]
            await session.close()
            return replies[-1]
        finally:
            await agent.close()

    return asyncio.run(asking())


def reply(answer: Any, **settings: Any) -> AgentReply:
    with api(answer) as (url, _):
        return respond(url, **settings)


def sent(*conversations: list[Any], **settings: Any) -> dict[str, Any]:
    """What the API receives last."""
    with api({"output": "ok"}) as (url, server):
        respond(url, *conversations, **settings)
        return server.requests[-1]


def test_the_reply_stands_at_output():
    assert reply({"output": "hi"}).reply == "hi"
    assert reply({"data": [{"text": "hi"}]}, output="data[0].text").reply == "hi"


def test_a_reply_that_is_no_text_is_shown_as_json():
    assert reply({"output": {"a": ["é"]}}).reply == '{"a": ["é"]}'


def test_placeholders_are_filled_as_json_values():
    body = {"q": "{{input}}", "log": "{{ messages }}", "meta": [{"session": "{{trial_id}}"}], "n": 1}
    assert sent(body=body)["body"] == {"q": "hello", "log": [USER], "meta": [{"session": "t-1"}], "n": 1}


def test_a_placeholder_within_a_text_is_filled_as_text():
    assert sent(body="say {{input}} in {{messages}}")["body"] == f"say hello in {json.dumps([USER])}"


def test_what_was_filled_in_is_not_filled_again():
    tricky = {"role": "user", "content": '{{trial_id}} "quoted" \\'}
    assert sent([tricky], body={"q": "{{input}}"})["body"] == {"q": '{{trial_id}} "quoted" \\'}
    assert sent([tricky], body={"q": "> {{input}}"})["body"] == {"q": '> {{trial_id}} "quoted" \\'}


def test_input_is_the_latest_text_of_the_user():
    conversation = [USER, {"role": "assistant", "content": "yes?"}, {"role": "user", "content": "bye"}]
    assert sent(conversation, body={"q": "{{input}}"})["body"] == {"q": "bye"}


def test_without_a_body_the_conversation_is_sent_under_its_own_names():
    assert sent()["body"] == {"input": "hello", "messages": [USER], "trial_id": "t-1"}


def test_placeholders_in_the_address_keep_to_their_place():
    hostile = {"role": "user", "content": "a/b?c=d&e#f é"}
    seen = sent([hostile], method="GET", path="/ask/{{trial_id}}?q={{input}}")
    assert (seen["method"], seen["body"]) == ("GET", None)
    assert seen["path"] == "/ask/t-1?q=a%2Fb%3Fc%3Dd%26e%23f%20%C3%A9"


def test_headers_are_sent():
    assert sent(headers={"X-Key": "k"})["headers"]["x-key"] == "k"


def test_without_a_path_tool_calls_are_not_recorded():
    assert reply({"output": "hi", "tool_calls": ["search"]}).tool_calls is None


def test_tool_calls_are_found_by_their_path():
    calls = [
        "ping",
        {"name": "search", "arguments": '{"q": 1}', "result": 5},
        {"function": {"name": "book", "arguments": {"n": 2}}, "id": "c"},
        {"name": "odd", "args": "not json"},
    ]
    assert reply({"output": "hi", "trace": {"calls": calls}}, tool_calls="trace.calls").tool_calls == (
        ToolCall("ping"),
        ToolCall("search", {"q": 1}, 5),
        ToolCall("book", {"n": 2}, id="c"),
        ToolCall("odd", "not json"),
    )


def test_tokens_and_cost_are_found_by_their_paths():
    answer = {"output": "ok", "meta": {"tokens": {"input_tokens": 7, "output_tokens": 3}, "dollars": 0.25}}

    got = reply(answer, usage="meta.tokens", cost_usd="meta.dollars")

    assert (got.usage, got.cost_usd) == (Usage(input_tokens=7, output_tokens=3), 0.25)


@pytest.mark.parametrize("dollars", [None, "0.25", -1, True])
def test_a_cost_that_is_no_amount_is_unknown_and_not_free(dollars: Any):
    assert reply({"output": "ok", "dollars": dollars}, cost_usd="dollars").cost_usd is None


def test_an_empty_list_of_tool_calls_is_evidence_and_null_is_none():
    assert reply({"output": "hi", "calls": []}, tool_calls="calls").tool_calls == ()
    assert reply({"output": "hi"}, tool_calls="calls").tool_calls is None
    assert reply({"output": "hi"}, tool_calls="calls || `[]`").tool_calls == ()


@pytest.mark.parametrize("path", ["steps[].tol", "steps[*].tol", "steps[?kind=='call'].tol", "steps[].tol.name"])
def test_a_misspelt_field_of_tool_calls_is_no_evidence_that_none_was_made(path: str):
    with pytest.raises(TrialError, match=r"none of its items has 'tol'") as caught:
        reply({"output": "hi", "steps": [{"tool": "cancel", "kind": "call"}]}, tool_calls=path)
    assert caught.value.info.kind is ErrorKind.CONFIG
    assert caught.value.info.hint == "did you mean 'tool'?"


@pytest.mark.parametrize(
    "steps", [[], [{"thought": "nothing to do"}], [{"tool": None}], [{"tools": []}], ["thinking"]], ids=repr
)
def test_a_list_in_which_no_item_is_a_call_is_evidence_that_none_was_made(steps: list[Any]):
    assert reply({"output": "hi", "steps": steps}, tool_calls="steps[].tool").tool_calls == ()


@pytest.mark.parametrize("calls", ["search", 5, [5], [{"tool": "x"}]])
def test_tool_calls_that_make_no_sense_are_a_failure(calls: Any):
    with pytest.raises(AgentFailure, match="tool call"):
        reply({"output": "hi", "calls": calls}, tool_calls="calls")


@pytest.mark.parametrize("answer", [{"answer": "hi"}, {"output": None}, [], "hi", None])
def test_nothing_at_output_is_a_failure_that_shows_what_came(answer: Any):
    with pytest.raises(AgentFailure, match="endpoint returned nothing at output 'output'") as caught:
        reply(answer)
    assert json.dumps(answer) in str(caught.value)


def test_a_path_that_does_not_fit_is_a_failure():
    with pytest.raises(AgentFailure, match="does not fit"):
        reply({"output": 5}, output="join('', output)")


@pytest.mark.parametrize(
    ("answer", "status", "part"),
    [
        (b"<html>", 200, "endpoint returned a body that is not JSON: <html>"),
        (b"", 200, "endpoint returned a body that is not JSON: (empty body)"),
        ({"detail": "boom"}, 500, 'endpoint returned 500: {"detail": "boom"}'),
        (b"", 302, "endpoint returned 302, a redirect"),
        (b"x" * 10_000_001, 200, "a body of more than 10 MB"),
    ],
)
def test_what_is_no_answer_is_a_failure(answer: Any, status: int, part: str):
    with api(answer, status) as (url, _), pytest.raises(AgentFailure) as caught:
        respond(url)
    assert part in str(caught.value)


def test_retry_after_is_passed_on():
    with api(b"", 429, {"retry-after": "3"}) as (url, _), pytest.raises(AgentFailure) as caught:
        respond(url)
    assert (caught.value.retry_after, caught.value.final) == (3.0, False)


def test_an_api_that_hangs_is_timed_out():
    with api({"output": "late"}, holds=True) as (url, _), pytest.raises(TrialError) as caught:
        respond(url, timeout=0.1)
    assert caught.value.info.kind is ErrorKind.LIMIT


def test_cookies_last_for_a_trial_and_no_longer():
    async def asking(url: str) -> None:
        agent = HttpAgent(url=url)
        first, second = agent.open(start("a")), agent.open(start("b"))
        for session in (first, first, second):
            await session.respond([USER], timeout=5)
        await agent.close()

    with api({"output": "hi"}, headers={"set-cookie": "sid=42; Path=/"}) as (url, server):
        asyncio.run(asking(url))
    assert [request["headers"].get("cookie") for request in server.requests] == [None, "sid=42", None]


@pytest.mark.parametrize(
    ("body", "keeps"),
    [
        (None, True),
        ({"q": "{{input}}"}, False),
        ({"q": "{{input}}", "s": "{{trial_id}}"}, True),
        ("{{messages}}", True),
    ],
)
def test_a_conversation_is_kept_where_the_api_can_know_it(body: Any, keeps: bool):
    assert HttpAgent(url="http://x", body=body).keeps_conversation is keeps


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"url": "x"}, "url: expected an address"),
        ({"method": "FETCH"}, "method: expected one of GET, POST, PUT, PATCH, got 'FETCH'"),
        ({"body": {"q": "{{inputs}}"}}, "body: unknown placeholder {{inputs}}. Did you mean {{input}}?"),
        (
            {"body": {"q": "{{}}"}},
            "body: unknown placeholder {{}}. Known: {{input}}, {{messages}}, {{trial_id}}, {{mcp_url}}.",
        ),
        ({"body": {"q": "fixed"}}, "nothing of the conversation is sent"),
        ({"body": {"q": "{{input}}", "n": float("inf")}}, "body: cannot be sent as JSON"),
        ({"output": "a["}, "output: 'a[' is no JMESPath"),
        ({"output": ""}, "output: expected a JMESPath"),
        ({"tool_calls": "a b"}, "tool_calls: 'a b' is no JMESPath"),
        ({"headers": {"a": "\x00"}}, "headers.a: the value has"),
    ],
)
def test_a_mistake_in_the_settings_is_refused_at_once(settings: Any, part: str):
    with pytest.raises(UsageError) as caught:
        HttpAgent(**{"url": "http://x", "name": "shop", **settings})
    assert str(caught.value).startswith("agent 'shop'")
    assert part in str(caught.value)


def ask_twice(answers: list[Any], **settings: Any) -> tuple[list[AgentReply], list[dict[str, Any]]]:
    """The replies to two turns of one trial, with the answers of the API in order, and the requests."""
    with api(answers[0]) as (url, server):

        async def asking() -> list[AgentReply]:
            agent = HttpAgent(url=url + settings.pop("path", ""), **settings)
            session = agent.open(start())
            replies = []
            for answer in answers:
                server.answer = (json.dumps(answer).encode(), 200, {})
                replies.append(await session.respond([USER], timeout=5))
            await agent.close()
            return replies

        return asyncio.run(asking()), server.requests


def test_an_id_that_the_server_makes_goes_with_the_next_requests():
    answers = [{"output": "hi", "conversation_id": "c-7"}, {"output": "again"}, {"output": "bye"}]
    body = {"text": "{{input}}", "conversation": "{{cid}}"}
    replies, requests = ask_twice(answers, body=body, remember={"cid": "conversation_id"})

    assert [each.reply for each in replies] == ["hi", "again", "bye"]
    assert [each["body"]["conversation"] for each in requests] == [None, "c-7", "c-7"]


def test_an_agent_that_remembers_an_id_keeps_the_conversation():
    agent = HttpAgent(url="http://x", body={"text": "{{input}}", "id": "{{cid}}"}, remember={"cid": "id"})
    assert agent.keeps_conversation
    assert not HttpAgent(url="http://x", body={"text": "{{input}}"}).keeps_conversation


def test_trials_remember_their_own_ids():
    with api({"output": "hi", "id": "c-7"}) as (url, server):

        async def asking() -> None:
            agent = HttpAgent(url=url, body={"text": "{{input}}", "id": "{{cid}}"}, remember={"cid": "id"})
            for _ in range(2):
                await agent.open(start()).respond([USER], timeout=5)
            await agent.close()

        asyncio.run(asking())
    assert [each["body"]["id"] for each in server.requests] == [None, None]


STREAMED = {"content-type": "text/event-stream"}


def ask_stream(stream: str, **settings: Any) -> AgentReply:
    with api(stream.encode(), headers=STREAMED) as (url, _):

        async def asking() -> AgentReply:
            agent = HttpAgent(url=url, stream="sse", **settings)
            try:
                return await agent.open(start()).respond([USER], timeout=5)
            finally:
                await agent.close()

        return asyncio.run(asking())


def test_the_pieces_of_a_stream_are_joined():
    events = [
        {"delta": "It is "},
        {"tool": {"name": "lookup_order", "arguments": {"id": 1}}},
        {"delta": "shipped."},
        {"tool": {"name": "close_ticket"}},
        {"usage": {"promptTokens": 7, "completionTokens": 2}},
    ]
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    got = ask_stream(stream, output="delta", tool_calls="tool && [tool]", usage="usage")

    assert got.reply == "It is shipped."
    assert [call.name for call in got.tool_calls or ()] == ["lookup_order", "close_ticket"]
    assert got.usage == Usage(input_tokens=7, output_tokens=2)


def test_a_stream_of_plain_texts_is_read_with_the_path_of_everything():
    assert ask_stream("data: It is\n\ndata:  shipped.\n\n", output="@").reply == "It is shipped."


@pytest.mark.parametrize(
    ("stream", "message"),
    [("", "nothing at output 'delta'"), ("event: error\ndata: overloaded\n\n", "streamed an error: overloaded")],
)
def test_a_stream_without_a_reply_is_a_failure(stream: str, message: str):
    with pytest.raises(AgentFailure, match=message):
        ask_stream(stream, output="delta")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"remember": {"cid": "id"}}, "'cid' is not used"),
        ({"remember": {"input": "id"}}, "'input' cannot be the name of a placeholder"),
        ({"remember": "cid"}, "expected a mapping"),
        ({"remember": {"cid": "a["}, "body": "{{input}} {{cid}}"}, "is no JMESPath"),
        ({"body": "{{input}} {{cid}}", "remember": {"cids": "x"}}, "Did you mean {{cids}}?"),
        ({"stream": "websocket"}, "expected sse, got 'websocket'"),
    ],
)
def test_wrong_settings_of_memory_and_streams_are_refused(settings: Any, message: str):
    with pytest.raises(UsageError) as caught:
        HttpAgent(url="http://x", **settings)
    assert message in str(caught.value)

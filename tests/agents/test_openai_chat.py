"""Chat-completions endpoints, well-behaved and not, on a real socket."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from seatrial.agents.openai import OpenAIChatAgent
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind, ToolCall, Usage
from seatrial.model.protocols import AgentReply, TrialStart
from seatrial.model.results import AgentFailure, TrialError

USER = {"role": "user", "content": "hello"}
HANG = object()


def start(**more: Any) -> TrialStart:
    nothing: Any = None
    return TrialStart(
        trial_id="t-1",
        scenario="s",
        index=0,
        seed=0,
        tools=nothing,
        record=nothing,
        turn=lambda: 0,
        elapsed_ms=lambda: 0.0,
        **more,
    )


def http(body: Any, status: int = 200, media: str = "application/json", **headers: str) -> bytes:
    content = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-type: {media}", f"content-length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


def completion(usage: Any = None, **message: Any) -> bytes:
    return http({"choices": [{"message": {"role": "assistant", **message}}], "usage": usage})


def sse(*chunks: Any, done: bool = True) -> bytes:
    events = [chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return http("".join([*events, "data: [DONE]\n\n" if done else ""]), media="text/event-stream")


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": finish}]}


class Served:
    """What a server was sent, and over how many connections."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.connections = 0


@asynccontextmanager
async def endpoint(answers: Sequence[Any]) -> AsyncIterator[Served]:
    """A server that gives these raw responses, one per request."""
    served = Served()
    left = list(answers)
    tasks: set[Any] = set()
    hanging = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        tasks.add(asyncio.current_task())
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(int(x.split(":")[1]) for x in head.splitlines() if x.lower().startswith("content-length"))
                served.requests.append((head, json.loads(await reader.readexactly(length))))
                for part in left.pop(0) if isinstance(left[0], list) else [left.pop(0)]:
                    if part is HANG:
                        await hanging.wait()
                        return
                    writer.write(part)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, IndexError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        served.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        yield served
    finally:
        server.close()
        hanging.set()
        await asyncio.gather(*tasks)


def ask(
    *answers: Any, messages: Sequence[Any] = (USER,), timeout: float = 5.0, schemas: Any = (), **settings: Any
) -> tuple[AgentReply, Served]:
    """Ask an endpoint once for each of the answers it will give; the last reply, and what the endpoint saw."""

    async def asking() -> tuple[AgentReply, Served]:
        async with endpoint(answers) as served:
            agent = OpenAIChatAgent(**{"base_url": served.url, "model": "m", **settings})
            try:
                session = agent.open(start(tool_schemas=schemas))
                replies = [await session.respond(messages, timeout=timeout) for _ in answers]
                await session.close()
            finally:
                await agent.close()
        return replies[-1], served

    return asyncio.run(asking())


def reply(*answers: Any, **settings: Any) -> AgentReply:
    return ask(*answers, **settings)[0]


def failure(*answers: Any, **settings: Any) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        ask(*answers, **settings)
    return caught.value


def call(name: Any = "search", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


def test_a_reply_is_its_content_and_the_evidence_that_no_tool_was_called():
    got = reply(completion(content="hi"))
    assert (got.reply, got.tool_calls, got.requested) == ("hi", (), ())
    assert got.messages == ({"role": "assistant", "content": "hi"},)


def test_the_request_has_model_messages_and_body():
    [(head, sent)] = ask(completion(content="hi"), body={"temperature": 0})[1].requests
    assert head.startswith("POST /v1/chat/completions ")
    assert sent == {"model": "m", "messages": [USER], "temperature": 0}


@pytest.mark.parametrize(
    ("settings", "line"),
    [({"headers": {"X-Key": "secret"}}, "X-Key: secret"), ({"api_key": "sk-1"}, "authorization: Bearer sk-1")],
)
def test_headers_and_key_are_sent(settings: Any, line: str):
    [(head, _)] = ask(completion(content="hi"), **settings)[1].requests
    assert line in head.splitlines()


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/deploy?api-version=1", "/deploy/chat/completions?api-version=1"),
    ],
)
def test_the_address_of_completions_follows_from_the_base(base: str, path: str):
    async def asking() -> str:
        async with endpoint([completion(content="hi")]) as served:
            agent = OpenAIChatAgent(base_url=served.url.removesuffix("/v1") + base)
            await agent.open(start()).respond([USER], timeout=5)
            await agent.close()
            return served.requests[0][0]

    assert asyncio.run(asking()).startswith(f"POST {path} ")


def test_tools_are_sent_plain_or_wrapped_and_the_scenarios_own_win():
    plain = {"name": "a", "description": "A", "output_schema": {"type": "string"}}
    wrapped = {"type": "function", "function": {"name": "b", "parameters": {"type": "object"}}}
    replaced = {"name": "b", "parameters": {"type": "object", "required": ["x"]}}
    [(_, sent)] = ask(completion(content="hi"), tools=[plain, wrapped], schemas=[replaced])[1].requests
    nothing = {"type": "object", "properties": {}}
    assert sent["tools"] == [
        {"type": "function", "function": {"name": "a", "description": "A", "parameters": nothing}},
        {"type": "function", "function": replaced},
    ]


def test_usage_and_cost_are_kept():
    got = reply(completion(content="hi", usage={"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.5}))
    assert (got.usage, got.cost_usd) == (Usage(input_tokens=3, output_tokens=4), 0.5)


@pytest.mark.parametrize(
    "usage", [None, "many", {"prompt_tokens": "3"}, {"prompt_tokens": -1, "completion_tokens": True}]
)
def test_usage_that_is_none_is_unknown_not_zero(usage: Any):
    assert reply(completion(content="hi", usage=usage)).usage is None


def test_tool_calls_are_requested_and_the_message_can_be_sent_back():
    got = reply(completion(content=None, tool_calls=[call(arguments='{"q": 1}', id="c1")]))
    assert got.requested == (ToolCall("search", {"q": 1}, id="c1"),)
    assert got.reply is None
    assert got.messages == (
        {"role": "assistant", "content": None, "tool_calls": [call(arguments='{"q": 1}', id="c1")]},
    )


def test_content_may_be_absent_beside_tool_calls():
    assert reply(completion(tool_calls=[call(id="c1")])).messages[0]["content"] is None


def test_arguments_may_be_an_object():
    assert reply(completion(tool_calls=[call(arguments={"q": 1}, id="c")])).requested[0].arguments == {"q": 1}


@pytest.mark.parametrize("arguments", ["", None, "{}", {}])
def test_no_arguments_are_an_empty_object(arguments: Any):
    assert reply(completion(tool_calls=[call(arguments=arguments, id="c")])).requested[0].arguments == {}


@pytest.mark.parametrize("arguments", ['{"q": ', "[1]", "null", "words", "[" * 100_000])
def test_broken_arguments_are_kept_as_they_came(arguments: str):
    assert reply(completion(tool_calls=[call(arguments=arguments, id="c")])).requested[0].arguments == arguments


def test_missing_and_repeated_ids_are_made_and_stable():
    calls = [call(), call(id=""), call(id="same"), call(id="same"), call(id=7)]
    first, second = (reply(completion(tool_calls=calls)) for _ in range(2))
    ids = [made.id for made in first.requested]
    assert ids == ["call_1_0", "call_1_1", "same", "call_1_3", "7"]
    assert first.requested == second.requested
    assert [made["id"] for made in first.messages[0]["tool_calls"]] == ids


def test_five_thousand_calls_in_one_message_are_all_kept():
    got = reply(completion(tool_calls=[call(arguments=f'{{"n": {n}}}') for n in range(5_000)]))
    assert [made.arguments["n"] for made in got.requested] == list(range(5_000))
    assert len({made.id for made in got.requested}) == 5_000


@pytest.mark.parametrize("calls", [[call(name=None)], [call(name=" ")], ["search"], [{}]])
def test_a_call_without_a_name_is_a_failure(calls: Any):
    assert "a tool call without a name" in str(failure(completion(content="hi", tool_calls=calls)))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "one "}, {"type": "text", "text": "two"}], "one two"),
        ([{"type": "thinking", "text": "hm"}, {"type": "text", "text": "yes"}], "yes"),
        ([{"type": "refusal", "refusal": "no"}], "no"),
        (["plain"], "plain"),
        ([], ""),
        ("", ""),
        (None, None),
    ],
)
def test_content_may_come_in_parts(content: Any, text: str | None):
    assert reply(completion(content=content)).reply == text


def test_a_refusal_is_the_reply():
    assert reply(completion(content=None, refusal="I cannot.")).reply == "I cannot."


@pytest.mark.parametrize(
    "body", [{}, {"choices": []}, {"choices": [{}]}, {"choices": "no"}, {"choices": [{"message": 5}]}]
)
def test_a_body_without_a_message_is_a_failure(body: Any):
    assert "without choices[0].message" in str(failure(http(body)))


@pytest.mark.parametrize("told", [{"error": {"code": 502, "message": "upstream died"}}, {"finish_reason": "error"}])
def test_an_error_in_the_middle_of_the_answer_is_a_failure_whatever_was_said_before(told: Any):
    choice = {"message": {"role": "assistant", "content": "Your refund is"}, **told}
    assert "endpoint returned an error: " in str(failure(http({"choices": [choice]})))


def test_calls_that_are_announced_but_not_there_are_a_failure():
    said = {"role": "assistant", "content": "I will refund it."}
    called = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "refund", "arguments": "{}"}}]}
    choices = [{"index": i, "finish_reason": "tool_calls", "message": m} for i, m in enumerate((said, called))]
    assert "asks for tools (finish_reason 'tool_calls'), but names none" in str(failure(http({"choices": choices})))


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (http("<html><h1>Sign in</h1>", media="text/html; charset=utf-8"), "text/html where JSON was due: <html>"),
        (http('{"choices": ['), "endpoint returned a body that is not JSON"),
        (http("[]"), "JSON that is no object: []"),
        (http(""), "endpoint returned 200: (empty body)"),
        (http("", status=204), "endpoint returned 204: (empty body)"),
        (http({"error": {"message": "overloaded"}}), 'an error: {"error": {"message": "overloaded"}}'),
        (completion(content="hi", tool_calls="search"), "tool_calls that are no list"),
        (completion(content=5), "content is no text: 5"),
        (completion(content=None, function_call={"name": "f"}), "function_call"),
        (completion(content="Done.", toolcalls=[{"name": "f"}]), "'toolcalls', where no tool calls are read"),
        (completion(content=[{"type": "tool_use", "name": "f"}]), "'tool_use', where no tool calls are read"),
    ],
)
def test_nonsense_with_a_good_status_is_a_failure(answer: bytes, part: str):
    assert part in str(failure(answer))


def test_a_server_error_shows_its_status_and_the_start_of_its_body():
    caught = failure(http({"error": "x" * 5_000}, status=500))
    assert str(caught).startswith('endpoint returned 500: {"error": "xxx')
    assert len(str(caught)) < 560
    assert (caught.final, caught.retry_after, caught.info.kind) == (False, None, ErrorKind.AGENT)


@pytest.mark.parametrize(
    ("status", "final"), [(400, True), (401, True), (404, True), (408, False), (429, False), (503, False)]
)
def test_only_what_may_change_is_worth_asking_again(status: int, final: bool):
    assert failure(http("no", status=status)).final is final


@pytest.mark.parametrize(("status", "value", "seconds"), [(429, "7", 7.0), (503, "1.5", 1.5), (429, "soon", None)])
def test_retry_after_is_passed_on(status: int, value: str, seconds: float | None):
    assert failure(http("slow down", status=status, retry_after=value)).retry_after == seconds


def test_retry_after_may_be_a_date():
    assert failure(http("", status=429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")).retry_after == 0.0
    assert (failure(http("", status=429, retry_after="Wed, 21 Oct 2099 07:28:00 GMT")).retry_after or 0) > 1e6


def test_a_redirect_is_not_followed():
    caught = failure(http("", status=307, location="http://127.0.0.1:1/elsewhere"), completion(content="hi"))
    assert "307, a redirect to http://127.0.0.1:1/elsewhere" in str(caught)
    assert caught.final


def test_a_refused_connection_is_a_failure_that_names_the_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    caught = failure(b"", base_url=f"http://user:secret@127.0.0.1:{port}/v1?key=secret")
    assert str(caught) == f"cannot connect to http://127.0.0.1:{port}/v1/chat/completions: Connection refused"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nshort", b"SSH-2.0-OpenSSH\r\n"])
def test_a_connection_that_breaks_is_a_failure(answer: bytes):
    async def asking() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            agent = OpenAIChatAgent(base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            try:
                await agent.open(start()).respond([USER], timeout=5)
            finally:
                await agent.close()

    with pytest.raises(AgentFailure, match=r"the connection to http://.* broke"):
        asyncio.run(asking())


@pytest.mark.parametrize("media", ["application/json", "text/event-stream"])
def test_a_body_of_50_mb_is_a_failure_and_not_read(media: str):
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: 50000000\r\n\r\n".encode()
    caught = failure([head, *[b"x" * 1_000_000] * 12, HANG])
    assert "a body of more than 10 MB" in str(caught)
    assert caught.final


def test_an_endless_error_page_is_cut():
    head = b"HTTP/1.1 500 X\r\ncontent-length: 50000000\r\n\r\n"
    assert str(failure([head, b"y" * 100_000, HANG])).startswith("endpoint returned 500: yyy")


@pytest.mark.parametrize(
    "parts",
    [
        [HANG],
        [b"HTTP/1.1 200 OK\r\n", HANG],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{", HANG],
        [b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {"choices": []}\n\n', HANG],
        [b"HTTP/1.1 500 X\r\ncontent-length: 90\r\n\r\n{", HANG],
    ],
)
def test_an_endpoint_that_stalls_is_timed_out(parts: Any):
    with pytest.raises(TrialError, match=r"did not answer within 0.1 s") as caught:
        ask(parts, timeout=0.1)
    assert caught.value.info.kind is ErrorKind.LIMIT


def test_the_agent_can_be_used_again_after_a_timeout():
    async def asking() -> str | None:
        async with endpoint([completion(content="first"), [HANG], completion(content="back")]) as served:
            agent = OpenAIChatAgent(base_url=served.url)
            session = agent.open(start())
            await session.respond([USER], timeout=5)  # what is slow only once, such as imports, is done
            with pytest.raises(TrialError):
                await session.respond([USER], timeout=0.5)
            got = await session.respond([USER], timeout=5)
            await agent.close()
            return got.reply

    assert asyncio.run(asking()) == "back"


def test_errors_never_show_the_headers():
    for answer in (http("no", status=401), http("<html>", media="text/html"), b"nonsense\r\n\r\n"):
        caught = failure(answer, headers={"Authorization": "Bearer hush"})
        assert "hush" not in f"{caught} {caught.info}"


def test_the_agents_own_text_shows_no_secret():
    assert "hush" not in repr(OpenAIChatAgent(base_url="http://x", headers={"a": "hush"}))
    assert "hush" not in repr(OpenAIChatAgent(base_url="http://x", api_key="hush"))


def test_cookies_are_not_carried_from_trial_to_trial():
    _, served = ask(*[http({"choices": [{"message": {"content": "x"}}]}, set_cookie="sid=1")] * 2)
    assert ["cookie" in head.lower() for head, _ in served.requests] == [False, False]


def test_surrogates_and_other_strange_text_can_be_sent():
    strange = {"role": "user", "content": "\ud800 \x00 \u2028 é"}
    [(_, sent)] = ask(completion(content="hi"), messages=[strange])[1].requests
    assert sent["messages"] == [strange]


def test_hundreds_of_conversations_may_be_in_flight_at_once():
    async def asking() -> set[str | None]:
        async with endpoint([completion(content=str(n)) for n in range(300)]) as served:
            agent = OpenAIChatAgent(base_url=served.url)
            sessions = [agent.open(start()) for _ in range(300)]
            got = await asyncio.gather(*(session.respond([USER], timeout=30) for session in sessions))
            await agent.close()
            return {one.reply for one in got}

    assert asyncio.run(asking()) == {str(n) for n in range(300)}


def test_a_connection_is_used_again():
    _, served = ask(*[completion(content="hi")] * 3, sse(delta("stop", content="hi")), completion(content="hi"))
    assert (len(served.requests), served.connections) == (5, 1)


def test_an_agent_may_serve_a_second_event_loop():
    def serve_once(agent: OpenAIChatAgent | None) -> OpenAIChatAgent:
        async def asking() -> OpenAIChatAgent:
            async with endpoint([completion(content="hi")]) as served:
                made = agent or OpenAIChatAgent(base_url=served.url)
                made._url = f"{served.url}/chat/completions"
                await made.open(start()).respond([USER], timeout=5)
                await made.close()
                return made

        return asyncio.run(asking())

    serve_once(serve_once(None))


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"base_url": "localhost:8000"}, "base_url: expected an address such as http"),
        ({"base_url": "http://x:99999"}, "base_url: expected an address"),
        ({"base_url": 5}, "base_url: expected an address"),
        ({"model": ""}, "model: expected the name of a model"),
        ({"stream": "yes"}, "stream: expected true or false, got 'yes'"),
        ({"body": [1]}, "body: expected a mapping"),
        ({"body": {"messages": []}}, "body.messages: cannot be set here; use history or system"),
        ({"body": {"seed": float("nan")}}, "body: cannot be sent as JSON"),
        ({"headers": {"a b": "x"}}, "'a b' cannot be the name of a header"),
        ({"headers": {"a": "x\ny"}}, "headers.a: the value has"),
        ({"headers": {"a": 5}}, "headers.a: expected a text"),
        ({"api_key": "k", "headers": {"authorization": "x"}}, "api_key and headers.Authorization are both given"),
        ({"tools": [{"description": "x"}]}, "tools[0]: expected the name of the tool"),
        ({"tools": {"name": "x"}}, "tools: expected a list"),
    ],
)
def test_a_mistake_in_the_settings_is_refused_at_once(settings: Any, part: str):
    with pytest.raises(UsageError) as caught:
        OpenAIChatAgent(**{"base_url": "http://x", "name": "shop", **settings})
    assert str(caught.value).startswith("agent 'shop'")
    assert part in str(caught.value)

"""Endpoints of Anthropic's Messages API, OpenAI's Responses API and Bedrock's Converse API, over loopback HTTP."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

import seatrial
from seatrial import EndState, Scenario, Turn, World
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Trial

from .model_apis import Answer, Api, answer_converse, answer_messages, answer_responses, serve

FORMS: Mapping[str, tuple[Answer, dict[str, Any]]] = {
    "messages": (answer_messages, {"type": "anthropic", "model": "claude"}),
    "messages, streamed": (answer_messages, {"type": "anthropic", "model": "claude", "stream": True}),
    "responses": (answer_responses, {"type": "openai", "api": "responses", "model": "gpt"}),
    "responses, streamed": (answer_responses, {"type": "openai", "api": "responses", "model": "gpt", "stream": True}),
    "converse": (answer_converse, {"type": "bedrock", "model": "amazon.nova-lite-v1:0"}),
}
MOCKS = {
    "lookup_order": {
        "when": [{"args": {"order_id": "B-2"}, "returns": "parcel P-2"}],
        "returns": {"parcel": "P-1"},
    },
    "track_parcel": {"returns": "in Hamburg"},
    "refund_order": {"raises": "paid in cash"},
}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> tuple[Answer, dict[str, Any]]:
    return FORMS[request.param]


@contextmanager
def served(answer: Answer, settings: Mapping[str, Any]) -> Iterator[tuple[Api, dict[str, Any]]]:
    with serve(answer) as api:
        yield api, {**settings, "base_url": api.url}


def play(agent: Any, **scenario: Any) -> Trial:
    report = seatrial.run(Scenario(name="x", **{"mocks": MOCKS, **scenario}), agent=agent, store=None)
    (trial,) = report.trials()
    return trial


def test_the_tool_loop_ends_with_the_reply(form: tuple[Answer, dict[str, Any]]) -> None:
    with served(*form) as (_, agent):
        trial = play(agent, input="Where is order A-1?")

    assert trial.error is None
    assert "in Hamburg" in trial.transcript.reply
    calls = [(call.name, call.arguments, call.result) for call in trial.transcript.tool_calls]
    assert calls == [
        ("lookup_order", {"order_id": "A-1"}, {"parcel": "P-1"}),
        ("track_parcel", {"parcel_id": "P-1"}, "in Hamburg"),
    ]
    assert trial.transcript.calls_complete


def test_calls_at_once_are_answered_together(form: tuple[Answer, dict[str, Any]]) -> None:
    with served(*form) as (api, agent):
        trial = play(agent, input="Look up both orders.")

    assert trial.error is None
    assert [call.arguments["order_id"] for call in trial.transcript.tool_calls] == ["A-1", "B-2"]
    assert len(api.bodies) == 2
    assert "P-1" in trial.transcript.reply
    assert "P-2" in trial.transcript.reply


def test_tokens_of_all_requests_are_added(form: tuple[Answer, dict[str, Any]]) -> None:
    with served(*form) as (api, agent):
        trial = play(agent, input="Where is order A-1?")

    cached = 3 if agent["type"] == "anthropic" else 0
    assert len(api.bodies) == 3
    assert trial.transcript.usage.output_tokens == 15
    assert trial.transcript.usage.input_tokens == 30 + cached


def test_the_second_turn_and_the_history_are_told(form: tuple[Answer, dict[str, Any]]) -> None:
    old_call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "lookup_order", "arguments": '{"order_id": "Z-9"}'},
    }
    history = (
        {"role": "user", "content": "My name is Grace. Where is order Z-9?"},
        {"role": "assistant", "content": None, "tool_calls": [old_call]},
        {"role": "tool", "tool_call_id": "c1", "content": "lost"},
        {"role": "assistant", "content": "It is lost."},
    )
    turns = (Turn(user="Where is order A-1?"), Turn(user="What is my name?"))
    with served(*form) as (_, agent):
        trial = play(agent, turns=turns, history=history, system="Be kind.")

    assert trial.error is None
    assert trial.transcript.reply == "You are Grace."
    assert [len(turn.tool_calls) for turn in trial.transcript.turns] == [2, 0]


def test_a_mocks_error_reaches_the_agent(form: tuple[Answer, dict[str, Any]]) -> None:
    with served(*form) as (_, agent):
        trial = play(agent, input="Please refund order B-2.")

    assert trial.error is None
    assert trial.transcript.tool_calls[0].error == "paid in cash"
    assert "paid in cash" in trial.transcript.reply


def test_a_call_without_a_mock_is_errored(form: tuple[Answer, dict[str, Any]]) -> None:
    with served(*form) as (_, agent):
        trial = play(agent, input="Please teleport it.")

    assert trial.error.kind is ErrorKind.TOOL
    assert trial.error.message == "Tool 'teleport_parcel' was called but no mock is defined"


def test_the_scenarios_tools_and_system_are_sent(form: tuple[Answer, dict[str, Any]]) -> None:
    tool = {"name": "lookup_order", "description": "Find it.", "parameters": {"type": "object", "properties": {}}}
    with served(*form) as (api, agent):
        play(agent, input="Good morning!", system="Be kind.", tools=[tool])

    sent = api.bodies[0]
    named = {
        "anthropic": lambda: (sent["system"], sent["tools"][0]["name"], sent["tools"][0]["input_schema"]["type"]),
        "openai": lambda: (
            sent["input"][0]["content"],
            sent["tools"][0]["name"],
            sent["tools"][0]["parameters"]["type"],
        ),
        "bedrock": lambda: (
            sent["system"][0]["text"],
            sent["toolConfig"]["tools"][0]["toolSpec"]["name"],
            sent["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"]["type"],
        ),
    }[agent["type"]]()
    assert named == ("Be kind.", "lookup_order", "object")


@pytest.mark.parametrize(
    ("kind", "path", "header"),
    [
        ("messages", "/v1/messages", ("x-api-key", "sk-1")),
        ("responses", "/responses", ("authorization", "Bearer sk-1")),
        ("converse", "/model/amazon.nova-lite-v1%3A0/converse", ("authorization", "Bearer sk-1")),
    ],
)
def test_the_path_and_the_key_are_those_of_the_api(kind: str, path: str, header: tuple[str, str]) -> None:
    with served(*FORMS[kind]) as (api, agent):
        play({**agent, "api_key": "sk-1"}, input="Good morning!")

    assert api.paths == [path]
    assert api.headers[0][header[0]] == header[1]
    if kind == "messages":
        assert api.headers[0]["anthropic-version"] == "2023-06-01"


def test_a_tool_error_is_marked_in_the_apis_that_can() -> None:
    with served(*FORMS["messages"]) as (messages, agent):
        play(agent, input="Please refund order B-2.")
    with served(*FORMS["converse"]) as (converse, agent):
        play(agent, input="Please refund order B-2.")

    assert messages.bodies[1]["messages"][-1]["content"][0]["is_error"] is True
    assert converse.bodies[1]["messages"][-1]["content"][0]["toolResult"]["status"] == "error"


def test_reasoning_goes_back_as_it_came() -> None:
    with served(*FORMS["responses"]) as (api, agent):
        play(agent, input="Where is order A-1?")

    assert [item.get("type", item.get("role")) for item in api.bodies[1]["input"]] == [
        "user",
        "reasoning",
        "function_call",
        "function_call_output",
    ]


def event(**fields: Any) -> str:
    return f"data: {json.dumps(fields)}\n\n"


@pytest.mark.parametrize(
    ("settings", "body", "text"),
    [
        ({"type": "anthropic"}, b"", "empty stream"),
        (
            {"type": "anthropic"},
            event(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "Hal"}).encode(),
            "broke off before its end, after: Hal",
        ),
        ({"type": "anthropic"}, b'event: error\ndata: {"type": "error"}\n\n', "streamed an error"),
        ({"type": "openai", "api": "responses"}, b"data: [DONE]\n\n", "empty stream"),
        (
            {"type": "openai", "api": "responses"},
            event(type="response.output_text.delta", delta="Hal").encode(),
            "broke off before its end, after: Hal",
        ),
        ({"type": "openai", "api": "responses"}, event(type="response.failed").encode(), "streamed an error"),
        ({"type": "anthropic"}, {"content": "Hello"}, "without a list of content blocks"),
        ({"type": "anthropic"}, {"type": "error", "error": {"message": "no"}}, "returned an error"),
        ({"type": "anthropic"}, {"content": [], "stop_reason": "tool_use"}, "has no tool_use block"),
        ({"type": "anthropic"}, {"content": [], "stop_reason": "pause_turn"}, "paused its turn"),
        ({"type": "openai", "api": "responses"}, {"output": [], "status": "failed"}, "returned an error"),
        ({"type": "openai", "api": "responses"}, {"output": [], "status": "queued"}, "not complete"),
        ({"type": "openai", "api": "responses"}, {"id": "x"}, "without a list of output items"),
        ({"type": "openai", "api": "responses"}, {"output": [{"type": "computer_call"}]}, "asks for a computer_call"),
        ({"type": "bedrock"}, {"output": {}}, "without output.message.content"),
    ],
)
def test_what_is_no_answer_is_errored(settings: dict[str, Any], body: Any, text: str) -> None:
    with served(lambda _: body, {**settings, "model": "m"}) as (_, agent):
        trial = play(agent, input="Good morning!")

    assert trial.error.kind is ErrorKind.AGENT
    assert text in trial.error.message


def test_calls_of_the_providers_own_tools_are_recorded() -> None:
    searched = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
        {"type": "text", "text": "Found."},
    ]
    with served(lambda _: {"content": searched}, {"type": "anthropic", "model": "m"}) as (_, agent):
        by_anthropic = play(agent, input="Search.", mocks=None)
    item = {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"query": "x"}}
    message = {"type": "message", "content": [{"type": "output_text", "text": "Found."}]}
    settings = {"type": "openai", "api": "responses", "model": "m"}
    with served(lambda _: {"output": [item, message]}, settings) as (_, agent):
        by_openai = play(agent, input="Search.", mocks=None)

    for trial in (by_anthropic, by_openai):
        assert trial.transcript.reply == "Found."
        assert [(call.name, call.arguments) for call in trial.transcript.tool_calls] == [("web_search", {"query": "x"})]


def test_broken_arguments_are_answered_with_an_error_and_sent_back() -> None:
    answers = [
        b"".join(
            event(**fields).encode()
            for fields in (
                {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "tool_use", "name": "lookup_order"},
                },
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "input_json_delta", "partial_json": '{"o'},
                },
                {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
                {"type": "message_stop"},
            )
        ),
        {"content": [{"type": "text", "text": "Sorry."}]},
    ]
    with served(lambda _: answers.pop(0), {"type": "anthropic", "model": "m"}) as (api, agent):
        trial = play(agent, input="Where is it?")

    (call,) = trial.transcript.tool_calls
    assert "not a JSON object" in call.error
    asked, answered = api.bodies[1]["messages"][1:]
    assert asked["content"][0]["input"] == {"INVALID_JSON": '{"o'}
    assert asked["content"][0]["id"] == answered["content"][0]["tool_use_id"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"type": "openai", "api": "assistants"}, "expected one of chat, responses, got 'assistants'"),
        ({"type": "anthropic", "body": {"system": "x"}}, "body.system: cannot be set here"),
        ({"type": "bedrock"}, "needs 'model'"),
        ({"type": "bedrock", "model": "m", "stream": True}, "cannot stream"),
        ({"type": "anthropic", "api": "responses"}, "unknown key 'api'"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text.replace("(", r"\(")):
        play({"base_url": "http://127.0.0.1:9", **settings}, input="x")


def test_a_world_answers_and_its_end_state_is_judged(form: tuple[Answer, dict[str, Any]]) -> None:
    def refund_order(state: dict[str, Any], order_id: str) -> str:
        state["refunds"].append(order_id)
        return "paid by the world"

    world = World(seed={"refunds": []}, tools=[refund_order])
    with served(*form) as (_, agent):
        ended = EndState(contains={"refunds": ["B-2"]})
        trial = play(agent, input="Please refund order B-2.", mocks=None, world=world, end_state=ended)

    assert trial.status == "passed", (trial.error, trial.failure_reasons)
    assert "paid by the world" in trial.transcript.reply


def test_an_endpoint_that_exceeds_the_timeout_is_errored(form: tuple[Answer, dict[str, Any]]) -> None:
    answer, settings = form
    asked = threading.Event()

    def hang(body: Mapping[str, Any]) -> Any:
        asked.wait(5)
        return answer(body)

    with served(hang, settings) as (_, agent):
        trial = play(agent, input="Good morning!", timeout_seconds=0.2)
        asked.set()

    assert trial.error.kind is ErrorKind.LIMIT


def test_approvals_are_refused_by_endpoints(form: tuple[Answer, dict[str, Any]]) -> None:
    _, settings = form
    agent = {**settings, "base_url": "http://127.0.0.1:9"}

    with pytest.raises(UsageError, match="approve"):
        play(agent, turns=[Turn(user="Refund it."), Turn(approve=["refund_order"])])

"""What agents return, in every form, and what is no reply at all."""

from types import MappingProxyType
from typing import Any

import pytest

from seatrial.agents.chat_messages import read_requested
from seatrial.agents.return_values import read_reply
from seatrial.model.conversation import AgentResult, ToolCall, Usage
from seatrial.model.results import AgentFailure


def a_call(name: str = "lookup", arguments: Any = '{"id": 1}', **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


# Texts and results.


def test_a_text_is_the_reply_and_records_no_calls() -> None:
    reply = read_reply("hello")
    assert (reply.reply, reply.tool_calls, reply.requested) == ("hello", None, ())


def test_none_is_an_empty_reply_without_evidence() -> None:
    reply = read_reply(None)
    assert (reply.reply, reply.tool_calls) == (None, None)


def test_a_result_without_calls_given_records_nothing() -> None:
    assert read_reply(AgentResult("hi")).tool_calls is None


def test_a_result_with_an_empty_list_records_that_none_was_called() -> None:
    assert read_reply(AgentResult("hi", [])).tool_calls == ()


def test_a_result_carries_calls_tokens_and_cost() -> None:
    call = ToolCall("lookup", {"id": 1}, {"ok": True})
    reply = read_reply(
        AgentResult("hi", [call, "send", {"name": "pay", "args": {"eur": 2}}], Usage(input_tokens=3), 0.5)
    )
    assert reply.tool_calls == (call, ToolCall("send"), ToolCall("pay", {"eur": 2}))
    assert (reply.usage, reply.cost_usd) == (Usage(input_tokens=3), 0.5)


def test_a_call_that_the_agent_changes_later_stays_as_it_was() -> None:
    arguments = {"ids": [1]}
    reply = read_reply(AgentResult("hi", [ToolCall("lookup", arguments)]))
    arguments["ids"].append(2)
    assert reply.tool_calls == (ToolCall("lookup", {"ids": [1]}),)


def test_a_tuple_is_a_reply_with_its_calls() -> None:
    assert read_reply(("hi", ["a", "b"])).tool_calls == (ToolCall("a"), ToolCall("b"))
    assert read_reply(("hi", None)).tool_calls is None
    assert read_reply((None, [])).reply is None


def test_a_dict_with_output_is_a_result() -> None:
    reply = read_reply({"output": "hi", "tool_calls": ["a"], "usage": {"prompt_tokens": 2, "completion_tokens": 3}})
    assert (reply.reply, reply.tool_calls) == ("hi", (ToolCall("a"),))
    assert reply.usage == Usage(input_tokens=2, output_tokens=3)


# Messages.


def test_a_chat_message_says_nothing_of_the_calls_before_it() -> None:
    reply = read_reply({"role": "assistant", "content": "hi"})
    assert (reply.reply, reply.tool_calls, reply.requested) == ("hi", None, ())


def test_only_a_plain_mapping_with_an_empty_list_states_that_no_tool_was_called() -> None:
    message = {"role": "assistant", "content": "hi", "tool_calls": []}
    dict_like = type("Message", (dict,), {})(message)
    assert read_reply(message).tool_calls == ()
    assert read_reply({"content": "hi", "tool_calls": []}).tool_calls == ()
    assert read_reply({"output": "hi", "tool_calls": []}).tool_calls == ()
    assert read_reply(dict_like).tool_calls is None
    assert read_reply({**message, "refusal": None}).tool_calls is None
    assert read_reply({"choices": [{"message": message}]}).tool_calls is None
    assert read_reply({**message, "tool_calls": None}).tool_calls is None


@pytest.mark.parametrize(
    "message", [{"role": role} for role in ("user", "system", "developer", "tool", "function")] + [{"type": "human"}]
)
def test_a_message_of_another_role_is_refused_with_what_to_return(message: dict[str, Any]) -> None:
    with pytest.raises(AgentFailure, match="which is no reply of the agent; return a str, an AgentResult"):
        read_reply({**message, "content": "hi"})


def test_a_chat_message_in_another_mapping_is_read_as_one() -> None:
    assert read_reply(MappingProxyType({"role": "assistant", "content": "hi"})).reply == "hi"


def test_the_calls_of_a_chat_message_are_requests() -> None:
    reply = read_reply({"role": "assistant", "content": None, "tool_calls": [a_call()]})
    assert reply.requested == (ToolCall("lookup", {"id": 1}, id="c1"),)


def test_requests_without_an_id_are_given_one_that_the_message_carries_too() -> None:
    calls = [{"function": {"name": "a", "arguments": {}}}, {"name": "b", "arguments": {}}]
    reply = read_reply({"role": "assistant", "content": None, "tool_calls": calls})
    assert [call.id for call in reply.requested] == ["call_1", "call_2"]
    assert [call["id"] for call in reply.messages[0]["tool_calls"]] == ["call_1", "call_2"]


@pytest.mark.parametrize(("text", "kept"), [("{broken", "{broken"), ("[1]", "[1]"), ("", {}), (None, {})])
def test_malformed_arguments_stay_as_they_came(text: Any, kept: Any) -> None:
    reply = read_reply({"role": "assistant", "tool_calls": [a_call(arguments=text)]})
    assert reply.requested[0].arguments == kept


def test_content_in_parts_is_joined() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image_url"}, "b"]
    assert read_reply({"role": "assistant", "content": content}).reply == "ab"


def test_a_completion_is_its_first_choice_with_its_tokens() -> None:
    completion = {
        "choices": [{"message": {"role": "assistant", "content": "hi"}}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1},
    }
    reply = read_reply(completion)
    assert (reply.reply, reply.usage) == ("hi", Usage(input_tokens=5, output_tokens=1))


def test_an_sdk_object_is_read_by_its_dump() -> None:
    class Completion:
        def model_dump(self) -> dict[str, Any]:
            return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [a_call()]}}]}

    assert read_reply(Completion()).requested[0].name == "lookup"


def test_a_list_of_messages_is_calls_with_their_results_and_the_last_text() -> None:
    reply = read_reply(
        [
            {"role": "assistant", "content": None, "tool_calls": [a_call()]},
            {"role": "tool", "tool_call_id": "c1", "content": '{"status": "sent"}'},
            {"role": "assistant", "content": "It was sent."},
        ]
    )
    assert reply.reply == "It was sent."
    assert reply.tool_calls == (ToolCall("lookup", {"id": 1}, {"status": "sent"}, id="c1"),)
    assert reply.requested == ()


def test_calls_of_a_list_that_share_an_id_have_their_own_results() -> None:
    def asked(name: str) -> dict[str, Any]:
        return {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": name, "arguments": "{}"}}]}

    def told(result: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": "1", "content": result}

    reply = read_reply([asked("look"), told("shipped"), asked("refund"), told("refused"), asked("cancel")])
    assert [(call.name, call.result) for call in reply.tool_calls or ()] == [("look", "shipped"), ("refund", "refused")]
    assert [call.name for call in reply.requested] == ["cancel"]


def test_calls_of_a_list_that_nobody_answered_are_requests() -> None:
    reply = read_reply([{"role": "assistant", "content": None, "tool_calls": [a_call()]}])
    assert (reply.tool_calls, [call.name for call in reply.requested]) == ((), ["lookup"])


def test_a_list_that_ends_with_a_tool_result_has_no_reply() -> None:
    reply = read_reply(
        [
            {"role": "assistant", "content": "one moment", "tool_calls": [a_call()]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        ]
    )
    assert reply.reply is None


def test_an_empty_list_is_no_reply_and_no_calls() -> None:
    reply = read_reply([])
    assert (reply.reply, reply.tool_calls) == (None, ())


# Blocks of content, as Anthropic's API has them.


def a_block(name: str = "cancel", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "t1", "name": name, "input": {"id": 1}, **more}


def test_calls_in_blocks_are_requests() -> None:
    content = [{"type": "text", "text": "One moment."}, a_block()]
    reply = read_reply({"role": "assistant", "content": content})
    assert (reply.reply, reply.tool_calls) == ("One moment.", None)
    assert reply.requested == (ToolCall("cancel", {"id": 1}, id="t1"),)


def test_a_call_that_stands_in_both_places_is_one() -> None:
    call = {"name": "cancel", "args": {"id": 1}, "id": "t1"}
    reply = read_reply({"role": "assistant", "content": [a_block()], "tool_calls": [call]})
    assert reply.requested == (ToolCall("cancel", {"id": 1}, id="t1"),)


def test_a_list_has_results_in_blocks_of_the_user() -> None:
    failed = {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": "no such order"}
    reply = read_reply(
        [
            {"role": "assistant", "content": [a_block(), a_block("refund", id="t2")]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": '{"ok": true}'}, failed],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "Cancelled."}]},
        ]
    )
    assert (reply.reply, reply.requested) == ("Cancelled.", ())
    cancelled = ToolCall("cancel", {"id": 1}, {"ok": True}, id="t1")
    assert reply.tool_calls == (cancelled, ToolCall("refund", {"id": 1}, error="no such order", id="t2"))


def test_a_call_that_the_model_server_answered_is_no_request() -> None:
    search = a_block("web_search", type="server_tool_use")
    found = {"type": "web_search_tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "rain"}]}
    reply = read_reply({"role": "assistant", "content": [search, found, {"type": "text", "text": "It rains."}]})
    assert (reply.reply, reply.requested) == ("It rains.", ())
    assert reply.tool_calls == (ToolCall("web_search", {"id": 1}, "rain", id="t1"),)


# Calls where nobody reads them.


@pytest.mark.parametrize("key", ["tools_called", "toolcalls", "tool_call", "toolCalls", "calls", "function_call"])
def test_a_message_with_calls_under_another_name_is_refused(key: str) -> None:
    message = {"role": "assistant", "content": "Done.", key: [{"name": "cancel"}]}
    for value in (message, [message], {"choices": [{"message": message}]}):
        with pytest.raises(AgentFailure, match=f"a message with '{key}', where no tool calls are read; put them under"):
            read_reply(value)


@pytest.mark.parametrize("block", [{"type": "tool-call", "toolName": "cancel"}, {"toolUse": {"name": "cancel"}}])
def test_a_block_that_looks_like_a_call_of_another_api_is_refused(block: dict[str, Any]) -> None:
    with pytest.raises(AgentFailure, match="where no tool calls are read"):
        read_reply({"role": "assistant", "content": [{"text": "Done."}, block]})


def test_an_item_of_another_api_is_no_message() -> None:
    items = [{"type": "function_call", "name": "cancel", "call_id": "c1"}, {"role": "assistant", "content": "Done."}]
    with pytest.raises(AgentFailure, match=r"a list that is not one of messages: .*'function_call'.* has no role"):
        read_reply(items)


def test_what_real_apis_put_beside_the_content_is_no_call() -> None:
    beside = {
        "refusal": None,
        "annotations": [],
        "audio": None,
        "function_call": None,
        "tool_calls": None,
        "invalid_tool_calls": [],
        "name": "clerk",
        "id": "m1",
        "reasoning_content": "They greet me.",
        "metadata": {"recall": 1},
        "callback": "x",
    }
    reply = read_reply({"role": "assistant", "content": "hi", **beside})
    assert (reply.reply, reply.tool_calls, reply.requested) == ("hi", None, ())


def test_what_stands_beside_calls_that_are_read_does_not_matter() -> None:
    message = {"role": "assistant", "content": "", "tool_plan": "look it up", "tool_calls": [a_call()]}
    assert [call.name for call in read_reply(message).requested] == ["lookup"]


# What is none.


@pytest.mark.parametrize("value", [5, 2.5, True, b"bytes", {1, 2}, object()])
def test_what_cannot_be_a_reply_is_a_failure_that_names_what_to_return(value: Any) -> None:
    with pytest.raises(AgentFailure, match=r"the agent returned .*return a str, an AgentResult") as caught:
        read_reply(value)
    assert caught.value.final


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (AgentResult(5), "AgentResult.output must be a str, got 5 .int."),  # type: ignore[arg-type]
        (AgentResult("hi", "lookup"), "tool calls must be a list"),
        (AgentResult("hi", 3), "tool calls must be a list"),
        (AgentResult("hi", {"name": "lookup"}), "tool calls must be a list"),
        ({"role": "assistant", "tool_calls": a_call()}, "tool calls must be a list"),
        (AgentResult("hi", [5]), "a tool call must be a name"),
        (AgentResult("hi", [ToolCall(5)]), "a tool call must be a name"),  # type: ignore[arg-type]
        (AgentResult("hi", usage="many"), "usage must be a Usage or a dict"),  # type: ignore[arg-type]
        (AgentResult("hi", usage=Usage(input_tokens="3")), "tokens in usage must be a whole number"),  # type: ignore[arg-type]
        (AgentResult("hi", usage=Usage(input_tokens=-1)), "tokens in usage must be a whole number"),
        (AgentResult("hi", cost_usd="free"), "cost_usd must be a number"),  # type: ignore[arg-type]
        (AgentResult("hi", cost_usd=float("nan")), "cost_usd must be a number"),
        (AgentResult("hi", cost_usd=-0.1), "cost_usd must be a number"),
        (("a", [], "c"), "a tuple of 3"),
        ((5, []), "the first of the tuple must be a str"),
        ({"foo": 1}, r"a dict with the keys \['foo'\]"),
        ({"output": "hi", "extra": 1}, "a result with extra, which is not one of Seatrial's"),
        ({"role": "assistant", "content": 5}, "content must be a str"),
        ({"choices": []}, r"without choices\[0\].message"),
        ({"choices": [{"message": {"content": "I"}, "finish_reason": "error"}]}, "ended in an error"),
        ({"choices": [{"message": {"content": "I"}, "finish_reason": "tool_calls"}]}, "asks for tools"),
        (["a", "b"], "a list that is not one of messages"),
    ],
)
def test_a_malformed_reply_is_a_failure_that_says_what_is_wrong(value: Any, problem: str) -> None:
    with pytest.raises(AgentFailure, match=problem):
        read_reply(value)


def test_an_object_that_dumps_itself_for_ever_is_a_failure() -> None:
    class Endless:
        def model_dump(self) -> "Endless":
            return self

    with pytest.raises(AgentFailure, match="the agent returned"):
        read_reply(Endless())


def test_no_requested_call_is_lost_when_ids_collide() -> None:
    calls = [{"id": "call_3_1", "function": {"name": "a"}}, {"function": {"name": "b"}}, {"id": 0, "name": "c"}]
    assert [call.name for call in read_requested(calls, position=3)] == ["a", "b", "c"]
    assert read_requested(calls, position=3)[2].id == "0"

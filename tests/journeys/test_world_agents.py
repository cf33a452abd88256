"""The same world behind agents of every kind: what they are offered, and the end state that they reach."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agents.model_apis import Api, answer_converse, answer_messages, answer_responses, serve

import seatrial
from seatrial import EndState, Scenario, Suite, World
from seatrial.model.run import Trial
from seatrial.testing import shop

SEED: dict[str, Any] = {"orders": {"A-1": {"parcel": "P-1", "asked": 0}}, "refunds": []}


def lookup_order(state: dict[str, Any], order_id: str) -> dict[str, Any]:
    """Find an order.

    Args:
        order_id: the number of the order
    """
    state["orders"][order_id]["asked"] += 1
    return dict(state["orders"][order_id])


def refund_order(state: dict[str, Any], order_id: str) -> str:
    """Pay an order back."""
    state["refunds"].append(order_id)
    return "paid"


WORLD = World(seed=SEED, tools=[lookup_order, refund_order])
REFUNDED = EndState(as_after=[{"refund_order": {"order_id": "A-1"}}])


def play(agent: Any, **keys: Any) -> Trial:
    scenario = Scenario(name="refund", **{"input": "Please refund order A-1.", "end_state": REFUNDED, **keys})
    report = seatrial.run(Suite(name="shop", world=WORLD, scenarios=[scenario]), agent=agent, store=None)
    [trial] = report.trials()
    return trial


def answer_chat(body: Mapping[str, Any]) -> Any:
    """OpenAI's chat completions."""
    step = shop.next_steps([{**one, "content": str(one.get("content") or "")} for one in body["messages"]])
    if isinstance(step, str):
        return {"choices": [{"message": {"role": "assistant", "content": step}}]}
    calls = [
        {"id": "c1", "type": "function", "function": {"name": one.name, "arguments": json.dumps(one.arguments)}}
        for one in step
    ]
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": calls}}]}


ENDPOINTS: Mapping[str, tuple[Callable[[Mapping[str, Any]], Any], dict[str, Any]]] = {
    "chat": (answer_chat, {"type": "openai", "model": "gpt"}),
    "responses": (answer_responses, {"type": "openai", "api": "responses", "model": "gpt"}),
    "messages": (answer_messages, {"type": "anthropic", "model": "claude"}),
    "converse": (answer_converse, {"type": "bedrock", "model": "nova"}),
}


@contextmanager
def endpoint(kind: str) -> Iterator[tuple[Api, dict[str, Any]]]:
    answer, settings = ENDPOINTS[kind]
    with serve(answer) as api:
        yield api, {**settings, "base_url": api.url}


def sent_tools(kind: str, body: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """The description and parameters of each tool in a request."""
    if kind == "converse":
        specs = [each["toolSpec"] for each in body["toolConfig"]["tools"]]
        return {one["name"]: (one["description"], one["inputSchema"]["json"]) for one in specs}
    tools = [each["function"] for each in body["tools"]] if kind == "chat" else body["tools"]
    return {one["name"]: (one["description"], one.get("parameters") or one["input_schema"]) for one in tools}


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_an_endpoint_is_offered_the_tools_of_the_world(kind: str) -> None:
    with endpoint(kind) as (api, agent):
        trial = play(agent)

    assert trial.status.value == "passed", trial.failure_reasons
    offered = sent_tools(kind, api.bodies[0])
    assert sorted(offered) == ["lookup_order", "refund_order"]
    description, parameters = offered["lookup_order"]
    assert description == "Find an order."
    assert parameters["properties"] == {"order_id": {"type": "string", "description": "the number of the order"}}
    assert parameters["required"] == ["order_id"]


@pytest.mark.parametrize("kind", ENDPOINTS)
def test_a_definition_under_tools_is_offered_instead_of_the_worlds(kind: str) -> None:
    own = {"name": "refund_order", "description": "Own.", "parameters": {"type": "object", "properties": {}}}
    with endpoint(kind) as (api, agent):
        play(agent, tools=[own])

    offered = sent_tools(kind, api.bodies[0])
    assert (offered["refund_order"][0], offered["lookup_order"][0]) == ("Own.", "Find an order.")


def test_a_mocked_tool_of_the_world_keeps_its_definition() -> None:
    with endpoint("chat") as (api, agent):
        trial = play(agent, mocks={"refund_order": {"raises": "closed"}}, end_state=EndState(as_after=[]))

    assert trial.status.value == "passed", trial.failure_reasons
    assert sent_tools("chat", api.bodies[0])["refund_order"][0] == "Pay an order back."


def test_a_function_gets_the_definitions_of_the_world() -> None:
    seen: list[Any] = []

    def agent(input: str, ctx: Any) -> str:
        seen.extend(ctx.tools)
        return "done"

    play(agent)

    assert [tool["name"] for tool in seen] == ["lookup_order", "refund_order"]


PROGRAM = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "tool_results":
        print(json.dumps({"type": "reply", "content": "done"}), flush=True)
    else:
        names = [tool["name"] for tool in message["tools"]]
        call = {"name": names[-1], "arguments": {"order_id": "A-1"}}
        print(json.dumps({"type": "tool_calls", "tool_calls": [call]}), flush=True)
"""


def by_function(folder: Path) -> Trial:
    def agent(input: str, ctx: Any) -> str:
        return str(ctx.call_tool("refund_order", order_id="A-1"))

    return play({"type": "python", "target": agent, "tools": "all_wrapped"})


def by_wrapped_tool(folder: Path) -> Trial:
    @seatrial.tool
    def refund_order(order_id: str) -> str:
        raise AssertionError("the real tool ran")

    return play(lambda input: refund_order(order_id="A-1"))


def by_endpoint(folder: Path) -> Trial:
    with endpoint("chat") as (_, agent):
        return play(agent)


def by_program(folder: Path) -> Trial:
    (folder / "program.py").write_text(PROGRAM, "utf-8")
    return play({"type": "command", "argv": [sys.executable, str(folder / "program.py")]})


def by_mcp_client(folder: Path) -> Trial:
    from mcp import Client

    async def ask(url: str) -> str:
        async with Client(url) as client:
            offered = await client.list_tools()
            assert [tool.description for tool in offered.tools] == ["Find an order.", "Pay an order back."]
            answer = await client.call_tool("refund_order", {"order_id": "A-1"})
            return str(answer.content)

    def agent(input: str, ctx: Any) -> str:
        return asyncio.run(ask(ctx.mcp_url))

    return play({"type": "python", "target": agent, "mcp": True})


def by_recording(folder: Path) -> Trial:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "refund_order", "arguments": json.dumps({"order_id": "A-1"})},
    }
    messages = [
        {"role": "user", "content": "Please refund order A-1."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "paid"},
        {"role": "assistant", "content": "done"},
    ]
    (folder / "recorded.json").write_text(json.dumps(messages), "utf-8")
    return play({"type": "replay", "path": str(folder / "recorded.json")})


WAYS = (by_function, by_wrapped_tool, by_endpoint, by_program, by_mcp_client, by_recording)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_every_kind_of_agent_reaches_the_same_end_state(way: Callable[[Path], Trial], tmp_path: Path) -> None:
    trial = way(tmp_path)

    assert trial.status.value == "passed", trial.failure_reasons
    assert trial.transcript.world is not None
    assert [(one.op, one.path, one.value) for one in trial.transcript.world.changes] == [("add", "/refunds/0", "A-1")]
    assert [one.path for one in trial.transcript.seen_calls[0].changes] == ["/refunds/0"]

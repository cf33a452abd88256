"""The forms of the quick start in the Claude Agent SDK's README, with a fake model: `query`, and an own tool."""

from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

import seatrial
from seatrial import Scenario


@tool("greet", "Greet a user", {"name": str})
async def greet_user(args: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"Hello, {args['name']}!"}]}


server = create_sdk_mcp_server(name="my-tools", version="1.0.0", tools=[greet_user])
options = ClaudeAgentOptions(mcp_servers={"tools": server}, allowed_tools=["mcp__tools__greet"])


def decide(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Greets Alice, and knows a sum. (The README asks Claude.)"""
    text = str(messages)
    if "Greet Alice" not in text:
        return {"type": "text", "text": "4"}
    results = [
        block["content"][0]["text"] if isinstance(block["content"], list) else block["content"]
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    if results:
        return {"type": "text", "text": results[-1]}
    return {"type": "tool_use", "id": "toolu_1", "name": "mcp__tools__greet", "input": {"name": "Alice"}}


@pytest.fixture(autouse=True)
def _fake_model(monkeypatch: pytest.MonkeyPatch) -> None:
    import agent

    monkeypatch.setattr(agent, "decide", decide)
    for name, value in agent.options.env.items():
        monkeypatch.setenv(name, value)


def play(agent: Any, **scenario: Any) -> Any:
    report = seatrial.run(Scenario(name="x", **scenario), agent=agent, store=None)
    assert report.passed, report.failure_reasons
    (trial,) = report.trials()
    return trial


def test_a_function_may_return_what_query_gives() -> None:
    async def answer(input: str) -> list[Any]:
        return [message async for message in query(prompt=input)]

    trial = play(answer, input="What is 2 + 2?", expected_output="4")

    assert trial.transcript.tool_calls == ()


def test_the_options_run_unchanged() -> None:
    trial = play(options, input="Greet Alice", expected_tools=["mcp__tools__greet"])

    assert trial.transcript.reply == "Hello, Alice!"


def test_a_mock_answers_for_the_tool() -> None:
    assert play(options, input="Greet Alice", mocks={"mcp__tools__greet": {"returns": "Hi."}}).transcript.reply == "Hi."

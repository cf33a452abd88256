"""Each SDK against a server on loopback: its own retries must be off, or they would multiply ours."""

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from seatrial.errors import MissingExtra, UsageError
from seatrial.llm.client import LLM
from seatrial.llm.model import Answer, ModelFailure, ModelSpec, Question, parse_model
from seatrial.llm.providers import check_model
from seatrial.model.conversation import Usage
from seatrial.testing.model_server import ModelServer, ServerReply


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    text: str


ANSWER = '{"text": "hello"}'
BODIES = {
    "openai": None,
    "ollama": None,
    "openai-responses": {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "scripted",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": ANSWER, "annotations": []}],
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    },
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [{"type": "text", "text": ANSWER}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    },
    "google": {
        "candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "scripted",
    },
}


def a_reply(provider: str) -> ServerReply:
    body = BODIES[provider]
    return ServerReply(content=ANSWER) if body is None else ServerReply(body=json.dumps(body))


def ask(provider: str, server: ModelServer) -> Answer[Greeting]:
    async def main() -> Answer[Greeting]:
        model = parse_model({"model": f"{provider}:scripted", "base_url": server.base_url}, environ={})
        question = Question(role="user", model=model, system="Greet.", messages=(("user", "Hi"),), schema=Greeting)
        async with LLM(backoff=0.0) as llm:
            return await llm.ask(question)

    return asyncio.run(main())


@pytest.mark.parametrize("provider", BODIES)
def test_every_sdk_is_called_in_the_same_way(provider: str) -> None:
    with ModelServer([a_reply(provider)]) as server:
        answer = ask(provider, server)
    assert answer.value == Greeting(text="hello")
    assert answer.use.usage == Usage(input_tokens=10, output_tokens=5)
    assert answer.use.cost_usd is None
    assert len(server.requests) == 1


@pytest.mark.parametrize("provider", BODIES)
@pytest.mark.parametrize("status", [429, 500, 503])
def test_no_sdk_retries_on_its_own(provider: str, status: int) -> None:
    with ModelServer([ServerReply(status=status, body="{}")]) as server, pytest.raises(ModelFailure):
        ask(provider, server)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("google:gemini-2.5-flash", "GOOGLE_API_KEY"),
        ("openrouter:some/model", "OPENROUTER_API_KEY"),
    ],
)
def test_a_missing_key_is_named_with_the_line_that_sets_it(model: str, variable: str) -> None:
    with pytest.raises(UsageError, match=f"{variable}.*is not set.*export {variable}=") as caught:
        check_model(parse_model(model, environ={}), environ={})
    assert model in str(caught.value)


def test_a_key_in_the_environment_is_enough() -> None:
    check_model(parse_model("openai:gpt-5-mini", environ={}), environ={"OPENAI_API_KEY": "sk-1"})
    check_model(parse_model("google:gemini-2.5-flash", environ={}), environ={"GEMINI_API_KEY": "g-1"})


def test_a_blank_key_is_a_missing_key() -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        check_model(parse_model("openai:gpt-5-mini", environ={}), environ={"OPENAI_API_KEY": ""})


@pytest.mark.parametrize("model", ["ollama:llama3:8b", "openai:qwen3@http://127.0.0.1:8000/v1"])
def test_local_models_need_no_key(model: str) -> None:
    check_model(parse_model(model, environ={}), environ={})


def test_an_sdk_that_is_not_installed_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seatrial.llm.providers.find_spec", lambda name: None if name == "cohere" else object())
    spec = ModelSpec(provider="cohere", name="command", api_key="key")
    with pytest.raises(UsageError, match=r"pip install 'pydantic-ai-slim\[cohere\]'"):
        check_model(spec, environ={})


def test_without_pydantic_ai_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seatrial.llm.providers.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'seatrial\[llm\]'"):
        check_model(parse_model("openai:gpt-5", environ={}), environ={"OPENAI_API_KEY": "sk-1"})


def test_importing_the_packages_loads_no_third_party_and_no_event_loop() -> None:
    heavy = ("asyncio", "pydantic", "httpx2", "pydantic_ai", "genai_prices", "openai")
    code = f"import sys, seatrial.llm, seatrial.users; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

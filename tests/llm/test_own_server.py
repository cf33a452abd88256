import asyncio
import socket
from dataclasses import dataclass
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.llm.client import LLM
from seatrial.llm.model import ModelFailure, Question, parse_model
from seatrial.testing.model_server import ModelServer, ServerReply


@dataclass
class Word:
    word: str


class SlowServer:
    """Takes requests and never answers."""

    def __enter__(self) -> str:
        self._socket = socket.create_server(("127.0.0.1", 0))
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def test_a_server_of_ones_own_is_told_the_most_tokens_by_the_name_it_knows() -> None:
    async def ask(base_url: str) -> None:
        given = {"model": "openai:m", "base_url": base_url, "settings": {"max_tokens": 7}}
        model = parse_model(given, environ={})
        async with LLM() as llm:
            await llm.ask(Question(role="judge", model=model, system="s", messages=(("user", "?"),), schema=Word))

    with ModelServer(['{"word": "yes"}']) as server:
        asyncio.run(ask(server.base_url))

    (request,) = server.requests
    assert request.body["max_tokens"] == 7
    assert "max_completion_tokens" not in request.body


def ask_once(given: Any, environ: dict[str, str]) -> None:
    async def ask() -> None:
        model = parse_model(given, environ=environ)
        async with LLM() as llm:
            llm._backoff = 0.0
            await llm.ask(Question(role="judge", model=model, system="s", messages=(("user", "?"),), schema=Word))

    asyncio.run(ask())


def test_ollama_is_asked_at_its_address_without_a_key() -> None:
    with ModelServer(['{"word": "yes"}']) as server:
        ask_once("ollama:qwen3:8b", {"OLLAMA_BASE_URL": server.base_url})

    (request,) = server.requests
    assert request.path.endswith("/chat/completions")
    assert request.body["model"] == "qwen3:8b"


def test_bedrock_is_asked_with_its_key() -> None:
    with ModelServer(['{"word": "yes"}']) as server:
        given = {"model": "openai:openai.gpt-oss-120b", "base_url": server.base_url, "api_key": "${BEDROCK}"}
        ask_once(given, {"BEDROCK": "bedrock-api-key-1"})

    (request,) = server.requests
    assert request.body["model"] == "openai.gpt-oss-120b"
    assert request.headers["authorization"] == "Bearer bedrock-api-key-1"


@pytest.mark.parametrize(("retries", "requests"), [(0, 1), (1, 2)])
def test_a_model_decides_how_often_it_is_asked_again(retries: int, requests: int) -> None:
    with ModelServer([ServerReply(status=503)]) as server, pytest.raises(ModelFailure):
        ask_once({"model": "openai:m", "base_url": server.base_url, "retries": retries}, {})

    assert len(server.requests) == requests


def test_a_model_decides_how_long_a_request_may_take() -> None:
    with SlowServer() as server, pytest.raises(ModelFailure, match=r"no answer within 0\.2 s"):
        ask_once({"model": "openai:m", "base_url": server, "timeout": 0.2, "retries": 0}, {})


@pytest.mark.parametrize(
    ("setting", "problem"),
    [({"timeout": 0}, "timeout must be a number of seconds above 0"), ({"retries": -1}, "retries must be a whole")],
)
def test_a_wrong_timeout_or_number_of_retries_is_refused(setting: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        parse_model({"model": "openai:m", **setting}, environ={})

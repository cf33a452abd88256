import asyncio
from dataclasses import dataclass

from seatrial.llm.client import LLM
from seatrial.llm.model import Question, parse_model
from seatrial.testing.model_server import ModelServer


@dataclass
class Word:
    word: str


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

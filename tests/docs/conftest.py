"""The workspace in which a page runs: an empty folder, the files that it needs, and a model server on this machine."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ReceivedRequest, ServerReply
from seatrial_docs.blocks import name_of
from seatrial_docs.run_page import Workspace, plain_environ, title_of

GIVEN = Path(__file__).parent / "given"


BEDROCK = "https://bedrock-mantle.us-east-1.api.aws/v1"
"""The address that the pages give for Amazon Bedrock."""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Callable[[Path, frozenset[tuple[str, str]]], Workspace]]:
    """Gives a workspace for a page, with models answered on this machine."""
    with ExitStack() as open_until_the_end:

        def build(page: Path, listed: frozenset[tuple[str, str]]) -> Workspace:
            given, environ, addresses = GIVEN / title_of(page), plain_environ(), {}
            text = page.read_text(encoding="utf-8")
            if any(f"{provider}:" in text for provider in ("openai", "anthropic", "ollama")):
                model = open_until_the_end.enter_context(ModelServer(answered, model="gpt-5-mini"))
                environ |= model_environ(model.base_url)
                addresses = {BEDROCK: model.base_url}
            return Workspace(folder=tmp_path, given=given, environ=environ, listed=listed, addresses=addresses)

        yield build


def model_environ(base_url: str) -> dict[str, str]:
    """The variables by which each provider is found on this machine."""
    return {
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "sk-of-the-reader",
        "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "sk-ant-of-the-reader",
        "OLLAMA_BASE_URL": base_url,
    }


def answered(request: ReceivedRequest) -> ServerReply:
    """The answer in the form of the API that was called: chat completions, or a stream of Anthropic's messages."""
    if not request.path.endswith("/messages"):
        return ServerReply(content=said(request.messages[0][1], request.messages[-1][1]))
    text = said(text_of(request.body["system"]), text_of(request.body["messages"][-1]["content"]))
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.body["model"], "content": []}
    usage = {"input_tokens": 10, "output_tokens": 5}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return ServerReply(body=body, headers={"content-type": "text/event-stream"})


def text_of(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def said(system: str, latest: str) -> str:
    """What the model says: a judge finds everything good that is not sorry, a user leaves when something is booked."""
    schema = json.loads(system.rpartition("JSON Schema:\n")[2])
    if "goal_met" in schema["properties"]:
        done = "booked" in latest.lower()
        message = "Thank you." if done else "I need a haircut next Tuesday morning."
        return json.dumps({"message": message, "goal_met": done, "stop": done})
    return json.dumps(filled(schema, good="sorry" not in latest.lower()))


def filled(schema: Any, *, good: bool, defs: Any = None) -> Any:
    """The best answer that fits the schema, or the worst."""
    defs = schema.get("$defs", defs)
    if "$ref" in schema:
        return filled(defs[schema["$ref"].rpartition("/")[2]], good=good, defs=defs)
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], good=good, defs=defs)
    if schema.get("type") == "object":
        return {key: filled(value, good=good, defs=defs) for key, value in schema["properties"].items()}
    number = schema.get("maximum", 5) if good else schema.get("minimum", 0)
    return {"array": [], "integer": number, "boolean": good}.get(schema.get("type", ""), "The reply shows it.")


def pytest_make_parametrize_id(val: object) -> str | None:
    return name_of(val) if isinstance(val, Path) else None

"""The stage on which a page is played: an empty folder, the files it takes for granted, and a model on loopback."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from seatrial.testing.model_server import ModelServer, ReceivedRequest
from seatrial_docs.blocks import name_of
from seatrial_docs.play import Stage, plain_environ, title_of

GIVEN = Path(__file__).parent / "given"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[[Path, frozenset[tuple[str, str]]], Stage]]:
    """Gives a stage for a page, with `openai:` models answered on this machine."""
    with ExitStack() as open_until_the_end:

        def build(page: Path, listed: frozenset[tuple[str, str]]) -> Stage:
            given, environ = GIVEN / title_of(page), plain_environ()
            if "openai:" in page.read_text(encoding="utf-8"):
                model = open_until_the_end.enter_context(ModelServer(said, model="gpt-5-mini"))
                environ |= {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "sk-of-the-reader"}
            return Stage(folder=tmp_path, given=given, environ=environ, listed=listed)

        yield build


def said(request: ReceivedRequest) -> str:
    """What the model says: a judge finds everything good that is not sorry, a user leaves when something is booked."""
    schema = json.loads(request.messages[0][1].rpartition("JSON Schema:\n")[2])
    if "goal_met" in schema["properties"]:
        done = "booked" in request.messages[-1][1].lower()
        message = "Thank you." if done else "I need a haircut next Tuesday morning."
        return json.dumps({"message": message, "goal_met": done, "stop": done})
    return json.dumps(filled(schema, good="sorry" not in request.messages[-1][1].lower()))


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

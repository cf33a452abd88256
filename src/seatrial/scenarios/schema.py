"""The JSON Schema of scenario files, for editors and for whoever generates them."""

from typing import Any

from .pytest_agent_eval import TRANSCRIPT
from .schema_types import Record
from .shape import FILE_KEYS


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of YAML and JSON files, with what every key means."""
    native = Record("file", FILE_KEYS, make=dict).schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Seatrial scenarios",
        "description": "A suite of scenarios, or one transcript of pytest-agent-eval.",
        "type": "object",
        "if": {"required": ["id"]},
        "then": TRANSCRIPT.schema(),
        "else": native,
    }

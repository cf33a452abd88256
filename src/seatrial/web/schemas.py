"""The OpenAPI document: small answers are described by their models, runs and trials by the schema of results.json,
comparisons by the records they are made of. Nothing is described twice."""

import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import seatrial.reports
from seatrial.model.comparison import Alignment, Comparison
from seatrial.model.run import Run, ScenarioKey
from seatrial.model.struct import field_names

from .events import Progress

Schema = dict[str, Any]
_RESULTS = Path(seatrial.reports.__file__).with_name("results.schema.json")


def refer(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def answer(name: str, description: str) -> dict[int | str, Schema]:
    """What a route answers, by the name of a schema."""
    return {200: {"description": description, "content": {"application/json": {"schema": refer(name)}}}}


def events() -> dict[int | str, Schema]:
    """What the stream of events has, event by event."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": refer("Progress")}
    event = {"event": {"enum": ["progress", "end"]}, "data": data}
    schema = {"type": "object", "required": list(event), "properties": event}
    said = "`progress` whenever a number changes, `end` when there is nothing more to come."
    return {200: {"description": said, "content": {"text/event-stream": {"schema": schema}}}}


def shared_schemas() -> dict[str, Schema]:
    """By name, everything that is not described by a model."""
    results = json.loads(_RESULTS.read_text(encoding="utf-8"))
    found = {_shared(name): _moved(schema) for name, schema in results["$defs"].items()}
    found["Run"] = _moved(results["properties"]["run"])
    found["RunDetail"] = _run_detail(_moved(results), found[_shared("scenario")])
    found["Trial"] = _placed(found[_shared("trial")])
    _describe(Comparison, found)
    _describe(Alignment, found)
    _describe(Progress, found)
    found["ComparisonResult"] = _comparison_result(found.pop("Comparison"))
    return found


def _shared(name: str) -> str:
    return f"Results{''.join(part.capitalize() for part in name.split('_'))}"


def _moved(schema: Any) -> Any:
    """The schema with its references pointing to where components are."""
    if isinstance(schema, Mapping):
        return {
            key: f"#/components/schemas/{_shared(value.rpartition('/')[2])}" if key == "$ref" else _moved(value)
            for key, value in schema.items()
        }
    return [_moved(item) for item in schema] if isinstance(schema, list) else schema


def _run_detail(results: Schema, scenario: Schema) -> Schema:
    """A run as in results.json, its scenarios page by page and without their trials."""
    brief = {**scenario, "required": ["id", *(name for name in scenario["required"] if name != "trials")]}
    brief["properties"] = {"id": {"type": "string"}} | {
        name: value for name, value in scenario["properties"].items() if name != "trials"
    }
    listed = {"type": "array", "items": brief}
    return {
        "type": "object",
        "required": [*results["required"], "scenario_count"],
        "properties": results["properties"]
        | {"run": refer("Run"), "scenario_count": {"type": "integer"}, "scenarios": listed},
    }


def _placed(trial: Schema) -> Schema:
    """A trial that says where it belongs."""
    place: Schema = {name: {"type": "string"} for name in ("run_id", "scenario_id", "scenario", "suite")}
    place |= {"agent": {"type": ["string", "null"]}}
    return {**trial, "required": [*place, *trial["required"]], "properties": {**place, **trial["properties"]}}


def _comparison_result(comparison: Schema) -> Schema:
    texts = {"type": "array", "items": {"type": "string"}}
    delta = {"type": ["number", "null"]}
    more: Schema = {
        "schema_version": {"type": "integer"},
        "passed": {"type": "boolean", "description": "Whether nothing speaks against the candidate."},
        "gate": {"enum": ["thresholds", "statistical", "both"]},
        "objections": texts,
        "undecided": {
            "type": "boolean",
            "description": "Whether the objections say only that trials could not be judged or tested.",
        },
        "regression_detected": {"type": "boolean"},
        "reasons": texts,
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "pass_rate_delta": delta,
        "avg_score_delta": delta,
        "latency_avg_delta_ms": delta,
        "cost_avg_delta_usd": delta,
        "alignments": {"type": "array", "items": refer("Alignment")},
    }
    return {
        "type": "object",
        "required": [*more, *comparison["required"]],
        "properties": {**more, **comparison["properties"]},
    }


def _describe(kind: type[Any], found: dict[str, Schema]) -> Schema:
    """A record as its form has it: every field, under its own name."""
    if kind.__name__ not in found:
        found[kind.__name__] = {}  # before its fields, which may refer to it
        hints = get_type_hints(kind)
        names = list(field_names(kind) or ())
        found[kind.__name__] = {
            "type": "object",
            "required": names,
            "properties": {name: _schema_of(hints[name], found) for name in names},
        }
    return refer(kind.__name__)


def _schema_of(hint: Any, found: dict[str, Schema]) -> Schema:
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return {"anyOf": [_schema_of(option, found) for option in get_args(hint)]}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(get_args(hint)[0], found)}
    if origin is Literal:
        return {"enum": list(get_args(hint))}
    if hint is Run:
        return refer("Run")
    if hint is ScenarioKey:
        texts = {"suite": {"type": "string"}, "name": {"type": "string"}, "agent": {"type": ["string", "null"]}}
        return {"type": "object", "required": list(texts), "properties": texts}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [one.value for one in hint]}
    if isinstance(hint, type) and field_names(hint) is not None:
        return _describe(hint, found)
    return dict(_PLAIN.get(hint, {}))


_PLAIN: dict[Any, Schema] = {
    NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: refer("ResultsNumber"),
}

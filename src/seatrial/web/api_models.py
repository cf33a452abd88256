"""What the API takes and returns: models of requests and lists, and JSON Schemas of everything else."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from msgspec.json import schema_components
from pydantic import BaseModel, ConfigDict, Field, model_validator

import seatrial.reports
from seatrial.model.comparison import Alignment, Comparison
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import ScenarioKey, Status, TrialSummary, Verdict
from seatrial.reports.json_report import to_json
from seatrial.store.runs import Label, RunRow

from .events import Progress
from .urls import scenario_id

Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\x00]*$")]
Ref = Annotated[str, Field(min_length=1, max_length=200, description="An id, a name, `latest` or `baseline`.")]


class RunItem(BaseModel):
    """A run in a list."""

    id: str
    name: str
    state: Literal["running", "finished", "interrupted"]
    status: Literal["passed", "failed", "errored", "inconclusive", "not_run"] = Field(description="The verdict.")
    failure_reasons: list[str]
    started_at: str
    finished_at: str | None
    git_commit: str | None
    git_dirty: bool | None
    git_branch: str | None
    scenarios: Count
    trials: Count = Field(description="All stored trials.")
    passed: Count
    failed: Count
    errored: Count
    pass_rate: float | None = Field(description="Share of the stored trials that passed; null without trials.")


class RunList(BaseModel):
    """Runs, newest first."""

    total: Count
    offset: Count
    runs: list[RunItem]
    unreadable: list[str] = Field(description="Stored runs that cannot be read, and why.")


class _OfScenario(BaseModel):
    scenario_id: str
    suite: str
    scenario: str
    agent: str | None


class TrialItem(_OfScenario):
    """A trial in a list, without its conversation."""

    id: str
    number: int = Field(ge=1, description="From 1, as in trial-1.")
    status: Literal["passed", "failed", "errored", "inconclusive", "not_run"]
    failure_reasons: list[str]
    error_kind: str | None
    error_message: str | None
    stop_reason: str
    turns: Count
    overall_score: float | str | None
    latency_ms: float | str | None = Field(description="The slowest turn.")
    cost_usd: float | str | None
    tokens: int | None
    started_at: str
    duration_ms: float | str


class _Query(BaseModel):
    """A query string. Unknown names are refused: a misspelt one would silently have no effect."""

    model_config = ConfigDict(extra="forbid")


class PageQuery(_Query):
    """Which part of a list to return."""

    offset: int = Field(default=0, ge=0, le=10**9)
    limit: int = Field(default=500, ge=1, le=1_000)


class RunsQuery(PageQuery):
    """Which runs to return."""

    limit: int = Field(default=20, ge=1, le=1_000)
    name: str | None = Field(default=None, max_length=200, description="The exact name.")


class BaselineQuery(_Query):
    """Which baseline."""

    suite: str | None = Field(default=None, max_length=500, description="Of this suite.")


class ComparisonQuery(_Query):
    """Which runs to compare, and how much worse the candidate may be."""

    baseline_run_id: Ref
    candidate_run_id: Ref
    max_pass_rate_drop: float = Field(default=0.0, ge=0, le=1, description="From 0 to 1: 0.05 is 5 points.")
    max_avg_score_drop: float = Field(default=5.0, ge=0, description="Points of the overall score.")
    max_latency_increase_pct: float = Field(default=20.0, ge=0)
    max_cost_increase_pct: float | None = Field(default=None, ge=0, description="Of a trial; no limit by default.")
    gate: Literal["auto", "thresholds", "statistical", "both"] = Field(
        default="thresholds", description="What decides."
    )


class TrialQuery(PageQuery):
    """Which trials to return. A filter that is not given matches all."""

    limit: int = Field(default=100, ge=1, le=1_000)
    status: Status | None = None
    scenario: str | None = Field(default=None, max_length=100, description="The id of a scenario.")
    tag: str = Field(default="", max_length=200)
    error_kind: ErrorKind | None = None
    q: str = Field(
        default="",
        max_length=200,
        description="Text in names, reasons, errors or conversations; case is ignored.",
    )


class CauseList(BaseModel):
    """The causes of a run's failures, as in results.json."""

    run_id: str
    causes: list[dict[str, Any]]


class TrialList(BaseModel):
    """Trials that match the filter, in the order of the run."""

    total: Count
    offset: Count
    searched: Count | None = Field(
        description="How many trials were searched, if the run is too large to search all; else null."
    )
    trials: list[TrialItem]


class StartRun(BaseModel):
    """What to run. The files and settings of the project define everything else."""

    model_config = ConfigDict(extra="forbid")

    paths: Annotated[list[Text], Field(min_length=1, max_length=50)] = Field(
        description="Suite files or folders, relative to the served folder."
    )
    name: Text | None = None
    scenarios: Annotated[list[Text], Field(max_length=50)] = Field(
        default=[], description="Only scenarios whose name contains one of these texts."
    )
    tags: Annotated[list[Text], Field(max_length=50)] = []
    trials: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] | None = None


class Started(BaseModel):
    """A run that was started. It is stored when its files are loaded."""

    run_id: str


class Cancelled(BaseModel):
    """A run that was asked to stop. Finished trials are kept."""

    run_id: str


class PutLabel(BaseModel):
    """A person's opinion of a trial."""

    model_config = ConfigDict(extra="forbid")

    scenario_id: Text
    number: int = Field(ge=1, le=2**31, description="Of the trial, from 1.")
    metric: Text = Field(default="passed", description="`passed` for the whole trial, or a metric.")
    value: float = Field(ge=-1e9, le=1e9, allow_inf_nan=False, description="1 for yes, 0 for no, or a score.")
    who: Text

    @model_validator(mode="after")
    def _yes_or_no(self) -> Self:
        if self.metric == "passed" and self.value not in (0, 1):
            raise ValueError("a label of the trial as a whole, `passed`, is 1 or 0")
        return self


class LabelItem(_OfScenario):
    """A stored label."""

    number: int
    metric: str
    value: float | str
    who: str
    at: str


class PutBaseline(BaseModel):
    """The run to make the baseline."""

    model_config = ConfigDict(extra="forbid")

    run_id: Text
    suite: Text | None = Field(default=None, description="Only for this suite.")


class BaselineItem(BaseModel):
    """A baseline; for every suite if `suite` is null."""

    suite: str | None
    run_id: str
    name: str


class SuiteList(BaseModel):
    """Suites that can be run, relative to the served folder."""

    suites: list[str]


def run_item(row: RunRow, verdict: Verdict) -> RunItem:
    rate = row.passed / row.trials if row.trials else None
    return RunItem(**_fields(RunItem, row, verdict, row.run, pass_rate=rate))


def trial_item(summary: TrialSummary) -> dict[str, Any]:
    """The fields of a TrialItem. A dict, because creating thousands of models takes too long."""
    return _fields(TrialItem, summary, number=summary.index + 1, **_scenario(summary.key))


def label_item(label: Label) -> dict[str, Any]:
    """The fields of a LabelItem."""
    return _fields(LabelItem, label, number=label.index + 1, **_scenario(label.key))


def _scenario(key: ScenarioKey) -> dict[str, Any]:
    return {"scenario_id": scenario_id(key), "suite": key.suite, "scenario": key.name, "agent": key.agent or None}


def _fields(model: type[BaseModel], *sources: object, **known: Any) -> dict[str, Any]:
    """The fields of the model: known, or the attribute of the first source that has it."""
    missing = (name for name in model.model_fields if name not in known)
    found = {name: next(getattr(one, name) for one in sources if hasattr(one, name)) for name in missing}
    return known | {name: to_json(value) for name, value in found.items()}


Schema = dict[str, Any]
_RESULTS = Path(seatrial.reports.__file__).with_name("results.schema.json")


def refer(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def answer(name: str, description: str) -> dict[int | str, Schema]:
    """The response of a route, by the name of its schema."""
    return {200: {"description": description, "content": {"application/json": {"schema": refer(name)}}}}


def events() -> dict[int | str, Schema]:
    """The response of the event stream."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": refer("Progress")}
    event = {"event": {"enum": ["progress", "end"]}, "data": data}
    schema = {"type": "object", "required": list(event), "properties": event}
    text = "`progress` whenever a number changes, `end` after the last event."
    return {200: {"description": text, "content": {"text/event-stream": {"schema": schema}}}}


def shared_schemas() -> dict[str, Schema]:
    """Every schema that is not a model, by name."""
    results = json.loads(_RESULTS.read_text(encoding="utf-8"))
    found = {_shared(name): _moved(schema) for name, schema in results["$defs"].items()}
    found["Run"] = _moved(results["properties"]["run"])
    found["RunDetail"] = _run_detail(_moved(results), found[_shared("scenario")])
    found["Trial"] = _placed(found[_shared("trial")])
    texts = {"suite": {"type": "string"}, "name": {"type": "string"}, "agent": {"type": ["string", "null"]}}
    found["ScenarioKey"] = {"type": "object", "required": list(texts), "properties": texts}
    structs = _struct_schemas(Comparison, Alignment, Progress)
    found["ComparisonResult"] = _comparison_result(structs.pop("Comparison"))
    return structs | found


def _shared(name: str) -> str:
    return f"Results{''.join(part.capitalize() for part in name.split('_'))}"


def _moved(schema: Any) -> Any:
    """The schema with references to the components of the OpenAPI document."""
    if isinstance(schema, Mapping):
        return {
            key: f"#/components/schemas/{_shared(value.rpartition('/')[2])}" if key == "$ref" else _moved(value)
            for key, value in schema.items()
        }
    return [_moved(item) for item in schema] if isinstance(schema, list) else schema


def _run_detail(results: Schema, scenario: Schema) -> Schema:
    """A run as in results.json, with a page of scenarios without trials."""
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
    """A trial with its run and scenario."""
    place: Schema = {name: {"type": "string"} for name in ("run_id", "scenario_id", "scenario", "suite")}
    place |= {"agent": {"type": ["string", "null"]}}
    return {**trial, "required": [*place, *trial["required"]], "properties": {**place, **trial["properties"]}}


def _comparison_result(comparison: Schema) -> Schema:
    texts = {"type": "array", "items": {"type": "string"}}
    delta = {"type": ["number", "null"]}
    more: Schema = {
        "schema_version": {"type": "integer"},
        "passed": {"type": "boolean", "description": "Whether there is no objection to the candidate."},
        "gate": {"enum": ["auto", "thresholds", "statistical", "both"]},
        "objections": texts,
        "undecided": {
            "type": "boolean",
            "description": "Whether all objections are about trials that could not be judged or tested.",
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


def _struct_schemas(*structs: type[Any]) -> dict[str, Schema]:
    """The schemas of structs and of everything in them, by name, as `to_json` writes them."""
    _, found = schema_components(structs, ref_template="#/components/schemas/{name}")
    return {name: _as_written(schema) for name, schema in found.items()}


def _as_written(schema: Any) -> Any:
    """All fields are written, also those with a default; a number may be the text "NaN"."""
    if isinstance(schema, list):
        return [_as_written(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "number":
        return refer("ResultsNumber")
    kept = {key: _as_written(value) for key, value in schema.items() if key not in ("default", "additionalProperties")}
    return {**kept, "required": list(kept["properties"])} if "properties" in kept else kept

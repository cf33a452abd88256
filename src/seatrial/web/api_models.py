"""What the API takes and gives where it is small enough to be a model. Every field is in the OpenAPI document."""

import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, model_validator

import seatrial.reports
from seatrial.model.comparison import Alignment, Comparison
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Run, ScenarioKey, Status, TrialSummary, Verdict
from seatrial.model.struct import field_names
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
    scenarios: Count
    trials: Count = Field(description="All that are stored.")
    passed: Count
    failed: Count
    errored: Count
    pass_rate: float | None = Field(description="Of the stored trials, errored ones included; null without any.")


class RunList(BaseModel):
    """Runs, newest first."""

    total: Count
    offset: Count
    runs: list[RunItem]
    unreadable: list[str] = Field(description="Stored runs that cannot be read and are left out: which, and why.")


class TrialItem(BaseModel):
    """A trial in a list, without its conversation."""

    id: str
    scenario_id: str
    suite: str
    scenario: str
    agent: str | None
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
    """What stands behind the question mark. A misspelt name would leave the usual value in force, and nobody would
    know."""

    model_config = ConfigDict(extra="forbid")


class PageQuery(_Query):
    """Which part of a list."""

    offset: int = Field(default=0, ge=0, le=10**9)
    limit: int = Field(default=500, ge=1, le=1_000)


class RunsQuery(PageQuery):
    """Which runs are asked for."""

    limit: int = Field(default=20, ge=1, le=1_000)
    name: str | None = Field(default=None, max_length=200, description="Exactly this one.")


class BaselineQuery(_Query):
    """Which baseline is meant."""

    suite: str | None = Field(default=None, max_length=500, description="Of this suite.")


class ComparisonQuery(_Query):
    """Which runs are compared, and how much worse the candidate may be."""

    baseline_run_id: Ref
    candidate_run_id: Ref
    max_pass_rate_drop: float = Field(default=0.0, ge=0, le=1, description="As a share: 0.05 is 5 points.")
    max_avg_score_drop: float = Field(default=5.0, ge=0, description="Points of the overall score.")
    max_latency_increase_pct: float = Field(default=20.0, ge=0)
    gate: Literal["thresholds", "statistical", "both"] = Field(default="thresholds", description="What decides.")


class TrialQuery(PageQuery):
    """Which trials are asked for; what is not given lets everything through."""

    limit: int = Field(default=100, ge=1, le=1_000)
    status: Status | None = None
    scenario: str | None = Field(default=None, max_length=100, description="The id of a scenario.")
    tag: str = Field(default="", max_length=200)
    error_kind: ErrorKind | None = None
    q: str = Field(
        default="",
        max_length=200,
        description="In names, reasons, errors and what was said: user, replies, tool calls; whatever its case.",
    )


class TrialList(BaseModel):
    """Trials that pass the filter, in the order of the run."""

    total: Count
    offset: Count
    searched: Count | None = Field(
        description="Where what was said in the run is more than one search looks through: in how many trials it did, "
        "from the first; null where in all."
    )
    trials: list[TrialItem]


class StartRun(BaseModel):
    """What to run. Everything else is as the files and the settings of the project say."""

    model_config = ConfigDict(extra="forbid")

    paths: Annotated[list[Text], Field(min_length=1, max_length=50)] = Field(
        description="Suite files or folders, relative to the folder that is served."
    )
    name: Text | None = None
    scenarios: Annotated[list[Text], Field(max_length=50)] = Field(
        default=[], description="Only scenarios whose name has one of these texts."
    )
    tags: Annotated[list[Text], Field(max_length=50)] = []
    trials: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] | None = None


class Started(BaseModel):
    """A run that was asked for; it is in the store once its files are read."""

    run_id: str


class Cancelled(BaseModel):
    """A run that was told to stop; what is finished is kept."""

    run_id: str


class PutLabel(BaseModel):
    """A person's opinion of a trial."""

    model_config = ConfigDict(extra="forbid")

    scenario_id: Text
    number: int = Field(ge=1, le=2**31, description="Of the trial, from 1.")
    metric: Text = Field(default="passed", description="`passed` for the trial as a whole, or a metric.")
    value: float = Field(ge=-1e9, le=1e9, allow_inf_nan=False, description="1 and 0 for yes and no, else a score.")
    who: Text

    @model_validator(mode="after")
    def _yes_or_no(self) -> Self:
        if self.metric == "passed" and self.value not in (0, 1):
            raise ValueError("a label of the trial as a whole, `passed`, is 1 or 0")
        return self


class LabelItem(BaseModel):
    """A label as it is stored."""

    scenario_id: str
    suite: str
    scenario: str
    agent: str | None
    number: int
    metric: str
    value: float | str
    who: str
    at: str


class PutBaseline(BaseModel):
    """The run that others are compared with."""

    model_config = ConfigDict(extra="forbid")

    run_id: Text
    suite: Text | None = Field(default=None, description="Only where the suite has this name.")


class BaselineItem(BaseModel):
    """A baseline; for every suite where none is named."""

    suite: str | None
    run_id: str
    name: str


class SuiteList(BaseModel):
    """Files that may be run, relative to the folder that is served."""

    suites: list[str]


def run_item(row: RunRow, verdict: Verdict) -> RunItem:
    run = row.run
    return RunItem(
        id=run.id,
        name=run.name,
        state=run.state.value,
        status=verdict.status.value,
        failure_reasons=list(verdict.failure_reasons),
        started_at=run.started_at.isoformat(),
        finished_at=to_json(run.finished_at),
        git_commit=run.git_commit,
        git_dirty=run.git_dirty,
        scenarios=row.scenarios,
        trials=row.trials,
        passed=row.passed,
        failed=row.failed,
        errored=row.errored,
        pass_rate=row.passed / row.trials if row.trials else None,
    )


def trial_item(summary: TrialSummary) -> dict[str, Any]:
    """A TrialItem; as a dict, since models of thousands of them would take most of the time."""
    key = summary.key
    return {
        "id": summary.id,
        "scenario_id": scenario_id(key),
        "suite": key.suite,
        "scenario": key.name,
        "agent": key.agent or None,
        "number": summary.index + 1,
        "status": summary.status.value,
        "failure_reasons": list(summary.failure_reasons),
        "error_kind": None if summary.error_kind is None else summary.error_kind.value,
        "error_message": summary.error_message,
        "stop_reason": summary.stop_reason,
        "turns": summary.turns,
        "overall_score": to_json(summary.overall_score),
        "latency_ms": to_json(summary.latency_ms),
        "cost_usd": to_json(summary.cost_usd),
        "tokens": summary.tokens,
        "started_at": summary.started_at.isoformat(),
        "duration_ms": to_json(summary.duration_ms),
    }


def label_item(label: Label) -> dict[str, Any]:
    key = label.key
    return {
        "scenario_id": scenario_id(key),
        "suite": key.suite,
        "scenario": key.name,
        "agent": key.agent or None,
        "number": label.index + 1,
        "metric": label.metric,
        "value": to_json(label.value),
        "who": label.who,
        "at": label.at.isoformat(),
    }


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

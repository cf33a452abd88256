"""What the API takes and gives where it is small enough to be a model. Every field is in the OpenAPI document."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Status, TrialSummary, Verdict
from seatrial.reports.to_json import moment, plain
from seatrial.store.labels import Label
from seatrial.store.runs import RunRow

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
        finished_at=moment(run.finished_at),
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
        "overall_score": plain(summary.overall_score),
        "latency_ms": plain(summary.latency_ms),
        "cost_usd": plain(summary.cost_usd),
        "tokens": summary.tokens,
        "started_at": summary.started_at.isoformat(),
        "duration_ms": plain(summary.duration_ms),
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
        "value": plain(label.value),
        "who": label.who,
        "at": label.at.isoformat(),
    }

"""The JSON API."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from seatrial.comparison.gate import Gate, decide_gate
from seatrial.errors import StoreError
from seatrial.model.comparison import RegressionLimits
from seatrial.model.run import Status, Verdict
from seatrial.reports.json_report import (
    SCHEMA_VERSION,
    cause_json,
    comparison_json,
    outcome_json,
    scenario_json,
    to_json,
    trial_json,
)
from seatrial.runs.report import StoredRecord
from seatrial.store.runs import RunRow

from .api_models import (
    BaselineItem,
    BaselineQuery,
    Cancelled,
    CauseList,
    ComparisonQuery,
    LabelItem,
    PageQuery,
    PutBaseline,
    PutLabel,
    RunList,
    RunsQuery,
    Started,
    StartRun,
    SuiteList,
    TrialList,
    TrialQuery,
    answer,
    events,
    label_item,
    run_item,
    trial_item,
)
from .app_state import AppState, NotFound, State
from .events import ProgressReader, progress_events
from .filters import TrialFilter, take_page
from .form_actions import cancel_run, choose_baseline, forget_baseline, put_label, resume_run
from .responses import AsciiJSONResponse, Problem
from .run_processes import Start, list_suites
from .urls import scenario_id

router = APIRouter(prefix="/api", responses={"4XX": {"model": Problem}}, default_response_class=AsciiJSONResponse)

RunId = Annotated[str, Path(max_length=200)]


@router.get("/runs")
def list_runs(state: State, query: Annotated[RunsQuery, Query()]) -> RunList:
    """Runs with their verdicts, newest first."""
    problems: list[tuple[str, str]] = []
    found = state.store.runs(name=query.name, problems=problems)
    page = take_page(found, offset=query.offset, limit=query.limit)
    rows = state.store.rows_of(page.items)
    kept = [(row, state.runs.verdict(row)) for row in rows]
    items = [run_item(row, _verdict(state, row) if known is None else known) for row, known in kept]
    unreadable = [problem for _, problem in problems]
    return RunList(total=page.total, offset=query.offset, runs=items, unreadable=unreadable)


def _verdict(state: AppState, row: RunRow) -> Verdict:
    """The verdict. A run that cannot be read is errored, and does not hide the others."""
    try:
        return state.runs.of(row).outcome.verdict
    except StoreError as broken:
        return Verdict(status=Status.ERRORED, failure_reasons=(str(broken),))


@router.get("/runs/compare", responses=answer("ComparisonResult", "Two runs side by side."))
def compare_runs(state: State, query: Annotated[ComparisonQuery, Query()]) -> Response:
    """The changes from baseline to candidate, and whether they are a regression or larger than noise."""
    limits = RegressionLimits(
        max_pass_rate_drop=query.max_pass_rate_drop,
        max_avg_score_drop=query.max_avg_score_drop,
        max_latency_increase_pct=query.max_latency_increase_pct,
        max_cost_increase_pct=query.max_cost_increase_pct,
    )
    runs, comparison = state.comparisons.compare(query.baseline_run_id, query.candidate_run_id, limits)
    form = comparison_json(
        comparison,
        gate=query.gate,
        decision=decide_gate(comparison, gate=Gate(query.gate)),
        alignments=runs.explain_changes(comparison),
    )
    return AsciiJSONResponse(form)


@router.get("/runs/{run_id}", responses=answer("RunDetail", "The run as in results.json, without its trials."))
def show_run(state: State, run_id: RunId, query: Annotated[PageQuery, Query()]) -> Response:
    """The verdict and numbers of a run, with a page of its scenarios."""
    decided = state.run(run_id)
    page = take_page(decided.outcome.scenarios, offset=query.offset, limit=query.limit)
    form = {
        "schema_version": SCHEMA_VERSION,
        "run": to_json(decided.run),
        **outcome_json(decided.outcome),
        "scenario_count": page.total,
        "scenarios": [{"id": scenario_id(one.entry.key), **scenario_json(one)} for one in page.items],
    }
    return AsciiJSONResponse(form)


@router.get("/runs/{run_id}/causes", responses={200: {"model": CauseList}})
def list_causes(state: State, run_id: RunId) -> Response:
    """The run's failures, grouped by cause."""
    record = StoredRecord(state.store, state.run(run_id).run)
    return AsciiJSONResponse({"run_id": run_id, "causes": [cause_json(cause) for cause in record.causes]})


@router.get("/runs/{run_id}/trials", responses={200: {"model": TrialList}})
def list_trials(state: State, run_id: RunId, query: Annotated[TrialQuery, Query()]) -> Response:
    """The trials that match the filter, without their conversations."""
    trial_filter = TrialFilter(
        status=query.status, tag=query.tag, text=query.q, error_kind=query.error_kind, scenario=query.scenario
    )
    decided = state.run(run_id) if query.scenario is None else state.scenario(run_id, query.scenario)[0]
    found, said = state.trials(decided, trial_filter)
    page = take_page(found, offset=query.offset, limit=query.limit)
    items = [trial_item(summary) for summary in page.items]
    searched = None if said is None or said.complete else said.searched
    return AsciiJSONResponse({"total": page.total, "offset": query.offset, "searched": searched, "trials": items})


@router.get(
    "/runs/{run_id}/scenarios/{scenario}/trials/{number}",
    responses=answer("Trial", "A trial as in results.json, with its run and scenario."),
)
def show_trial(state: State, run_id: RunId, scenario: RunId, number: Annotated[int, Path(ge=1, le=2**31)]) -> Response:
    """One trial with its conversation, results and scores."""
    decided, outcome = state.scenario(run_id, scenario)
    key = outcome.entry.key
    if not any(one.index == number - 1 for one in decided.trials.get(key, ())):
        raise NotFound(f"run {run_id}: has no trial-{number} of {key.label!r}")
    place = {"run_id": run_id, "scenario_id": scenario, "scenario": key.name, "suite": key.suite}
    form = trial_json(state.store.trial(run_id, key, number - 1))
    return AsciiJSONResponse({**place, "agent": key.agent or None, **form})


@router.get(
    "/runs/{run_id}/export",
    response_class=StreamingResponse,
    responses={200: {"description": "JSON Lines, for `seatrial import`.", "content": {"application/x-ndjson": {}}}},
)
def export_run(state: State, run_id: RunId) -> Response:
    """The whole run as JSON Lines, as `seatrial export` writes it."""
    decided = state.run(run_id)
    lines: Iterator[bytes] = state.store.export_run(decided.run.id)
    headers = {"content-disposition": f'attachment; filename="{_file_name(run_id)}.jsonl"'}
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses=events())
async def follow_run(state: State, run_id: RunId) -> Response:
    """Live progress as server-sent events, for any stored run."""
    if await run_in_threadpool(ProgressReader(state, run_id).read) is None:
        raise NotFound(f"no run has the id {run_id!r}")
    return StreamingResponse(progress_events(state, run_id), media_type="text/event-stream")


@router.get("/runs/{run_id}/labels", responses={200: {"model": list[LabelItem]}})
def list_labels(state: State, run_id: RunId) -> Response:
    """The human labels of the run's trials. `seatrial calibrate --run RUN` compares the judge with them."""
    decided = state.run(run_id)
    return AsciiJSONResponse([label_item(label) for label in state.store.labels(decided.run.id)])


@router.get("/suites")
def show_suites(state: State) -> SuiteList:
    """The suites that can be run."""
    return SuiteList(suites=list_suites(state.options.root))


def _file_name(run_id: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in run_id)


@router.post("/runs", status_code=202)
def start_run(state: State, body: StartRun) -> Started:
    """Start `seatrial run` in a separate process. Its progress is at `/api/runs/{run_id}/events`."""
    start = Start(
        paths=tuple(body.paths),
        name=body.name,
        scenario_text=tuple(body.scenarios),
        tags=tuple(body.tags),
        trials=None if body.trials is None else str(body.trials),
    )
    return Started(run_id=state.processes.start(start))


@router.post("/runs/{run_id}/cancel", status_code=202)
def cancel(state: State, run_id: RunId) -> Cancelled:
    """Interrupt a run of this server, like Ctrl-C. Finished trials are kept; the run can be resumed."""
    cancel_run(state, run_id)
    return Cancelled(run_id=run_id)


@router.post("/runs/{run_id}/resume", status_code=202)
def resume(state: State, run_id: RunId) -> Started:
    """Run the missing trials of an unfinished run, like `seatrial run --resume`."""
    resume_run(state, run_id)
    return Started(run_id=run_id)


@router.post("/runs/{run_id}/labels", responses={200: {"model": LabelItem}})
def label_trial(state: State, run_id: RunId, body: PutLabel) -> Response:
    """Store a human label of a trial. It replaces an earlier label of the same person and metric."""
    label = put_label(
        state,
        run_id,
        body.scenario_id,
        body.number - 1,
        metric=body.metric,
        value=body.value,
        who=body.who,
    )
    return AsciiJSONResponse(label_item(label))


@router.get("/baselines")
def list_baselines(state: State) -> list[BaselineItem]:
    """The baselines."""
    return [BaselineItem(suite=suite, run_id=run.id, name=run.name) for suite, run in state.store.baselines()]


@router.put("/baselines")
def put_baseline(state: State, body: PutBaseline) -> BaselineItem:
    """Make the run the baseline of every suite, or of one."""
    run = choose_baseline(state, body.run_id, suite=body.suite)
    return BaselineItem(suite=body.suite, run_id=run.id, name=run.name)


@router.delete("/baselines", status_code=204, response_class=Response)
def delete_baseline(state: State, query: Annotated[BaselineQuery, Query()]) -> None:
    """Clear a baseline. The run itself is kept."""
    forget_baseline(state, query.suite)

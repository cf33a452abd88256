"""The list of runs, and the page of one run."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from seatrial.clock import now
from seatrial.model.run import RunState, Status, Verdict
from seatrial.model.struct import Struct
from seatrial.reports.pages.environment import UNKNOWN, Dot, trend
from seatrial.reports.texts import percent
from seatrial.store.runs import RunRow
from seatrial.store.trials import SearchResult

from .app_state import AppState, NotFound, State
from .background import page_timeout
from .events import ProgressReader
from .filters import ORDERS, Order, Page, TrialFilter, find_scenarios, tags_of, take_page
from .form_actions import silent_since, why_not_resumed
from .responses import render
from .run_processes import list_suites
from .urls import run_url
from .verdict_cache import DecidedRun

RUNS_PER_PAGE = 50
router = APIRouter(include_in_schema=False)


class ShownRun(Struct, frozen=True, kw_only=True):
    """A row of the list."""

    row: RunRow
    verdict: Verdict | None
    """None: not decided yet; the page loads it later."""
    is_baseline: bool
    silent_since: datetime | None = None
    """When the last trial of a running run was stored, if that is long ago."""

    @property
    def status(self) -> str | None:
        if self.row.run.state is RunState.RUNNING:
            return "running"
        return None if self.verdict is None else self.verdict.status.value


@router.get("/")
def show_runs(
    request: Request,
    state: State,
    q: Annotated[str, Query(max_length=200)] = "",
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """Runs, newest first."""
    found = [run for run in state.store.runs() if not q or q.lower() in f"{run.name}\n{run.id}".lower()]
    page = take_page(found, offset=offset, limit=RUNS_PER_PAGE)
    baselines = {run.id for _, run in state.store.baselines()}
    rows = state.store.rows_of(page.items)
    shown = [
        ShownRun(
            row=row,
            verdict=state.runs.verdict(row),
            is_baseline=row.run.id in baselines,
            silent_since=silent_since(state, row.run),
        )
        for row in rows
    ]
    values: dict[str, Any] = {
        "title": "Runs",
        "runs": shown,
        "page": page,
        "q": q,
        "trend": trend([_dot(one) for one in reversed(shown) if one.row.trials]),
        "suites": [] if state.options.read_only else list_suites(state.options.root),
    }
    return render(request, "runs.html.jinja", values)


@router.get("/runs/{run_id}/verdict")
def show_verdict(request: Request, state: State, run_id: str) -> Response:
    """A verdict that the list loads later."""
    return render(request, "verdict.html.jinja", {"status": state.run(run_id).outcome.verdict.status.value})


def _dot(one: ShownRun) -> Dot:
    row = one.row
    rate = row.passed / row.trials
    when = f"{row.run.started_at:%Y-%m-%d %H:%M}"
    return Dot(
        rate=rate,
        title=f"{row.run.name}, {when}: {percent(rate)} of {row.trials:,} trials passed",
        href=run_url(row.run.id),
        kind=one.status or UNKNOWN,
    )


def newest_rows(state: AppState) -> list[RunRow]:
    """The runs of the first page."""
    return state.store.run_rows(RUNS_PER_PAGE)


SCENARIOS_PER_PAGE = 100


class RunQuery(BaseModel):
    """The query of the page. An empty text matches everything."""

    view: Literal["scenarios", "trials"] = "scenarios"
    status: Literal["", "passed", "failed", "errored", "inconclusive", "not_run"] = ""
    tag: str = Field(default="", max_length=200)
    q: str = Field(default="", max_length=200)
    order: Order = "worst"
    offset: int = Field(default=0, ge=0, le=10**9)

    def address(self, **other: object) -> dict[str, object]:
        """The query with other values."""
        return {**self.model_dump(exclude={"offset"}, exclude_defaults=True), **other}

    @property
    def trial_filter(self) -> TrialFilter:
        return TrialFilter(status=Status(self.status) if self.status else None, tag=self.tag, text=self.q)


@router.get("/runs/{run_id}")
def show_run(request: Request, state: State, run_id: str, query: Annotated[RunQuery, Query()]) -> Response:
    """One run."""
    decided = state.runs.get(run_id, timeout=page_timeout(request))
    if decided is None:
        return _show_start(request, state, run_id)
    run = decided.run
    is_live = run.state is RunState.RUNNING or state.processes.is_resuming(run)
    silent = silent_since(state, run)
    page, said = _page(state, decided, query, timeout=page_timeout(request))
    values: dict[str, Any] = {
        "title": run.name,
        "decided": decided,
        "run": run,
        "outcome": decided.outcome,
        "query": query,
        "page": page,
        "said": said,
        "tags": tags_of(decided),
        "orders": ORDERS,
        "progress": ProgressReader(state, run_id).read() if is_live else None,
        "can_cancel": is_live and state.processes.is_running(run_id),
        "silent_since": silent,
        "silent_ms": None if silent is None else (now() - silent).total_seconds() * 1000,
        "can_resume": why_not_resumed(state, run) is None,
        "error_output": state.processes.error_output(run_id) if run.state is not RunState.FINISHED else None,
        "baselines": [suite for suite, one in state.store.baselines() if one.id == run.id],
        "baseline": _baseline(state, decided),
        "config": run.config or {},
    }
    return render(request, "run.html.jinja", values)


def _page(
    state: AppState, decided: DecidedRun, query: RunQuery, *, timeout: float | None
) -> tuple[Page, SearchResult | None]:
    """The listed scenarios or trials, and the search result if a text was searched."""
    if query.view == "trials":
        found, said = state.trials(decided, query.trial_filter, timeout=timeout)
        return take_page(found, offset=query.offset, limit=SCENARIOS_PER_PAGE), said
    return take_page(
        find_scenarios(decided, query.trial_filter, query.order), offset=query.offset, limit=SCENARIOS_PER_PAGE
    ), None


def _baseline(state: AppState, decided: DecidedRun) -> str | None:
    """The id of the baseline; None if there is none, or it is this run."""
    suites = dict.fromkeys(one.entry.key.suite for one in decided.outcome.scenarios[:SCENARIOS_PER_PAGE])
    for suite in suites:
        found = state.store.baseline(suite)
        if found is not None:
            return None if found.id == decided.run.id else found.id
    return None


def _show_start(request: Request, state: AppState, run_id: str) -> Response:
    """A run of this server that is not stored yet: still loading its files, or refused."""
    if not state.processes.was_started(run_id):
        raise NotFound(f"no run has the id {run_id!r}")
    values = {
        "title": "Starting",
        "run_id": run_id,
        "is_running": state.processes.is_running(run_id),
        "error_output": state.processes.error_output(run_id),
    }
    return render(request, "starting.html.jinja", values)

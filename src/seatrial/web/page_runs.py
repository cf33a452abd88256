"""The list of runs, with their history."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from seatrial.model.run import Run, RunState, Verdict
from seatrial.model.struct import Struct
from seatrial.store.runs import RunRow

from .app_state import AppState, State
from .filters import take_page
from .form_actions import silent_since
from .responses import render
from .run_history import (
    MOST_COLUMNS,
    decided_runs,
    interval_of,
    plots_of,
    rows_to_plot,
    start_of_comparison,
    suites_of,
    trend_of_runs,
)
from .run_processes import list_suites

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

    @property
    def interval(self) -> str:
        low, high = interval_of(self.row)
        return f"between {100 * low:.0f} and {100 * high:.0f} %"


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs are listed. Empty values match everything."""

    text: str = ""
    suite: str = ""
    agent: str = ""
    branch: str = ""

    def matches(self, run: Run) -> bool:
        named = not self.text or self.text.lower() in f"{run.name}\n{run.id}\n{run.git_commit or ''}".lower()
        of_suite = not self.suite or self.suite in suites_of(run)
        of_branch = not self.branch or self.branch == run.git_branch
        return named and of_suite and of_branch and (not self.agent or self.agent in agents_of(run))

    def query(self, offset: int = 0) -> dict[str, object]:
        given = {"q": self.text, "suite": self.suite, "agent": self.agent, "branch": self.branch, "offset": offset}
        return {name: value for name, value in given.items() if value}


def agents_of(run: Run) -> list[str]:
    """The agents of the run, each in a few words."""
    config = run.config or {}
    agents = config.get("agents")
    given = [config.get("agent"), *(agents.values() if isinstance(agents, dict) else [])]
    return list(dict.fromkeys(name for one in given if (name := _agent_name(one))))


def _agent_name(agent: object) -> str:
    if isinstance(agent, dict):
        return str(agent.get("target") or agent.get("model") or agent.get("url") or agent.get("type") or "")
    return agent if isinstance(agent, str) else ""


@router.get("/")
def show_runs(
    request: Request,
    state: State,
    q: Annotated[str, Query(max_length=200)] = "",
    suite: Annotated[str, Query(max_length=200)] = "",
    agent: Annotated[str, Query(max_length=200)] = "",
    branch: Annotated[str, Query(max_length=200)] = "",
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """Runs, newest first."""
    known = state.store.runs()
    run_filter = RunFilter(text=q, suite=suite, agent=agent, branch=branch)
    page = take_page([run for run in known if run_filter.matches(run)], offset=offset, limit=RUNS_PER_PAGE)
    baselines = {run.id for run in _baselines(state)}
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
    verdicts = {one.row.run.id: one.verdict for one in shown if one.verdict is not None}
    plotted, of_suites = rows_to_plot(rows)
    decided = decided_runs(state, plotted, wait=False)
    heat_map, costs = plots_of(decided)
    finished = [row for row in plotted[:MOST_COLUMNS] if row.run.state is not RunState.RUNNING and row.trials]
    values: dict[str, Any] = {
        "title": "Runs",
        "runs": shown,
        "page": page,
        "filter": run_filter,
        "choices": _choices(known),
        "from_id": start_of_comparison(rows[0].run, _baselines(state), page.items) if rows else None,
        "of_suites": of_suites,
        "trend": trend_of_runs(plotted, verdicts, baselines),
        "heat_map": heat_map,
        "costs": costs,
        "load_history": len(decided) < len(finished),
        "has_accepted": bool(baselines) or any(run.accepted for run in known),
        "suites": [] if state.options.read_only else list_suites(state.options.root),
    }
    return render(request, "runs.html.jinja", values)


@router.get("/history")
def show_history(
    request: Request,
    state: State,
    q: Annotated[str, Query(max_length=200)] = "",
    suite: Annotated[str, Query(max_length=200)] = "",
    agent: Annotated[str, Query(max_length=200)] = "",
    branch: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """The heat map and the costs, for runs that were not decided when the list was shown."""
    rows = _first_rows(state, RunFilter(text=q, suite=suite, agent=agent, branch=branch))
    decided = decided_runs(state, rows_to_plot(rows)[0], wait=True)
    return render(request, "history.html.jinja", {"heat_map": plots_of(decided)[0]})


@router.get("/drift")
def show_drift(
    request: Request,
    state: State,
    q: Annotated[str, Query(max_length=200)] = "",
    suite: Annotated[str, Query(max_length=200)] = "",
    agent: Annotated[str, Query(max_length=200)] = "",
    branch: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Suites whose pass rate decays over the accepted runs, and the trend with the place where a decay began.

    The list of runs loads it later.
    """
    from seatrial.runs.trend import read_trends

    trends = read_trends(state.store)
    began = frozenset(trend.since for trend in trends if trend.since is not None)
    plot = None
    if began:
        rows = rows_to_plot(_first_rows(state, RunFilter(text=q, suite=suite, agent=agent, branch=branch)))[0]
        verdicts = {row.run.id: known for row in rows if (known := state.runs.verdict(row)) is not None}
        plot = trend_of_runs(rows, verdicts, {run.id for run in _baselines(state)}, began)
    return render(request, "drift.html.jinja", {"trends": trends, "plot": plot})


def _first_rows(state: AppState, run_filter: RunFilter) -> list[RunRow]:
    """The runs of the first page that match the filter."""
    found = [run for run in state.store.runs() if run_filter.matches(run)]
    return state.store.rows_of(found[:RUNS_PER_PAGE])


def _baselines(state: AppState) -> list[Run]:
    return [run for _, run in state.store.baselines()]


def _choices(known: list[Run]) -> dict[str, list[str]]:
    """The suites, agents and branches to choose from."""
    return {
        "suite": sorted({suite for run in known for suite in suites_of(run)}),
        "agent": sorted({agent for run in known for agent in agents_of(run)}),
        "branch": sorted({run.git_branch for run in known if run.git_branch}),
    }


@router.get("/runs/{run_id}/verdict")
def show_verdict(request: Request, state: State, run_id: str) -> Response:
    """A verdict that the list loads later."""
    return render(request, "verdict.html.jinja", {"status": state.run(run_id).outcome.verdict.status.value})


def newest_rows(state: AppState) -> list[RunRow]:
    """The runs of the first page."""
    return state.store.run_rows(RUNS_PER_PAGE)

"""The page of one run."""

from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from seatrial.clock import now
from seatrial.errors import StoreError
from seatrial.model.run import RunOutcome, RunState, ScenarioOutcome, Status, TrialSummary
from seatrial.reports.failing_checks import first_check, group_failures
from seatrial.reports.plots.distributions import metric_strips
from seatrial.reports.plots.svg import Plot
from seatrial.reports.scenario_plots import dots_of, flow_of_trials, latency_of, scores_of, severity_of
from seatrial.reports.sweep_matrix import sweep_of
from seatrial.reports.texts import not_counted_reason
from seatrial.reports.tiles import Tile, mutation_tile, tiles_of
from seatrial.runs.mutation_tally import load_mutation
from seatrial.runs.report import StoredRecord
from seatrial.store.trials import SearchResult

from .app_state import AppState, NotFound, State
from .background import page_timeout
from .events import ProgressReader
from .filters import ORDERS, Order, Page, TrialFilter, find_scenarios, tags_of, take_page
from .form_actions import silent_since, why_not_resumed
from .responses import render
from .run_history import share_suite
from .urls import run_url, trial_url
from .verdict_cache import DecidedRun

router = APIRouter(include_in_schema=False)
SCENARIOS_PER_PAGE = 70
CAUSES_SHOWN = 50
FLOW_TRIALS = 50
"""The number of conversations on each side of the plot of tool calls."""


class RunQuery(BaseModel):
    """The query of the page. An empty text matches everything."""

    view: Literal["scenarios", "trials", "plots"] = "scenarios"
    status: Literal["", "passed", "failed", "errored", "flaky", "inconclusive", "not_run"] = ""
    tag: str = Field(default="", max_length=200)
    q: str = Field(default="", max_length=200)
    order: Order = "worst"
    offset: int = Field(default=0, ge=0, le=10**9)

    def address(self, **other: object) -> dict[str, object]:
        """The query with other values."""
        return {**self.model_dump(exclude={"offset"}, exclude_defaults=True), **other}

    @property
    def trial_filter(self) -> TrialFilter:
        flaky = self.status == "flaky"
        status = Status(self.status) if self.status and not flaky else None
        return TrialFilter(status=status, flaky=flaky, tag=self.tag, text=self.q)


@router.get("/runs/{run_id}/causes")
def show_causes(request: Request, state: State, run_id: str) -> Response:
    """The causes of the run's failures, which its page loads later: they need whole conversations."""
    record = StoredRecord(state.store, state.run(run_id).run)
    found = [cause for cause in record.causes if cause.counts][:CAUSES_SHOWN]
    return render(request, "causes.html.jinja", {"found": found, "run": record.run})


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
    baseline = _baseline(state, decided)
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
        "baseline": baseline,
        "tiles": [
            *tiles_of(decided.outcome, _known_outcome(state, baseline)),
            *_mutation_tile(state, run.id, baseline),
        ],
        "link_to": lambda key, index: trial_url(run.id, key, index),
        "groups": group_failures(decided.summaries),
        "sweep": sweep_of(decided.outcome),
        "dots": lambda one: _dots(decided, one),
        "why": lambda one: _why(decided, one, is_live=is_live),
        "several_suites": len({one.entry.key.suite for one in decided.outcome.scenarios}) > 1,
        "plots": _plots(state, decided) if query.view == "plots" else [],
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


def _dots(decided: DecidedRun, one: ScenarioOutcome) -> Plot:
    trials = decided.trials.get(one.entry.key, ())
    return dots_of(one, trials, lambda trial: trial_url(decided.run.id, trial.key, trial.index))


def _why(decided: DecidedRun, one: ScenarioOutcome, *, is_live: bool) -> tuple[str, TrialSummary | None]:
    """The failing check of the scenario's first trial that did not pass, and that trial; else the verdict's reasons.

    In a sweep over faults: what the agent did.
    """
    aside = not_counted_reason(one)
    if aside is not None:
        return aside, None
    if is_live and one.verdict.status is Status.NOT_RUN:
        return "not finished yet", None
    trials = decided.trials.get(one.entry.key, ())
    bad = next((trial for trial in trials if trial.status is not Status.PASSED or trial.fault is not None), None)
    if bad is not None:
        return first_check(bad), bad
    return "; ".join(one.verdict.failure_reasons), None


def _plots(state: AppState, decided: DecidedRun) -> list[Plot]:
    """The plots of the run. What was not measured has none."""
    scores = scores_of(decided.summaries)
    made = [latency_of(decided.summaries)]
    made += [metric_strips(scores, title="Scores by metric")] if scores else []
    made += [severity_of(decided.summaries)] if any(one.failures for one in decided.summaries) else []
    bad = [one for one in decided.summaries if one.status is not Status.PASSED][:FLOW_TRIALS]
    if bad:
        keys = {one.key for one in bad}
        good = [one for one in decided.summaries if one.status is Status.PASSED]
        good.sort(key=lambda one: one.key not in keys)  # first of all trials of the same scenarios
        sample = (*good[:FLOW_TRIALS], *bad)
        made.append(flow_of_trials(state.store.trial(decided.run.id, one.key, one.index) for one in sample))
    return made


def _known_outcome(state: AppState, run_id: str | None) -> RunOutcome | None:
    """The outcome of the baseline, if it is decided. Else it is decided in the background, for the next page."""
    row = None if run_id is None else state.store.run_row(run_id)
    if row is None:
        return None
    known = state.runs.known(row.run)
    if known is None:
        state.runs.prepare(row)
    return None if known is None else known.outcome


def _mutation_tile(state: AppState, run_id: str, baseline: str | None) -> list[Tile]:
    """The score of the run's newest mutation, if there is one that can be read."""
    with suppress(StoreError):
        found = load_mutation(state.options.store, run_id)
        before = None if baseline is None else load_mutation(state.options.store, baseline)
        tile = None if found is None else mutation_tile(found, before, href=f"{run_url(run_id)}/mutation")
        return [] if tile is None else [tile]
    return []


def _baseline(state: AppState, decided: DecidedRun) -> str | None:
    """The id of the baseline; None if there is none, it has other suites, or it is this run."""
    suites = dict.fromkeys(one.entry.key.suite for one in decided.outcome.scenarios[:SCENARIOS_PER_PAGE])
    for suite in suites:
        found = state.store.baseline(suite)
        if found is not None and share_suite(found, decided.run):
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

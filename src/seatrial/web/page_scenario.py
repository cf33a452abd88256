"""The page of a scenario in a run, and the page of a trial."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from seatrial.model.run import ScenarioKey, Status, TrialSummary
from seatrial.reports.pages.environment import UNKNOWN, Bar, Dot, histogram, trend
from seatrial.reports.scenario_totals import flaky_line, is_flaky
from seatrial.runs.calibrate import WHOLE_TRIAL
from seatrial.statistics.intervals import wilson_interval
from seatrial.store.runs import RunRow

from .app_state import AppState, NotFound, State
from .background import page_timeout
from .filters import TrialFilter, take_page
from .responses import render
from .urls import scenario_url

PAGE = 100
LOOKED_BACK = 40
"""The number of runs in the history."""
router = APIRouter(include_in_schema=False)


@router.get("/runs/{run_id}/scenarios/{scenario}")
def show_scenario(
    request: Request,
    state: State,
    run_id: str,
    scenario: str,
    status: Literal["", "passed", "failed", "errored"] = "",
    q: Annotated[str, Query(max_length=200)] = "",
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """One scenario."""
    decided, outcome = state.scenario(run_id, scenario, timeout=page_timeout(request))
    key = outcome.entry.key
    trials = decided.trials.get(key, ())
    trial_filter = TrialFilter(status=Status(status) if status else None, text=q, scenario=scenario)
    found, said = state.trials(decided, trial_filter, timeout=page_timeout(request))
    history = [_dot(row, key, _status(state, row, scenario)) for row in reversed(state.store.history(key, LOOKED_BACK))]
    values: dict[str, Any] = {
        "title": key.label,
        "run": decided.run,
        "outcome": outcome,
        "sums": decided.sums.get(key),
        "page": take_page(found, offset=offset, limit=PAGE),
        "said": said,
        "status": status,
        "q": q,
        "history": trend(history),
        "metrics": _metrics(trials),
        "flaky": flaky_line(outcome) if is_flaky(outcome) else None,
    }
    return render(request, "scenario.html.jinja", values)


def _status(state: AppState, row: RunRow, scenario: str) -> str:
    """The verdict of the scenario in that run, if it is cached."""
    decided = state.runs.known(row.run)
    outcome = None if decided is None else decided.scenarios.get(scenario)
    return UNKNOWN if outcome is None or outcome.played != row.trials else outcome.verdict.status.value


def _dot(row: RunRow, key: ScenarioKey, status: str) -> Dot:
    rate = row.passed / row.trials
    low, high = wilson_interval(row.passed, row.passed + row.failed)
    return Dot(
        rate=rate,
        title=f"{row.run.name}, {row.run.started_at:%Y-%m-%d %H:%M}: {row.passed}/{row.trials} passed",
        href=scenario_url(row.run.id, key),
        kind=status,
        low=low,
        high=high,
    )


def _metrics(trials: tuple[TrialSummary, ...]) -> list[tuple[str, list[Bar]]]:
    """How often each value was given, by metric."""
    values: dict[str, list[float]] = {}
    for trial in trials:
        for score in trial.scores:
            values.setdefault(score.metric, []).append(score.value)
    return [(metric, histogram(given)) for metric, given in values.items()]


@router.get("/runs/{run_id}/scenarios/{scenario}/trials/{number}")
def show_trial(request: Request, state: State, run_id: str, scenario: str, number: int) -> Response:
    """One conversation."""
    decided, outcome = state.scenario(run_id, scenario, timeout=page_timeout(request))
    key = outcome.entry.key
    known = decided.trials.get(key, ())
    place = next((place for place, one in enumerate(known) if one.index == number - 1), None)
    if place is None:
        raise NotFound(f"run {run_id}: has no trial-{number} of {key.label!r}")
    trial = state.store.trial(run_id, key, number - 1)
    labels = [one for one in state.store.labels(run_id, key=key) if one.index == trial.index]
    values: dict[str, Any] = {
        "title": f"{trial.id} of {key.label}",
        "run": decided.run,
        "outcome": outcome,
        "trial": trial,
        "labels": labels,
        "metrics": [WHOLE_TRIAL, *dict.fromkeys(score.metric for score in known[place].scores)],
        "before": known[place - 1] if place else None,
        "after": known[place + 1] if place + 1 < len(known) else None,
        "next_failing": _next_failing(known, place),
    }
    return render(request, "trial.html.jinja", values)


def _next_failing(known: tuple[TrialSummary, ...], place: int) -> TrialSummary | None:
    """The next trial that did not pass, continuing at the start of the list."""
    others = (*known[place + 1 :], *known[:place])
    return next((one for one in others if one.status is not Status.PASSED), None)

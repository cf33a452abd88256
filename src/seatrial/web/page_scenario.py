"""The page of a scenario in a run, and the page of a trial."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from seatrial.model.run import ScenarioKey, ScenarioOutcome, Status, Trial, TrialSummary
from seatrial.model.struct import Struct
from seatrial.reports.aligned_turns import align_turns, find_marked
from seatrial.reports.plots.svg import Plot
from seatrial.reports.plots.trends import UNKNOWN
from seatrial.reports.scenario_plots import curve_of, dots_of, flow_of_trials, latency_of, scores_of
from seatrial.reports.scenario_totals import flaky_line, is_flaky
from seatrial.runs.calibrate import WHOLE_TRIAL
from seatrial.runs.definitions import definition_name
from seatrial.runs.explain import find_beside
from seatrial.store.runs import RunRow

from .app_state import AppState, NotFound, State
from .background import page_timeout
from .filters import TrialFilter, take_page
from .form_actions import why_not_forked
from .responses import render
from .run_history import trend_of_scenario
from .urls import trial_url
from .verdict_cache import DecidedRun

PAGE = 100
LOOKED_BACK = 40
"""The number of runs in the history."""
FLOW_TRIALS = 20
"""The number of conversations on each side of the plot of tool calls."""
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
    history = state.store.history(key, LOOKED_BACK)[::-1]
    statuses = [_status(state, row, scenario) for row in history]
    values: dict[str, Any] = {
        "title": key.label,
        "run": decided.run,
        "outcome": outcome,
        "sums": decided.sums.get(key),
        "page": take_page(found, offset=offset, limit=PAGE),
        "said": said,
        "status": status,
        "q": q,
        "definition": _definition(state, outcome),
        "history": trend_of_scenario(history, key, statuses),
        "scores": scores_of(trials),
        "metric_history": _metric_history(state, history, key),
        "dots": dots_of(outcome, trials, lambda one: trial_url(run_id, one.key, one.index)),
        "plots": _plots(state, decided, outcome),
        "flaky": flaky_line(outcome) if is_flaky(outcome) else None,
    }
    return render(request, "scenario.html.jinja", values)


def _definition(state: AppState, outcome: ScenarioOutcome) -> dict[str, str]:
    """What the scenario's file says, as YAML in groups; empty for runs that did not store it."""
    import yaml

    found = state.store.content(definition_name(outcome.entry.fingerprint)) or {}
    return {
        group: yaml.safe_dump(keys, sort_keys=False, allow_unicode=True, width=90).rstrip()
        for group, keys in found.items()
    }


def _metric_history(state: AppState, history: Sequence[RunRow], key: ScenarioKey) -> dict[str, list[float]]:
    """The mean of each metric in the runs that are decided, oldest first."""
    means: dict[str, list[float]] = {}
    for row in history:
        decided = state.runs.known(row.run)
        for metric, values in scores_of(decided.trials.get(key, ()) if decided else ()).items():
            means.setdefault(metric, []).append(sum(values) / len(values))
    return means


def _status(state: AppState, row: RunRow, scenario: str) -> str:
    """The verdict of the scenario in that run, if it is cached."""
    decided = state.runs.known(row.run)
    outcome = None if decided is None else decided.scenarios.get(scenario)
    return UNKNOWN if outcome is None or outcome.played != row.trials else outcome.verdict.status.value


def _plots(state: AppState, decided: DecidedRun, outcome: ScenarioOutcome) -> list[Plot]:
    """Latency, chances of several tries, and tool calls if some trials passed and others did not."""
    trials = decided.trials.get(outcome.entry.key, ())
    if len(trials) < 2:
        return []
    made = [latency_of(trials)]
    if outcome.entry.sequential is None:
        made.append(curve_of(outcome))
    if is_flaky(outcome):
        made.append(flow_of_trials(_flow_sample(state, decided.run.id, trials)))
    return made


def _flow_sample(state: AppState, run_id: str, trials: tuple[TrialSummary, ...]) -> Iterator[Trial]:
    """The first passed and the first other trials, with their conversations."""
    passed = [one for one in trials if one.status is Status.PASSED]
    failed = [one for one in trials if one.status is not Status.PASSED]
    for one in (*passed[:FLOW_TRIALS], *failed[:FLOW_TRIALS]):
        yield state.store.trial(run_id, one.key, one.index)


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
        "next_failing": _next_failing(decided, trial),
        "not_forked": why_not_forked(decided.run, trial),
        "fork_points": list(_fork_points(trial)),
    }
    return render(request, "trial.html.jinja", values)


def _fork_points(trial: Trial) -> Iterator[tuple[str, str]]:
    """(value of --at, text) of each turn and call."""
    number = 0
    for turn in trial.transcript.turns:
        yield str(turn.index + 1), f"turn {turn.index + 1}"
        for call in turn.tool_calls or ():
            number += 1
            yield f"call:{number}", f"call {number}: {call.name}"


class Side(Struct, frozen=True, kw_only=True):
    """A trial and its run."""

    run_id: str
    trial: Trial


@router.get("/runs/{run_id}/scenarios/{scenario}/trials/{number}/beside")
def show_beside(request: Request, state: State, run_id: str, scenario: str, number: int) -> Response:
    """A conversation that did not pass, beside the nearest one that did, with the first difference marked."""
    decided, outcome = state.scenario(run_id, scenario, timeout=page_timeout(request))
    key = outcome.entry.key
    if all(one.index != number - 1 for one in decided.trials.get(key, ())):
        raise NotFound(f"run {run_id}: has no trial-{number} of {key.label!r}")
    trial = state.store.trial(run_id, key, number - 1)
    found = find_beside(state.store, decided.run, outcome.entry, trial)
    turns = align_turns(found.passed, trial)
    passed_run = found.divergence.passed_run or run_id
    values: dict[str, Any] = {
        "title": f"{trial.id} of {key.label} beside a passed trial",
        "run": decided.run,
        "failed": Side(run_id=run_id, trial=trial),
        "passed": None if found.passed is None else Side(run_id=passed_run, trial=found.passed),
        "divergence": found.divergence,
        "turns": turns,
        "marked": find_marked(turns, found.divergence),
    }
    return render(request, "beside.html.jinja", values)


def _next_failing(decided: DecidedRun, trial: Trial) -> TrialSummary | None:
    """The next trial of the run that did not pass, after this one; at the end, the first one."""
    failing = [one for one in decided.summaries if one.status is not Status.PASSED]
    place = next(
        (at for at, one in enumerate(decided.summaries) if (one.key, one.index) == (trial.key, trial.index)), -1
    )
    later = [one for one in decided.summaries[place + 1 :] if one.status is not Status.PASSED]
    found = next(iter(later or failing), None)
    return None if found is None or (found.key, found.index) == (trial.key, trial.index) else found

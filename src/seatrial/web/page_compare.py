"""The pages that compare two runs, and one scenario in both."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from seatrial.comparison.aggregates import find_gap
from seatrial.comparison.gate import Gate, decide_gate
from seatrial.model.comparison import Alignment, Change, RegressionLimits, ScenarioChange
from seatrial.model.run import Run, ScenarioKey, Trial
from seatrial.model.struct import Struct
from seatrial.reports.comparison import TITLES, mark_of, shown_p_value
from seatrial.runs.compare_runs import StoredRuns

from .app_state import AppState, NotFound, State
from .background import page_timeout
from .filters import take_page
from .responses import render
from .urls import scenario_id
from .verdict_cache import Compared

PAGE = 100
CHOICE = 200
router = APIRouter(include_in_schema=False)
Ref = Annotated[str, Query(max_length=200)]


class Side(Struct, frozen=True, kw_only=True):
    """A trial and its run."""

    run_id: str
    trial: Trial


@router.get("/compare")
def show_comparison(
    request: Request,
    state: State,
    baseline_run_id: Ref = "",
    candidate_run_id: Ref = "",
    change: Change | None = None,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """The comparison, or a form to choose two runs."""
    if not baseline_run_id or not candidate_run_id:
        return _show_choice(request, state, baseline_run_id, candidate_run_id)
    runs, comparison = _compare(request, state, baseline_run_id, candidate_run_id)
    found = [one for kind in TITLES for one in comparison.scenarios if one.change is kind and change in (None, kind)]
    values: dict[str, Any] = {
        "title": "Compare",
        "comparison": comparison,
        "decision": decide_gate(comparison, gate=Gate.AUTO),
        "gaps": [gap for side in runs.sides if (gap := find_gap(side)) is not None],
        "titles": TITLES,
        "mark_of": mark_of,
        "shown_p_value": shown_p_value,
        "counts": {kind: comparison.count(kind) for kind in TITLES},
        "change": change,
        "page": take_page(found, offset=offset, limit=PAGE),
        "alignments": {alignment.key: alignment for alignment in runs.explain_changes(comparison)},
    }
    return render(request, "compare.html.jinja", values)


@router.get("/compare/{scenario}")
def show_side_by_side(
    request: Request, state: State, scenario: str, baseline_run_id: Ref, candidate_run_id: Ref
) -> Response:
    """One scenario in both runs, with two conversations side by side."""
    runs, comparison = _compare(request, state, baseline_run_id, candidate_run_id)
    found = next((one for one in comparison.scenarios if scenario_id(one.key) == scenario), None)
    if found is None:
        raise NotFound(f"neither run has a scenario with the id {scenario!r}")
    alignment = runs.explain(found.key)
    base, candidate = _conversations(runs, found, alignment)
    values: dict[str, Any] = {
        "title": found.key.label,
        "comparison": comparison,
        "scenario": found,
        "head": TITLES[found.change],
        "mark_of": mark_of,
        "alignment": alignment,
        "base": base,
        "candidate": candidate,
    }
    return render(request, "side_by_side.html.jinja", values)


def _compare(request: Request, state: AppState, base: str, candidate: str) -> Compared:
    """The comparison with default limits. Unfinished runs are allowed."""
    timeout = page_timeout(request)
    return state.comparisons.compare(base, candidate, RegressionLimits(), allow_unfinished=True, timeout=timeout)


def _show_choice(request: Request, state: AppState, base: str, candidate: str) -> Response:
    """The form. Unless another is chosen, it compares with the baseline, else with the run before the newest."""
    known = state.store.runs(CHOICE)
    newest = candidate or (known[0].id if known else "")
    baseline = state.store.baseline()
    if not base and baseline is not None and baseline.id != newest:
        base = baseline.id
    values = {"title": "Compare", "runs": known, "base": base, "candidate": candidate}
    return render(request, "choose.html.jinja", values)


def _conversations(
    runs: StoredRuns, change: ScenarioChange, alignment: Alignment | None
) -> tuple[Side | None, Side | None]:
    """The trials of the alignment; without one, the first trial of each run."""
    if alignment is not None:
        return _named(runs, change.key, alignment.passing), _named(runs, change.key, alignment.failing)
    return _first(runs, runs.base, change.key), _first(runs, runs.candidate, change.key)


def _named(runs: StoredRuns, key: ScenarioKey, name: str) -> Side | None:
    """`trial-2 of run 20250501-120000-abc`."""
    trial, _, run_id = name.partition(" of run ")
    return Side(run_id=run_id, trial=runs.store.trial(run_id, key, int(trial.removeprefix("trial-")) - 1))


def _first(runs: StoredRuns, run: Run, key: ScenarioKey) -> Side | None:
    found = next(iter(runs.store.trials(run.id, key)), None)
    return None if found is None else Side(run_id=run.id, trial=found)

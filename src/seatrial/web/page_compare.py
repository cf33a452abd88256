"""The pages that compare two runs, and one scenario in both."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from seatrial.comparison.aggregates import find_gap
from seatrial.comparison.gate import Gate, decide_gate
from seatrial.model.comparison import Alignment, ChangeKind, Comparison, RegressionLimits, ScenarioChange
from seatrial.model.run import Run, ScenarioKey, Status, Trial
from seatrial.reports.aligned_turns import align_turns
from seatrial.reports.compare_plots import forest_of, slope_of
from seatrial.reports.comparison import TITLES, mark_of
from seatrial.reports.texts import duration, money, percent
from seatrial.reports.tiles import Tile
from seatrial.runs.compare_runs import StoredRuns
from seatrial.verdicts.reasons import number

from .app_state import AppState, NotFound, State
from .background import page_timeout
from .filters import take_page
from .page_scenario import Side
from .responses import render
from .run_history import start_of_comparison
from .urls import compare_url, scenario_id
from .verdict_cache import Compared

PAGE = 100
CHOICE = 200
router = APIRouter(include_in_schema=False)
Ref = Annotated[str, Query(max_length=200)]


@router.get("/compare")
def show_comparison(
    request: Request,
    state: State,
    baseline_run_id: Ref = "",
    candidate_run_id: Ref = "",
    word: Annotated[str, Query(max_length=20)] = "",
    change: ChangeKind | None = None,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """The comparison, or a form to choose two runs."""
    if not baseline_run_id or not candidate_run_id:
        return _show_choice(request, state, baseline_run_id, candidate_run_id)
    runs, comparison = _compare(request, state, baseline_run_id, candidate_run_id)
    found = [one for one in _strongest_first(comparison) if _is_chosen(one, word, change)]
    values: dict[str, Any] = {
        "title": "Compare",
        "comparison": comparison,
        "decision": decide_gate(comparison, gate=Gate.AUTO),
        "gaps": [gap for side in runs.sides if (gap := find_gap(side)) is not None],
        "status_now": status_now,
        "word_of": word_of,
        "counts": {name: sum(word_of(one) == name for one in comparison.scenarios) for name in WORDS},
        "word": word,
        "tiles": _tiles(comparison),
        "slope": slope_of(comparison, lambda key: compare_url(baseline_run_id, candidate_run_id, key)),
        "forest": forest_of(comparison, lambda key: compare_url(baseline_run_id, candidate_run_id, key)),
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
        "turns": align_turns(_trial_of(base), _trial_of(candidate)),
    }
    return render(request, "side_by_side.html.jinja", values)


WORDS = ("worse", "cannot tell", "within noise", "better", "same", "error", "missing", "new", "not tested")
"""What a scenario is called in the list, worst first."""


def word_of(one: ScenarioChange) -> str:
    """What the pass counts say, or why they say nothing."""
    if one.word is not None:
        return one.word
    return one.change.value if one.change in (ChangeKind.ERROR, ChangeKind.MISSING, ChangeKind.NEW) else "not tested"


def status_now(one: ScenarioChange) -> str:
    """The verdict in the candidate."""
    return Status.NOT_RUN.value if one.candidate is None else one.candidate.status.value


def _strongest_first(comparison: Comparison) -> list[ScenarioChange]:
    """Scenarios by their word; within a word, the strongest evidence first."""
    order = ("worse", "cannot tell", "error", "missing", "within noise", "better", "new", "not tested", "same")

    def rank(one: ScenarioChange) -> tuple[int, float, float]:
        return order.index(word_of(one)), min(one.p_worse or 1.0, one.p_better or 1.0), one.score_delta or 0.0

    return sorted(comparison.scenarios, key=rank)


def _is_chosen(one: ScenarioChange, word: str, change: ChangeKind | None) -> bool:
    return (not word or word_of(one) == word) and change in (None, one.change)


def _tiles(comparison: Comparison) -> list[Tile]:
    """The figures of both runs. A figure that one run does not have has no tile."""
    before, now = comparison.base_figures, comparison.candidate_figures
    found = []
    if before.pass_rate is not None and now.pass_rate is not None:
        first = "first trials" if any(one.stops_by_results for one in comparison.scenarios) else "trials"
        counts = f"{before.rated_passed}/{before.rated} → {now.rated_passed}/{now.rated} {first}"
        rates = f"{percent(before.pass_rate)} → {percent(now.pass_rate)}"
        found.append(Tile(name="Pass rate, mean over scenarios", value=rates, more=counts))
    figures: tuple[tuple[str, float | None, float | None, Callable[[float], str | None]], ...] = (
        ("Average score", before.avg_score, now.avg_score, number),
        ("Average latency", before.avg_latency_ms, now.avg_latency_ms, duration),
        ("Average cost of a trial", before.avg_cost_usd, now.avg_cost_usd, money),
    )
    for name, old, new, words in figures:
        if old is not None and new is not None:
            change = round(100 * (new / old - 1)) if old else 0
            more = f"{change:+} %" if change else "no change"
            found.append(Tile(name=name, value=f"{words(old)} → {words(new)}", more=more))
    return found


def _compare(request: Request, state: AppState, base: str, candidate: str) -> Compared:
    """The comparison with default limits. Unfinished runs are allowed."""
    timeout = page_timeout(request)
    return state.comparisons.compare(base, candidate, RegressionLimits(), allow_unfinished=True, timeout=timeout)


def _show_choice(request: Request, state: AppState, base: str, candidate: str) -> Response:
    """The form. Unless another is chosen, it compares the newest run with its baseline, else with the run before."""
    known = state.store.runs(CHOICE)
    now = next((run for run in known if run.id == candidate), known[0] if known else None)
    if not base and now is not None:
        base = start_of_comparison(now, [run for _, run in state.store.baselines()], known) or ""
    values = {"title": "Compare", "runs": known, "base": base, "candidate": "" if now is None else now.id}
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


def _trial_of(side: Side | None) -> Trial | None:
    return None if side is None else side.trial


def _first(runs: StoredRuns, run: Run, key: ScenarioKey) -> Side | None:
    found = next(iter(runs.store.trials(run.id, key)), None)
    return None if found is None else Side(run_id=run.id, trial=found)

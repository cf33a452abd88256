"""One conversation: turns, tool calls, timings, checks, outcomes, scores, labels; the failing step in view."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from seatrial.model.run import Status, TrialSummary
from seatrial.runs.calibrate import WHOLE_TRIAL

from .app_state import AtDesk, NotFound
from .background import patience_of
from .rendering import render

router = APIRouter(include_in_schema=False)


@router.get("/runs/{run_id}/scenarios/{scenario}/trials/{number}")
def show_trial(request: Request, desk: AtDesk, run_id: str, scenario: str, number: int) -> Response:
    """One conversation."""
    decided, outcome = desk.scenario(run_id, scenario, patience=patience_of(request))
    key = outcome.entry.key
    known = decided.trials.get(key, ())
    place = next((place for place, one in enumerate(known) if one.index == number - 1), None)
    if place is None:
        raise NotFound(f"run {run_id}: has no trial-{number} of {key.label!r}")
    trial = desk.store.trial(run_id, key, number - 1)
    labels = [one for one in desk.store.labels(run_id, key=key) if one.index == trial.index]
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
    """The next trial that did not pass, round the end of the list."""
    others = (*known[place + 1 :], *known[:place])
    return next((one for one in others if one.status is not Status.PASSED), None)

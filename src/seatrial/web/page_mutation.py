"""The page of a run's newest mutation: what its checks notice, and each survivor beside its original."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from seatrial.reports.mutation import page_values
from seatrial.runs.mutation_tally import load_mutation

from .app_state import State
from .responses import render

router = APIRouter(include_in_schema=False)


@router.get("/runs/{run_id}/mutation")
def show_mutation(request: Request, state: State, run_id: str) -> Response:
    """The mutation of one run, or how to make one."""
    run = state.run(run_id).run
    result = load_mutation(state.options.store, run.id)
    values: dict[str, Any] = {"title": "This run was not mutated", "result": None}
    if result is not None:
        values = page_values(result)
    return render(request, "mutants.html.jinja", {**values, "run": run})

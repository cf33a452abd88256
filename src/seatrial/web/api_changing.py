"""The API that changes something: start and cancel runs, label trials, choose the baseline."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from .actions import cancel_run, choose_baseline, forget_baseline, put_label
from .api_models import (
    BaselineItem,
    BaselineQuery,
    Cancelled,
    LabelItem,
    PutBaseline,
    PutLabel,
    Started,
    StartRun,
    label_item,
)
from .api_reading import RunId
from .app_state import AtDesk
from .responses import AsciiJSONResponse, Problem
from .resuming import resume_run
from .run_processes import Start

router = APIRouter(prefix="/api", responses={"4XX": {"model": Problem}}, default_response_class=AsciiJSONResponse)


@router.post("/runs", status_code=202)
def start_run(desk: AtDesk, asked: StartRun) -> Started:
    """Start `seatrial run` in a process of its own. Its progress is at `/api/runs/{run_id}/events`."""
    start = Start(
        paths=tuple(asked.paths),
        name=asked.name,
        scenario_text=tuple(asked.scenarios),
        tags=tuple(asked.tags),
        trials=None if asked.trials is None else str(asked.trials),
    )
    return Started(run_id=desk.launcher.start(start))


@router.post("/runs/{run_id}/cancel", status_code=202)
def cancel(desk: AtDesk, run_id: RunId) -> Cancelled:
    """Interrupt a run that was started here, as Ctrl-C would; what is finished is kept and can be resumed."""
    cancel_run(desk, run_id)
    return Cancelled(run_id=run_id)


@router.post("/runs/{run_id}/resume", status_code=202)
def resume(desk: AtDesk, run_id: RunId) -> Started:
    """Play what is missing of a run that did not come to its end, as `seatrial run --resume` would."""
    resume_run(desk, run_id)
    return Started(run_id=run_id)


@router.post("/runs/{run_id}/labels", responses={200: {"model": LabelItem}})
def label_trial(desk: AtDesk, run_id: RunId, asked: PutLabel) -> Response:
    """Store a person's opinion of a trial; it takes the place of their earlier one of the same metric."""
    label = put_label(
        desk,
        run_id,
        asked.scenario_id,
        asked.number - 1,
        metric=asked.metric,
        value=asked.value,
        who=asked.who,
    )
    return AsciiJSONResponse(label_item(label))


@router.get("/baselines")
def list_baselines(desk: AtDesk) -> list[BaselineItem]:
    """The runs that others are compared with."""
    return [BaselineItem(suite=suite, run_id=run.id, name=run.name) for suite, run in desk.store.baselines()]


@router.put("/baselines")
def put_baseline(desk: AtDesk, asked: PutBaseline) -> BaselineItem:
    """Compare others with this run: everywhere, or where the suite has that name."""
    run = choose_baseline(desk, asked.run_id, suite=asked.suite)
    return BaselineItem(suite=asked.suite, run_id=run.id, name=run.name)


@router.delete("/baselines", status_code=204, response_class=Response)
def delete_baseline(desk: AtDesk, asked: Annotated[BaselineQuery, Query()]) -> None:
    """Forget a baseline; its run stays."""
    forget_baseline(desk, asked.suite)

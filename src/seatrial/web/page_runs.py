"""The first page: runs, newest first, how they went over time, and what can be started."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from seatrial.model.run import RunState, Verdict
from seatrial.model.struct import Struct
from seatrial.reports.pages.charts import UNKNOWN, Dot, trend
from seatrial.reports.texts import percent
from seatrial.store.runs import RunRow

from .app_state import AtDesk, Desk
from .rendering import render
from .resuming import silent_since
from .selection import take_page
from .suites import list_suites
from .urls import run_url

PAGE = 50
router = APIRouter(include_in_schema=False)


class ShownRun(Struct, frozen=True, kw_only=True):
    """A row of the list."""

    row: RunRow
    verdict: Verdict | None
    """None: not known yet, and too much work for a list."""
    is_baseline: bool
    silent_since: datetime | None = None
    """Of a run under way: when its last trial was written, if that is long ago."""

    @property
    def status(self) -> str | None:
        if self.row.run.state is RunState.RUNNING:
            return "running"
        return None if self.verdict is None else self.verdict.status.value


@router.get("/")
def show_runs(
    request: Request,
    desk: AtDesk,
    q: Annotated[str, Query(max_length=200)] = "",
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """Runs, newest first."""
    found = [run for run in desk.store.runs() if not q or q.lower() in f"{run.name}\n{run.id}".lower()]
    page = take_page(found, offset=offset, limit=PAGE)
    baselines = {run.id for _, run in desk.store.baselines()}
    rows = desk.store.rows_of(page.items)
    shown = [
        ShownRun(
            row=row,
            verdict=desk.runs.verdict(row),
            is_baseline=row.run.id in baselines,
            silent_since=silent_since(desk, row.run),
        )
        for row in rows
    ]
    values: dict[str, Any] = {
        "title": "Runs",
        "runs": shown,
        "page": page,
        "q": q,
        "trend": trend([_dot(one) for one in reversed(shown) if one.row.trials]),
        "suites": [] if desk.options.read_only else list_suites(desk.options.root),
    }
    return render(request, "runs.html.jinja", values)


@router.get("/runs/{run_id}/verdict")
def show_verdict(request: Request, desk: AtDesk, run_id: str) -> Response:
    """A verdict that the list left open, for the cell that waits for it."""
    return render(request, "verdict.html.jinja", {"status": desk.run(run_id).outcome.verdict.status.value})


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


def newest_rows(desk: Desk) -> list[RunRow]:
    """Of the first page."""
    return desk.store.run_rows(PAGE)

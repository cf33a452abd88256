"""The plots over several runs: pass rates, scenarios by runs, costs."""

from collections.abc import Container, Sequence

from seatrial.model.run import RunState, ScenarioKey, Verdict
from seatrial.reports.plots.svg import Plot
from seatrial.reports.plots.trends import (
    UNKNOWN,
    CostPoint,
    HeatCell,
    HeatRow,
    TrendPoint,
    cost_over_time,
    heat_map,
    trend,
)
from seatrial.reports.texts import money, percent
from seatrial.statistics.intervals import wilson_interval
from seatrial.store.runs import RunRow

from .app_state import AppState
from .filters import status_of
from .urls import run_url, scenario_url
from .verdict_cache import DecidedRun

MOST_COLUMNS = 30


def trend_of_runs(rows: Sequence[RunRow], verdicts: dict[str, Verdict], baselines: set[str]) -> Plot | None:
    """The pass rates of the runs, oldest first; None for fewer than two."""
    shown = [row for row in reversed(rows) if row.trials]
    points = [
        TrendPoint(
            at=row.run.started_at,
            rate=row.passed / row.trials,
            tip=_tip(row),
            kind=_kind(row, verdicts.get(row.run.id)),
            low=wilson_interval(row.passed, row.trials)[0],
            high=wilson_interval(row.passed, row.trials)[1],
            href=run_url(row.run.id),
            is_baseline=row.run.id in baselines,
        )
        for row in shown
    ]
    return trend(points, title="Pass rate of trials") if len(points) > 1 else None


def _kind(row: RunRow, verdict: Verdict | None) -> str:
    if row.run.state is RunState.RUNNING:
        return "running"
    return UNKNOWN if verdict is None else verdict.status.value


def _tip(row: RunRow) -> str:
    when = f"{row.run.started_at:%Y-%m-%d %H:%M}"
    return f"{row.run.name}, {when}: {percent(row.passed / row.trials)} of {row.trials:,} trials passed"


def trend_of_scenario(rows: Sequence[RunRow], key: ScenarioKey, statuses: Sequence[str], shown: str) -> Plot | None:
    """The pass rates of one scenario, oldest first; None for fewer than two runs."""
    points = [
        TrendPoint(
            at=row.run.started_at,
            rate=row.passed / row.trials,
            tip=f"{row.run.name}, {row.run.started_at:%Y-%m-%d %H:%M}: {row.passed}/{row.trials} passed",
            kind=status,
            low=wilson_interval(row.passed, row.passed + row.failed)[0],
            high=wilson_interval(row.passed, row.passed + row.failed)[1],
            href=scenario_url(row.run.id, key),
        )
        for row, status in zip(rows, statuses, strict=True)
    ]
    return trend(points, title="Pass rate in recent runs", height=160) if len(points) > 1 else None


def decided_runs(state: AppState, rows: Sequence[RunRow], *, wait: bool) -> list[DecidedRun]:
    """The newest runs that are decided, oldest first. With `wait`, others are decided now, if the cache has room."""
    found: list[DecidedRun] = []
    for row in rows[:MOST_COLUMNS]:
        known = state.runs.known(row.run)
        if known is None and wait and row.trials:
            known = state.runs.of(row)
        if known is not None:
            found.append(known)
    return found[::-1]


def heat_map_of(runs: Sequence[DecidedRun]) -> Plot | None:
    """Scenarios by runs; None for fewer than two runs."""
    if len(runs) < 2:
        return None
    names: dict[ScenarioKey, None] = {}
    for decided in reversed(runs):
        names |= {one.entry.key: None for one in decided.outcome.scenarios if not one.skipped}
    by_run = [{one.entry.key: one for one in decided.outcome.scenarios} for decided in runs]
    rows = []
    for key in names:
        cells: list[HeatCell | None] = []
        for decided, outcomes in zip(runs, by_run, strict=True):
            one = outcomes.get(key)
            if one is None:
                cells.append(None)
                continue
            rate = one.passed / one.played if one.played else None
            tip = f"{key.label}, {decided.run.started_at:%Y-%m-%d}: {one.passed}/{one.played} passed"
            cells.append(HeatCell(status=status_of(one), rate=rate, tip=tip, href=scenario_url(decided.run.id, key)))
        rows.append(HeatRow(name=key.label, cells=tuple(cells), href=_newest_page(runs, by_run, key)))
    return heat_map(rows, [decided.run.started_at for decided in runs], title="Scenarios in recent runs")


def _newest_page(runs: Sequence[DecidedRun], by_run: Sequence[Container[ScenarioKey]], key: ScenarioKey) -> str | None:
    newest = next((one for one, keys in zip(reversed(runs), reversed(by_run), strict=True) if key in keys), None)
    return None if newest is None else scenario_url(newest.run.id, key)


def costs_of(runs: Sequence[DecidedRun]) -> Plot | None:
    """The cost of each run; None if fewer than two are known."""
    points = []
    for decided in runs:
        cost = decided.outcome.totals.cost_usd
        if cost is not None:
            tip = f"{decided.run.name}, {decided.run.started_at:%Y-%m-%d %H:%M}: {money(cost)}"
            href = run_url(decided.run.id)
            points.append(CostPoint(at=decided.run.started_at, cost_usd=cost, tip=tip, href=href))
    return cost_over_time(points, title="Cost of runs", width=760, height=130) if len(points) > 1 else None

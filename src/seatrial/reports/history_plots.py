"""Plots over several runs: pass rates, scenarios by runs, costs."""

from collections.abc import Callable, Sequence

from seatrial.model.run import Run, RunOutcome, ScenarioKey, ScenarioOutcome
from seatrial.statistics.intervals import always_valid_interval, wilson_interval

from .plots.svg import Plot
from .plots.trends import CostPoint, HeatCell, HeatRow, TrendPoint, cost_over_time, heat_map, trend
from .texts import money, not_counted_reason, percent

Decided = tuple[Run, RunOutcome]
"""A run with its outcome."""
RunLink = Callable[[str], str]
ScenarioLink = Callable[[str, ScenarioKey], str]


def trend_of(runs: Sequence[Decided], *, baseline: str | None = None) -> Plot:
    """The pass rates of the runs, oldest first."""
    points = []
    for run, outcome in runs:
        passed, played = outcome.totals.passed_count, outcome.totals.total_executions - outcome.totals.not_run_count
        if played:
            stops = any(one.entry.stops_by_results for one in outcome.scenarios)
            low, high = (always_valid_interval if stops else wilson_interval)(passed, played)
            when = f"{run.started_at:%Y-%m-%d %H:%M}"
            points.append(
                TrendPoint(
                    at=run.started_at,
                    rate=passed / played,
                    tip=f"{run.name}, {when}: {percent(passed / played)} of {played:,} trials passed",
                    kind=outcome.verdict.status.value,
                    low=low,
                    high=high,
                    is_baseline=run.id == baseline,
                )
            )
    return trend(points, title="Pass rate of trials")


def heat_map_of(runs: Sequence[Decided], href: ScenarioLink | None = None) -> Plot:
    """Scenarios by runs, oldest run first."""
    by_run = [{one.entry.key: one for one in outcome.scenarios if not one.skipped} for _, outcome in runs]
    keys = dict.fromkeys(key for outcomes in reversed(by_run) for key in outcomes)
    rows = []
    for key in keys:
        cells = [
            None if key not in outcomes else _cell(run, outcomes[key], href)
            for (run, _), outcomes in zip(runs, by_run, strict=True)
        ]
        newest = next(cell.href for cell in reversed(cells) if cell is not None)
        rows.append(HeatRow(name=key.label, cells=tuple(cells), href=newest))
    return heat_map(rows, [run.started_at for run, _ in runs], title="Scenarios in recent runs")


def _cell(run: Run, one: ScenarioOutcome, href: ScenarioLink | None) -> HeatCell:
    key = one.entry.key
    return HeatCell(
        status="skipped" if not_counted_reason(one) is not None else one.verdict.status.value,
        rate=one.passed / one.played if one.played else None,
        tip=f"{key.label}, {run.started_at:%Y-%m-%d}: {one.passed}/{one.played} passed",
        href=None if href is None else href(run.id, key),
    )


def costs_of(runs: Sequence[Decided], href: RunLink | None = None) -> Plot | None:
    """The cost of each run, oldest first; None if no cost is known."""
    points = [
        CostPoint(
            at=run.started_at,
            cost_usd=cost,
            tip=f"{run.name}, {run.started_at:%Y-%m-%d %H:%M}: {money(cost)}",
            href=None if href is None else href(run.id),
        )
        for run, outcome in runs
        if (cost := outcome.totals.cost_usd) is not None
    ]
    return cost_over_time(points, title="Cost of runs", width=760, height=130) if points else None

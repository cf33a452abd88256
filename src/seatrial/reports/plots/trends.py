"""Plots over time: pass rates with intervals, scenarios by runs, costs."""

from collections.abc import Sequence
from datetime import datetime

from seatrial.model.struct import Struct
from seatrial.reports.texts import counted, money, percent

from .svg import Plot, circle, cut, date_axis, join, label, line, link, nice_steps, path, rate_axis, rect, spread

UNKNOWN = "unknown"
"""The kind of a point whose verdict has not been computed yet."""


class TrendPoint(Struct, frozen=True, kw_only=True):
    """One run in a trend."""

    at: datetime
    rate: float
    tip: str
    kind: str = UNKNOWN
    """The status that gives it its colour, or UNKNOWN."""
    low: float | None = None
    high: float | None = None
    href: str | None = None
    is_baseline: bool = False
    drifts: bool = False
    """From this run on, the rate is lower than before, by more than noise."""


def trend(points: Sequence[TrendPoint], *, title: str, width: float = 760.0, height: float = 190.0) -> Plot:
    """Pass rates from left to right, oldest first, with intervals, the baseline and a drift."""
    has_baseline = any(point.is_baseline for point in points)
    left, right, top, bottom = 46.0, width - (62 if has_baseline else 14), 16.0, height - 30
    places = spread(len(points), left + 10, right - 10)

    # A suite that passes in 92 of 100 trials would be a flat line on a scale from 0.
    least = min((point.rate if point.low is None else point.low for point in points), default=0.0)
    lowest = 0.8 if least >= 0.8 else 0.5 if least >= 0.5 else 0.0

    def y(rate: float) -> float:
        return bottom - (rate - lowest) / (1 - lowest) * (bottom - top)

    parts = [
        rate_axis(left, right, top, bottom, lowest=lowest),
        date_axis([point.at for point in points], places, height - 10, right=width),
    ]
    for point, x in zip(points, places, strict=True):
        if point.is_baseline:
            parts.append(line(left, y(point.rate), right, y(point.rate), "baseline"))
            parts.append(label(right + 6, y(point.rate) + 4, "baseline", kind="note"))
        if point.drifts:
            parts.append(
                line(x, top - 6, x, bottom, "drift") + label(x, top - 8, "drift", anchor="middle", kind="note")
            )
    parts.append(path([(x, y(point.rate)) for point, x in zip(points, places, strict=True)], "course"))
    for point, x in zip(points, places, strict=True):
        whisker = ""
        if point.low is not None and point.high is not None:
            whisker = line(x, y(point.low), x, y(point.high), "whisker")
        parts.append(link(point.href, point.tip, whisker + circle(x, y(point.rate), 4.5, "dot"), kind=point.kind))
    has_links = any(point.href for point in points)
    return Plot(
        kind="trend",
        title=title,
        summary=_trend_in_words(points),
        width=width,
        height=height,
        body=join(parts),
        has_links=has_links,
    )


def _trend_in_words(points: Sequence[TrendPoint]) -> str:
    if not points:
        return "No runs."
    lowest = min(point.rate for point in points)
    rates = f"from {percent(points[0].rate)} to {percent(points[-1].rate)}, lowest {percent(lowest)}"
    return f"{counted(len(points), 'run')}, {rates}"


class HeatCell(Struct, frozen=True, kw_only=True):
    """A scenario in one run."""

    status: str
    rate: float | None = None
    """None: the scenario was not run."""
    tip: str = ""
    href: str | None = None


class HeatRow(Struct, frozen=True, kw_only=True):
    """A scenario, with one cell for each run; None: not in that run."""

    name: str
    cells: tuple[HeatCell | None, ...]
    href: str | None = None


MOST_ROWS, FEWEST_ROWS = 18, 10


def heat_map(
    rows: Sequence[HeatRow], dates: Sequence[datetime], *, title: str, width: float = 620.0, most: int = MOST_ROWS
) -> Plot:
    """Scenarios by runs, the least stable scenarios first. Of those that always passed, only a few are shown."""
    ordered = sorted(rows, key=_stability)
    unstable = sum(1 for row in rows if _stability(row)[0] < 1)
    shown = ordered[: min(most, max(unstable, FEWEST_ROWS))]
    labels, size_y, top = 250.0, 15.0, 6.0
    size_x = min((width - labels - 4) / max(len(dates), 1), 40.0)
    bottom = top + size_y * len(shown)
    left_out = len(rows) - len(shown)
    which = "always passed" if unstable <= len(shown) else "not shown"
    parts = []
    for place, row in enumerate(shown):
        y = top + place * size_y
        name = label(labels - 8, y + 11, cut(row.name, 38), anchor="end", kind="row")
        parts.append(link(row.href, row.name, name))
        parts.extend(
            _cell(cell, labels + column * size_x, y, size_x, size_y) for column, cell in enumerate(row.cells) if cell
        )
    centres = [labels + (column + 0.5) * size_x for column in range(len(dates))]
    parts.append(date_axis(dates, centres, bottom + 16, right=width))
    if left_out > 0:
        parts.append(label(labels - 8, bottom + 30, f"{left_out:,} more {which}", anchor="end", kind="note"))
    return Plot(
        kind="heatmap",
        title=title,
        summary=f"{counted(len(rows), 'scenario')} in {counted(len(dates), 'run')}; {unstable} did not always pass",
        width=width,
        height=bottom + (38 if left_out > 0 else 24),
        body=join(parts),
        has_links=True,
    )


def _stability(row: HeatRow) -> tuple[float, str]:
    """The mean pass rate; runs with no answer count as not passed."""
    cells = [cell for cell in row.cells if cell is not None]
    rates = [cell.rate or 0.0 if cell.status != "skipped" else 1.0 for cell in cells]
    return (sum(rates) / len(rates) if rates else 1.0, row.name)


def _cell(cell: HeatCell, x: float, y: float, width: float, height: float) -> str:
    step = "none" if cell.rate is None else f"s{round(4 * cell.rate)}"
    kind = f"cell {cell.status} {step}"
    inside = rect(x, y, width - 1.5, height - 1.5, kind)
    if cell.status == "passed" and cell.rate == 1.0:
        return inside  # without its own tooltip: these are the most, and say the least
    if cell.href is None:
        return link(None, cell.tip, inside)
    return link(cell.href, cell.tip, inside)


class CostPoint(Struct, frozen=True, kw_only=True):
    at: datetime
    cost_usd: float
    tip: str
    href: str | None = None


def cost_over_time(points: Sequence[CostPoint], *, title: str, width: float = 460.0, height: float = 150.0) -> Plot:
    """The cost of each run as a bar, oldest first."""
    left, right, top, bottom = 62.0, width - 8, 12.0, height - 26
    steps = nice_steps(max((point.cost_usd for point in points), default=0.0), most=3)
    highest = steps[-1]
    places = spread(len(points), left + 14, right - 14)
    thick = min(26.0, 0.7 * (right - left - 28) / max(len(points), 1))
    parts = [_amounts(steps, left, right, top, bottom, money)]
    for point, x in zip(points, places, strict=True):
        tall = (bottom - top) * point.cost_usd / highest
        bar = rect(x - thick / 2, bottom - tall, thick, max(tall, 1), "bar")
        parts.append(link(point.href, point.tip, bar))
    parts.append(date_axis([point.at for point in points], places, height - 8, right=width))
    last = f"; the last cost {money(points[-1].cost_usd)}" if points else ""
    return Plot(
        kind="cost",
        title=title,
        summary=f"{counted(len(points), 'run')}{last}",
        width=width,
        height=height,
        body=join(parts),
        has_links=any(point.href for point in points),
    )


def _amounts(steps: Sequence[float], left: float, right: float, top: float, bottom: float, words: object) -> str:
    parts = []
    for step in steps:
        y = bottom - (bottom - top) * step / steps[-1]
        text = words(step) if callable(words) else str(step)
        parts.append(line(left, y, right, y, "grid") + label(left - 6, y + 4, text or "", anchor="end"))
    return join(parts)

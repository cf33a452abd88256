"""Plots of one run or one scenario: trials, intervals, latencies, scores, chances, severities."""

from collections import Counter
from collections.abc import Mapping, Sequence

from seatrial.model.results import FULL_MARKS, Severity
from seatrial.model.struct import Struct
from seatrial.reports.texts import counted, duration, percent
from seatrial.statistics.intervals import TURNS_FOR_P95, quantile
from seatrial.verdicts.reasons import number

from .svg import (
    LETTER,
    Plot,
    circle,
    cut,
    join,
    label,
    line,
    link,
    nice_steps,
    path,
    rate_axis,
    rect,
    spread,
    text_of,
)

MOST_DOTS = 40
"""A scenario with more trials is shown as a bar of shares."""
MOST_LINKS = 10
"""In a scenario with more trials, dots are no links."""
_DOT = 11.0


class TrialDot(Struct, frozen=True, kw_only=True):
    """A trial: its name, its status, and its page."""

    id: str
    status: str
    href: str | None = None


def trial_dots(dots: Sequence[TrialDot], *, missing: int = 0) -> Plot:
    """A dot for each trial, in order; hollow for those that were not run. In a few trials, failures are links."""
    counts = Counter(dot.status for dot in dots)
    told = [f"{count} {status}" for status, count in sorted(counts.items())] + [f"{missing} not run"] * bool(missing)
    summary = ", ".join(told) or "no trials"
    if len(dots) + missing > MOST_DOTS:
        return _share_bar(counts, len(dots) + missing, summary)
    # One path for all dots of a colour: a page with a link for each of thousands of dots would be large.
    linked = [dot for dot in dots if dot.status != "passed"] if len(dots) <= MOST_LINKS else []
    parts = []
    for status in ("passed",) if linked else dict.fromkeys(counts):
        spots = "".join(f"M{place * _DOT + 5:g} 7h0" for place, dot in enumerate(dots) if dot.status == status)
        parts += [f'<path class="{status}" d="{spots}"/>'] if spots else []
    for place, dot in enumerate(dots):
        if dot in linked:
            parts.append(_shortcut(dot, circle(place * _DOT + 5, 7, 4, dot.status)))
    for place in range(len(dots), len(dots) + missing):
        parts.append(circle(place * _DOT + 5, 7, 3.2, "hollow"))
    wide = max(len(dots) + missing, 1) * _DOT
    body = f"<title>{text_of(summary)}</title>{join(parts)}"
    has_links = any(dot.href for dot in linked)
    return Plot(kind="dots", title="Trials", summary=summary, width=wide, height=14, body=body, has_links=has_links)


def _shortcut(dot: TrialDot, spot: str) -> str:
    """A link for the mouse. The keyboard reaches the trial through the page of its scenario."""
    tip = text_of(f"{dot.id} {dot.status}")
    if dot.href is None:
        return f"<g><title>{tip}</title>{spot}</g>"
    return f'<a href="{text_of(dot.href)}" tabindex="-1" aria-label="{tip}"><title>{tip}</title>{spot}</a>'


def _share_bar(counts: Mapping[str, int], whole: int, summary: str) -> Plot:
    parts, x = [rect(0, 3, 160, 8, "track")], 0.0
    for status in ("passed", "failed", "errored"):
        wide = 160 * counts.get(status, 0) / whole
        parts.append(rect(x, 3, wide, 8, status))
        x += wide
    body = f"<title>{text_of(summary)}</title>{join(parts)}"
    return Plot(kind="dots share", title="Trials", summary=summary, width=160, height=14, body=body)


def interval_bar(rate: float, low: float, high: float, *, required: float | None = None) -> Plot:
    """The pass rate with its interval, and the required rate as a tick."""
    wide = 96.0
    parts = [line(0, 7, wide, 7, "track"), rect(wide * low, 4.5, max(wide * (high - low), 1), 5, "span")]
    if required is not None:
        parts.append(line(wide * required, 1, wide * required, 13, "required"))
    parts.append(circle(min(max(wide * rate, 3), wide - 3), 7, 3, "dot"))
    summary = f"{percent(rate)}, between {percent(low)} and {percent(high)}"
    if required is not None:
        summary += f"; required: {percent(required)}"
    body = f"<title>{text_of(summary)}</title>{join(parts)}"
    return Plot(kind="interval", title="Pass rate", summary=summary, width=wide, height=14, body=body)


def latency_histogram(values_ms: Sequence[float], *, title: str, width: float = 460.0, height: float = 150.0) -> Plot:
    """How long turns took, with the median and, from 20 turns on, the 95th percentile."""
    ordered = sorted(values_ms)
    steps = nice_steps(ordered[-1] if ordered else 0.0, most=6)
    highest, bins = steps[-1], 24
    counts = Counter(min(int(bins * value / highest), bins - 1) for value in ordered)
    most = max(counts.values(), default=1)
    tallest = counted(most, "turn")
    left, right, top, bottom = 12 + LETTER * len(tallest), width - 26, 20.0, height - 26
    each = (right - left) / bins
    parts = [label(left + (right - left) * step / highest, height - 8, duration(step) or "", anchor="middle")
             for step in steps]  # fmt: skip
    parts.append(line(left, bottom, right, bottom, "grid") + label(left - 6, top + 8, tallest, anchor="end"))
    for place, count in sorted(counts.items()):
        tall = (bottom - top) * count / most
        ends = f"{duration(place * highest / bins)} to {duration((place + 1) * highest / bins)}"
        tip = f"{counted(count, 'turn')}: {ends}"
        parts.append(rect(left + place * each + 0.5, bottom - tall, each - 1, tall, "bar", tip=tip))
    middle, late = quantile(ordered, 0.5), quantile(ordered, 0.95) if len(ordered) >= TURNS_FOR_P95 else None
    # One label is left of its line and the other right of it, so they never overlap.
    for value, name, anchor, gap in ((middle, "p50", "end", -3), (late, "p95", "start", 3)):
        if value is not None:
            x = left + (right - left) * value / highest
            note = label(x + gap, top - 6, name, anchor=anchor, kind="note")
            parts.append(line(x, top - 14, x, bottom, "mark-line") + note)
    summary = f"{counted(len(ordered), 'turn')}, median {duration(middle)}"
    summary += "" if late is None else f", 95th percentile {duration(late)}"
    return Plot(kind="latency", title=title, summary=summary, width=width, height=height, body=join(parts))


def metric_strip(values: Sequence[float], *, name: str, threshold: float | None = None) -> Plot:
    """How often each score was given, from 1 (red) to 5 (green), as one strip."""
    wide, counts = 220.0, Counter(min(max(round(value), 0), int(FULL_MARKS)) for value in values)
    parts, x = [], 0.0
    for score in range(int(FULL_MARKS) + 1):
        if counts[score]:
            share = wide * counts[score] / len(values)
            parts.append(rect(x, 0, share, 16, f"score-{score}", tip=f"{score}: {counted(counts[score], 'score')}"))
            if share > 14:
                parts.append(label(x + share / 2, 12, str(score), anchor="middle", kind=f"on-{score}"))
            x += share
    mean = sum(values) / len(values) if values else 0.0
    needed = f", required {number(threshold)}" if threshold is not None else ""
    given = ", ".join(f"{score}: {counts[score]}" for score in sorted(counts))
    summary = f"mean {number(mean)}{needed}; {given}"
    return Plot(kind="strip", title=name, summary=summary, width=wide, height=16, body=join(parts))


def sparkline(values: Sequence[float], *, name: str) -> Plot:
    """The means of a metric in recent runs, oldest first, on the scale from 0 to 5."""
    wide, tall = 110.0, 18.0
    spots = [(x, tall - 3 - (tall - 6) * value / FULL_MARKS) for x, value in
             zip(spread(len(values), 3, wide - 4), values, strict=True)]  # fmt: skip
    last = circle(*spots[-1], 3, "dot") if spots else ""
    summary = f"{counted(len(values), 'run')}, oldest first: {', '.join(number(value) for value in values)}"
    body = f"<title>{text_of(summary)}</title>{path(spots, 'course')}{last}"
    return Plot(kind="spark", title=f"{name} in recent runs", summary=summary, width=wide, height=tall, body=body)


def pass_curve(pass_hat_k: Sequence[float], pass_at_k: Sequence[float], *, title: str) -> Plot:
    """The chance that all of k tries pass (pass^k), and that at least one does (pass@k)."""
    width, height = 350.0, 150.0
    left, right, top, bottom = 46.0, width - 84, 14.0, height - 28
    places = spread(len(pass_hat_k), left + 8, right - 8)
    parts = [rate_axis(left, right, top, bottom)]
    for chances, kind, name in ((pass_at_k, "some", "at least one"), (pass_hat_k, "every", "all")):
        spots = [(x, bottom - share * (bottom - top)) for x, share in zip(places, chances, strict=True)]
        parts.append(path(spots, f"course {kind}"))
        for tries, ((x, y), share) in enumerate(zip(spots, chances, strict=True), 1):
            parts.append(
                circle(
                    x,
                    y,
                    3.5,
                    f"dot {kind}",
                    tip=f"{tries} {'try' if tries == 1 else 'tries'}: {name} in {percent(share)}",
                )
            )
    if places:
        heights = [bottom - chances[-1] * (bottom - top) + 4 for chances in (pass_at_k, pass_hat_k)]
        heights[0] = min(heights[0], bottom - 8)
        heights[1] = max(heights[1], heights[0] + 12)  # a line of text apart
        for y, name in zip(heights, ("at least one", "all"), strict=True):
            parts.append(label(places[-1] + 8, y, name, kind="note"))
    parts += [label(x, height - 12, str(tries), anchor="middle") for tries, x in enumerate(places, 1)]
    parts.append(label(left - 6, height - 12, "tries", anchor="end", kind="note"))
    said = [f"{tries} of {tries} pass in {percent(share)}" for tries, share in enumerate(pass_hat_k, 1)]
    return Plot(
        kind="curve",
        title=title,
        summary="; ".join(said) or "No answered trials",
        width=width,
        height=height,
        body=join(parts),
    )


def severity_bars(found: Mapping[str, Mapping[str, int]], *, title: str, width: float = 460.0) -> Plot:
    """Behaviour failures by label, most severe first. `found`: severity -> label -> trials."""
    rows = [
        (severity.value, name, count)
        for severity in reversed(Severity)
        for name, count in sorted(found.get(severity.value, {}).items(), key=lambda one: -one[1])
    ][:10]
    most = max((count for *_, count in rows), default=1)
    parts = []
    for place, (severity, name, count) in enumerate(rows):
        y = 4 + place * 24
        tip = f"{severity}: {name}, {counted(count, 'trial')}"
        bar = rect(70, y + 12, (width - 110) * count / most, 6, f"severity-{severity}")
        texts = label(64, y + 10, severity, anchor="end", kind="note") + label(70, y + 9, name, kind="row")
        parts.append(link(None, tip, texts + bar + label(74 + (width - 110) * count / most, y + 18, f"{count:,}")))
    total = sum(count for *_, count in rows)
    return Plot(
        kind="severity",
        title=title,
        summary=f"{counted(total, 'failure')} in {counted(len(rows), 'kind')}",
        width=width,
        height=8 + 24 * max(len(rows), 1),
        body=join(parts) or label(70, 16, "No behaviour failures", kind="note"),
    )


class ScenarioRow(Struct, frozen=True, kw_only=True):
    """A scenario as a row of a plot."""

    name: str
    status: str
    counts: str
    dots: tuple[TrialDot, ...] = ()
    rate: float | None = None
    low: float | None = None
    high: float | None = None


def scenario_rows(rows: Sequence[ScenarioRow], *, title: str) -> Plot:
    """Each scenario with its trials as dots, or with its interval if no trials are given."""
    left, wide = 300.0, 360.0
    parts = []
    for place, row in enumerate(rows):
        y = 6 + 18 * place
        parts.append(link(None, row.name, label(left - 10, y + 11, cut(row.name, 46), anchor="end", kind="row")))
        parts.append(label(left + wide + 12, y + 11, row.counts))
        if row.dots:
            step = min(_DOT, wide / len(row.dots))
            parts += [
                circle(left + step * (at + 0.5), y + 7, min(4, step / 2), dot.status, tip=f"{dot.id} {dot.status}")
                for at, dot in enumerate(row.dots)
            ]
        elif row.rate is not None and row.low is not None and row.high is not None:
            tip = f"{percent(row.rate)}, between {percent(row.low)} and {percent(row.high)}"
            parts.append(line(left, y + 7, left + wide, y + 7, "grid"))
            parts.append(rect(left + wide * row.low, y + 4, max(wide * (row.high - row.low), 1), 6, "span", tip=tip))
            parts.append(link(None, tip, circle(left + wide * row.rate, y + 7, 4, "dot"), kind=row.status))
    passed = sum(row.status == "passed" for row in rows)
    return Plot(
        kind="rows",
        title=title,
        summary=f"{passed} of {counted(len(rows), 'scenario')} passed",
        width=left + wide + 70,
        height=12 + 18 * max(len(rows), 1),
        body=join(parts),
    )


def metric_strips(scores: Mapping[str, Sequence[float]], *, title: str) -> Plot:
    """A strip of scores for each metric."""
    parts = []
    for place, (name, values) in enumerate(scores.items()):
        strip = metric_strip(values, name=name)
        y = 26 * place + 17
        tip = f"{name}: {strip.summary}"
        mean = label(390, y, f"mean {number(sum(values) / len(values))}")
        parts.append(link(None, tip, label(150, y, cut(name, 23), anchor="end", kind="row") + mean))
        parts.append(f'<g transform="translate(160 {y - 12})">{strip.body}</g>')
    return Plot(
        kind="strips",
        title=title,
        summary=counted(len(scores), "metric"),
        width=460,
        height=10 + 26 * max(len(scores), 1),
        body=join(parts) or label(20, 16, "No judge scored these trials", kind="note"),
    )

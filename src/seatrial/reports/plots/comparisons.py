"""Plots of two sides: pass rates before and after, differences with noise, tool calls of passed and failed trials."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from seatrial.model.struct import Struct
from seatrial.reports.texts import counted, percent

from .svg import Plot, circle, cut, join, label, line, link, path, rate_axis, rect


class RatePair(Struct, frozen=True, kw_only=True):
    """A scenario in two runs."""

    name: str
    before: float
    after: float
    counts: str
    """`5/5 → 1/5`."""
    word: str = "same"
    """worse, better, cannot tell, within noise or same."""
    href: str | None = None
    low: float | None = None
    high: float | None = None
    """Interval of the difference."""

    @property
    def kind(self) -> str:
        return self.word.replace(" ", "-")


def slope(pairs: Sequence[RatePair], *, before: str, after: str, width: float = 560.0, height: float = 250.0) -> Plot:
    """One line for each scenario, from its pass rate in the first run to the second. Equal lines are drawn once."""
    left, right, top, bottom = 60.0, width - 230, 24.0, height - 14
    groups: dict[tuple[float, float, str], list[RatePair]] = {}
    for pair in pairs:
        groups.setdefault((pair.before, pair.after, pair.kind), []).append(pair)

    def y(rate: float) -> float:
        return bottom - rate * (bottom - top)

    parts = [rate_axis(left, right, top, bottom)]
    parts += [label(left, 12, cut(before, 34), kind="head"), label(right, 12, cut(after, 30), kind="head")]
    taken: list[float] = []
    order = ("same", "within-noise", "better", "cannot-tell", "worse")
    for (old, new, kind), group in sorted(groups.items(), key=lambda one: order.index(one[0][2])):
        names = ", ".join(pair.name for pair in group[:8]) + (f" and {len(group) - 8} more" if len(group) > 8 else "")
        course = path([(left, y(old)), (right, y(new))], f"course w{min(len(group), 5)}")
        spots = circle(left, y(old), 3.5, "dot") + circle(right, y(new), 3.5, "dot")
        tip = f"{group[0].word}: {names} ({group[0].counts})"
        href = group[0].href if len(group) == 1 else None
        parts.append(link(href, tip, course + spots + _slope_label(group, right, y(new), taken), kind=kind))
    words = Counter(pair.word for pair in pairs)
    return Plot(
        kind="slope",
        title="Pass rates before and after",
        summary=", ".join(f"{count} {word}" for word, count in words.items()) or "No scenario in both runs",
        width=width,
        height=height,
        body=join(parts),
        has_links=True,
    )


def _slope_label(group: Sequence[RatePair], x: float, y: float, taken: list[float]) -> str:
    """The name of a line that moved, if there is room for it."""
    if group[0].before == group[0].after or any(abs(y - other) < 13 for other in taken):
        return ""
    taken.append(y)
    more = f" +{len(group) - 1}" if len(group) > 1 else ""
    return label(x + 9, y + 4, f"{cut(group[0].name, 34 - len(more))}{more}", kind="row")


MOST_ROWS = 16


def forest(pairs: Sequence[RatePair], *, noise: float | None, width: float = 620.0) -> Plot:
    """The change of each scenario that moved, with its interval. The band is what noise alone makes likely."""
    moved = sorted((pair for pair in pairs if pair.low is not None), key=lambda pair: pair.after - pair.before)
    moved = [pair for pair in moved if pair.before != pair.after]
    shown = moved[:MOST_ROWS]
    left, right, top = 240.0, width - 14, 22.0
    bottom = top + 20 * max(len(shown), 1)

    def x(change: float) -> float:
        return left + (change + 1) / 2 * (right - left)

    parts = []
    if noise is not None:
        tip = f"A change within {percent(noise)} is within noise"
        parts.append(rect(x(-noise), top - 6, x(noise) - x(-noise), bottom - top + 8, "noise", tip=tip))
    for change, text in ((-1.0, "−100"), (-0.5, "−50"), (0.0, "0"), (0.5, "+50"), (1.0, "+100 points")):
        parts.append(line(x(change), top - 6, x(change), bottom, "zero" if change == 0 else "grid"))
        parts.append(label(x(change), 12, text, anchor="end" if change == 1 else "middle"))
    for place, pair in enumerate(shown):
        y = top + 10 + 20 * place
        change, low, high = pair.after - pair.before, pair.low or 0.0, pair.high or 0.0
        tip = f"{pair.name}: {pair.counts}, {pair.word}; between {100 * low:+.0f} and {100 * high:+.0f} points"
        inside = label(left - 10, y + 4, cut(pair.name, 36), anchor="end", kind="row")
        inside += line(x(low), y, x(high), y, "whisker") + rect(x(change) - 4, y - 4, 8, 8, "dot")
        parts.append(link(pair.href, tip, inside, kind=pair.kind))
    if not shown:
        parts.append(label(left, top + 14, "No pass rate changed", kind="note"))
    more = f"; the {MOST_ROWS} largest drops are shown" if len(moved) > len(shown) else ""
    return Plot(
        kind="forest",
        title="Change of the pass rate, with intervals",
        summary=f"{counted(len(moved), 'scenario')} changed{more}",
        width=width,
        height=bottom + 8,
        body=join(parts),
        has_links=True,
    )


START, END = "start", "end"
MOST_STEPS = 10


class ToolFlow(Struct, frozen=True, kw_only=True):
    """How often trials went from one tool to the next."""

    steps: dict[tuple[str, str], int]
    trials: int


def flow_of(sequences: Sequence[Sequence[str]]) -> ToolFlow:
    """The steps between tools in these trials, with the start and the end."""
    steps: Counter[tuple[str, str]] = Counter()
    for names in sequences:
        whole = [START, *names, END]
        steps.update(pairwise(whole))
    return ToolFlow(steps=dict(steps), trials=len(sequences))


def tool_flow(passed: ToolFlow, failed: ToolFlow, *, title: str, width: float = 460.0) -> Plot:
    """For each step from tool to tool: the share of passed and of failed trials, largest difference first."""
    every = sorted({*passed.steps, *failed.steps}, key=lambda step: -abs(_share(passed, step) - _share(failed, step)))
    shown = every[:MOST_STEPS]
    left, full = 222.0, width - 262
    parts = []
    for place, step in enumerate(shown):
        y = 4 + 30 * place
        good, bad = _share(passed, step), _share(failed, step)
        name = f"{step[0]} → {step[1]}"
        tip = f"{name}: {percent(good)} of passed trials, {percent(bad)} of failed trials"
        bars = rect(left, y + 2, max(full * good, 1), 9, "passed") + rect(left, y + 13, max(full * bad, 1), 9, "failed")
        texts = label(left - 10, y + 16, cut(name, 34), anchor="end", kind="row")
        ends = ((good, y + 10), (bad, y + 22))
        shares = join(label(left + full * share + 4, at, f"{100 * share:.0f} %") for share, at in ends)
        parts.append(link(None, tip, texts + bars + shares))
    return Plot(
        kind="flow",
        title=title,
        summary=f"{counted(passed.trials, 'passed trial')} and {counted(failed.trials, 'failed trial')}; "
        f"{counted(len(every), 'step')} between tools, the largest difference first",
        width=width,
        height=10 + 30 * max(len(shown), 1),
        body=join(parts) or label(left, 16, "No tool calls are recorded", kind="note"),
    )


def _share(flow: ToolFlow, step: tuple[str, str]) -> float:
    return min(flow.steps.get(step, 0) / flow.trials, 1.0) if flow.trials else 0.0

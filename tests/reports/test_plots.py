"""Every plot: valid SVG with a title, a text alternative and tooltips, and no text of others as markup."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from seatrial.reports.plots.comparisons import RatePair, flow_of, forest, slope, tool_flow
from seatrial.reports.plots.distributions import (
    ScenarioRow,
    TrialDot,
    interval_bar,
    latency_histogram,
    metric_strip,
    metric_strips,
    pass_curve,
    scenario_rows,
    severity_bars,
    trial_dots,
)
from seatrial.reports.plots.svg import Plot, cut, date_axis, nice_steps
from seatrial.reports.plots.trends import CostPoint, HeatCell, HeatRow, TrendPoint, cost_over_time, heat_map, trend

HOSTILE = "<script>alert(1)</script> \"'>&\x1b[31m\u202e"
DAYS = [datetime(2026, 5, 1, tzinfo=UTC) + timedelta(days=day) for day in range(4)]
SVG = "{http://www.w3.org/2000/svg}"


def a_trend() -> Plot:
    points = [
        TrendPoint(at=day, rate=0.9, tip=HOSTILE, kind="failed", low=0.8, high=0.95, href=f"/runs/{HOSTILE}")
        for day in DAYS
    ]
    return trend([*points, TrendPoint(at=DAYS[-1], rate=1, tip="x", is_baseline=True, drifts=True)], title=HOSTILE)


def a_heat_map() -> Plot:
    failed = HeatCell(status="failed", rate=0.5, tip=HOSTILE, href="/x")
    good = HeatCell(status="passed", rate=1.0, tip="fine")
    rows = [HeatRow(name=HOSTILE, cells=(failed, None, good, failed)), HeatRow(name="good", cells=(good,) * 4)]
    return heat_map(rows, DAYS, title=HOSTILE)


def some_pairs() -> list[RatePair]:
    pair = RatePair(
        name=HOSTILE, before=1.0, after=0.2, counts="5/5 → 1/5", word="worse", low=-1.0, high=-0.2, href="/c"
    )
    return [pair, RatePair(name="same", before=1.0, after=1.0, counts="5/5 → 5/5", low=-0.4, high=0.4)]


PLOTS: dict[str, Callable[[], Plot]] = {
    "trend": a_trend,
    "heat map": a_heat_map,
    "cost": lambda: cost_over_time([CostPoint(at=DAYS[0], cost_usd=1.2, tip=HOSTILE, href="/")], title=HOSTILE),
    "dots": lambda: trial_dots([TrialDot(id=HOSTILE, status="failed", href="/t")], missing=2),
    "many dots": lambda: trial_dots([TrialDot(id="trial-1", status="passed")] * 50),
    "interval": lambda: interval_bar(0.8, 0.4, 0.95, required=0.9),
    "latency": lambda: latency_histogram([120.0, 900.0, 15_000.0], title=HOSTILE),
    "strip": lambda: metric_strip([1, 5, 5, 3], name=HOSTILE, threshold=3.5),
    "strips": lambda: metric_strips({HOSTILE: [1, 2]}, title=HOSTILE),
    "curve": lambda: pass_curve([0.6, 0.3], [0.6, 0.9], title=HOSTILE),
    "severity": lambda: severity_bars({"high": {HOSTILE: 3}}, title=HOSTILE),
    "slope": lambda: slope(some_pairs(), before=HOSTILE, after=HOSTILE),
    "forest": lambda: forest(some_pairs(), noise=0.2),
    "flow": lambda: tool_flow(flow_of([["look", HOSTILE]]), flow_of([["look"]]), title=HOSTILE),
    "rows": lambda: scenario_rows(
        [ScenarioRow(name=HOSTILE, status="failed", counts="1/2", dots=(TrialDot(id="trial-1", status="failed"),))],
        title=HOSTILE,
    ),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_a_picture_with_a_title_a_text_alternative_and_tooltips(name: str) -> None:
    plot = PLOTS[name]()
    root = ET.fromstring(plot.file())

    assert root.find(f"{SVG}title") is not None
    described = root.find(f"{SVG}desc")
    assert described is not None
    assert described.text
    assert root.get("aria-label")
    assert root.get("role") == ("group" if plot.has_links else "img")
    assert len(list(root.iter(f"{SVG}title"))) > 1, "tooltips"


@pytest.mark.parametrize("name", PLOTS)
def test_text_of_others_is_never_markup_in_a_plot(name: str) -> None:
    plot = PLOTS[name]()
    for text in (plot.file(), str(plot.inline())):
        assert "<script" not in text
        assert "\x1b" not in text
        assert "style=" not in text
    tags = {one.tag.removeprefix(SVG) for one in ET.fromstring(plot.file()).iter()}
    assert tags <= {"svg", "title", "desc", "style", "rect", "circle", "line", "path", "text", "a", "g"}


EMPTY: dict[str, Callable[[], Plot]] = {
    "trend": lambda: trend([], title="t"),
    "heat map": lambda: heat_map([], [], title="t"),
    "cost": lambda: cost_over_time([], title="t"),
    "dots": lambda: trial_dots([]),
    "latency": lambda: latency_histogram([], title="t"),
    "strip": lambda: metric_strip([], name="m"),
    "strips": lambda: metric_strips({}, title="t"),
    "curve": lambda: pass_curve([], [], title="t"),
    "severity": lambda: severity_bars({}, title="t"),
    "slope": lambda: slope([], before="a", after="b"),
    "forest": lambda: forest([], noise=None),
    "flow": lambda: tool_flow(flow_of([]), flow_of([]), title="t"),
    "rows": lambda: scenario_rows([], title="t"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_plot_of_nothing_is_a_picture(name: str) -> None:
    ET.fromstring(EMPTY[name]().file())


def test_forty_trials_are_dots_and_more_are_a_bar() -> None:
    dots = [TrialDot(id=f"trial-{number}", status="passed") for number in range(41)]

    assert trial_dots(dots[:40]).body.count("h0") == 40
    assert trial_dots(dots).kind == "dots share"
    assert trial_dots(dots).summary == "41 passed"


def test_a_trend_of_good_runs_does_not_begin_at_zero_and_says_so() -> None:
    assert ">80 %<" in trend([TrendPoint(at=DAYS[0], rate=0.95, tip="")], title="t").body
    assert ">0 %<" in trend([TrendPoint(at=DAYS[0], rate=0.2, tip="")], title="t").body


def test_the_least_stable_scenarios_are_the_first_rows_of_a_heat_map() -> None:
    def row(name: str, rate: float) -> HeatRow:
        status = "passed" if rate == 1 else "failed"
        return HeatRow(name=name, cells=(HeatCell(status=status, rate=rate, tip=name),))

    body = heat_map([row("steady", 1.0), row("shaky", 0.5), row("broken", 0.0)], DAYS[:1], title="t").body

    assert body.index("broken") < body.index("shaky") < body.index("steady")


def test_the_flow_shows_the_step_that_only_passed_trials_make_first() -> None:
    passed, failed = flow_of([["look", "refund", "tell"]] * 3), flow_of([["look", "tell"]])
    body = tool_flow(passed, failed, title="t").body

    assert "look → refund: 100.0 % of passed trials, 0.0 % of failed trials" in body
    assert body.index("refund") < body.index("start → look")


def test_a_date_that_would_cover_another_is_left_out() -> None:
    assert date_axis(DAYS[:2], [10, 30], 0, right=300).count("<text") == 1
    assert date_axis(DAYS[:3], [10, 200, 230], 0, right=300).count("<text") == 2


def test_a_day_with_two_runs_shows_their_times() -> None:
    noon = DAYS[0].replace(hour=12, minute=0)
    body = date_axis([noon, noon.replace(hour=15)], [10, 290], 0, right=300)

    assert "12:00" in body
    assert "15:00" in body


def test_a_long_name_keeps_its_end() -> None:
    assert cut("explains the delivery date to a customer, by e-mail", 30) == "explains the deli…r, by e-mail"


@pytest.mark.parametrize(("highest", "last"), [(0, 1), (3.2, 4), (0.07, 0.08), (15_000, 15_000), (1_201, 1_500)])
def test_steps_are_round_and_reach_the_highest_value(highest: float, last: float) -> None:
    assert nice_steps(highest)[-1] == pytest.approx(last)


def test_two_curves_that_meet_have_labels_on_two_lines() -> None:
    body = pass_curve([1.0, 1.0], [1.0, 1.0], title="t").body
    heights = {name: float(y) for y, name in re.findall(r'y="([0-9.]+)"[^>]*>(at least one|all)<', body)}

    assert heights["all"] - heights["at least one"] >= 12


def test_equal_percentiles_have_labels_on_both_sides_of_their_line() -> None:
    body = latency_histogram([100.0] * 100, title="t").body

    assert re.search(r'text-anchor="end">p50<', body)
    assert re.search(r'text-anchor="start">p95<', body)


def test_a_file_shows_its_title_and_its_summary() -> None:
    plot = latency_histogram([100.0] * 30, title="Latency of turns")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.file())

    assert texts[:2] == ["Latency of turns", "30 turns, median 100 ms, 95th percentile 100 ms"]
    assert "Latency of turns" not in re.findall(r"<text[^>]*>([^<]*)</text>", str(plot.inline()))

"""The figures at the top of a run, with their change from the baseline."""

from collections.abc import Iterator

from seatrial.model.mutation import MutationResult
from seatrial.model.run import RunOutcome, Totals
from seatrial.model.struct import Struct
from seatrial.statistics.intervals import wilson_interval
from seatrial.verdicts.reasons import number

from .scenario_totals import is_flaky
from .texts import duration, money, percent

_SLOWER, _DEARER, _SCORE = 0.2, 0.2, 5.0
"""Changes that a tile colours: the limits of `compare` for latency and score, and the same share for the cost."""

_STOPPED = "The number of trials depends on their results, so this share is no estimate of the pass rate"
_LATENCY = "p50: the median over trials of each trial's median turn. p95: of all turns, from 20 turns on"


class Tile(Struct, frozen=True, kw_only=True):
    """One figure of a run."""

    name: str
    value: str
    more: str = ""
    delta: str = ""
    """The change from the baseline."""
    kind: str = ""
    """`worse` or `better` if the change is more than noise or a limit."""
    tip: str = ""
    href: str = ""
    """The page of the figure; empty: that of the comparison with the baseline, if there is one."""


def tiles_of(outcome: RunOutcome, baseline: RunOutcome | None = None) -> list[Tile]:
    """The tiles of a run. A figure that is not known has no tile."""
    return [*_pass_rate(outcome, baseline), *_flaky(outcome, baseline), *_totals(outcome, baseline)]


def _counts(outcome: RunOutcome) -> tuple[int, int]:
    """Passed and answered trials. Errors of the agent count as not passed."""
    counted = [one for one in outcome.scenarios if not one.skipped]
    return sum(one.passed for one in counted), sum(one.passed + one.failed + one.broken_down for one in counted)


def _pass_rate(outcome: RunOutcome, baseline: RunOutcome | None) -> Iterator[Tile]:
    passed, answered = _counts(outcome)
    if not answered:
        return
    low, high = wilson_interval(passed, answered)
    delta = kind = ""
    if _stops_by_results(outcome):
        tip = f"{_STOPPED}. Each scenario has an interval of its own"
        yield Tile(name="Pass rate", value=percent(passed / answered), more=f"{passed:,}/{answered:,} trials", tip=tip)
        return
    if baseline is not None and not _stops_by_results(baseline) and (before := _counts(baseline))[1]:
        delta = _points(100 * (passed / answered - before[0] / before[1]))
        old_low, old_high = wilson_interval(*before)
        kind = "worse" if high < old_low else "better" if low > old_high else ""
    yield Tile(
        name="Pass rate",
        value=percent(passed / answered),
        more=f"{passed:,}/{answered:,} trials, {100 * low:.0f}–{100 * high:.0f} %",
        delta=delta,
        kind=kind,
        tip=f"between {percent(low)} and {percent(high)} (95 %), from {passed:,} of {answered:,} trials",
    )


def _stops_by_results(outcome: RunOutcome) -> bool:
    return any(one.entry.stops_by_results for one in outcome.scenarios)


def _flaky(outcome: RunOutcome, baseline: RunOutcome | None) -> Iterator[Tile]:
    count, whole = sum(map(is_flaky, outcome.scenarios)), len(outcome.scenarios)
    before = None if baseline is None else sum(map(is_flaky, baseline.scenarios))
    delta = "" if before is None else "no change" if before == count else f"{count - before:+,}"
    yield Tile(
        name="Flaky",
        value=f"{count:,}",
        more=f"of {whole:,} scenarios",
        delta=delta,
        tip="Scenarios in which some trials passed and others did not",
    )


def _totals(outcome: RunOutcome, baseline: RunOutcome | None) -> Iterator[Tile]:
    now, before = outcome.totals, Totals() if baseline is None else baseline.totals
    if now.latency_p50_ms is not None:
        delta, kind = _relative(now.latency_p50_ms, before.latency_p50_ms, limit=_SLOWER)
        late = f"p95 of turns {duration(now.latency_p95_ms)}" if now.latency_p95_ms is not None else ""
        value = duration(now.latency_p50_ms) or ""
        delta = f"p50 {delta}" if late and delta else delta
        yield Tile(name="Latency p50", value=value, more=late, delta=delta, kind=kind, tip=_LATENCY)
    if now.cost_usd is not None:
        delta, kind = _relative(now.cost_usd, before.cost_usd, limit=_DEARER)
        own = money(now.model_cost_usd) if now.model_calls else None
        yield Tile(
            name="Cost",
            value=money(now.cost_usd) or "",
            more=f"judges {own}" if own else "of the agent",
            delta=delta,
            kind=kind,
        )
    if now.weighted_metrics_score_pct is not None:
        score, old = now.weighted_metrics_score_pct, before.weighted_metrics_score_pct
        change = None if old is None else score - old
        required = f"required {number(now.metrics_pass_threshold)}" if now.metrics_pass_threshold is not None else ""
        yield Tile(
            name="Score",
            value=f"{number(score)} %",
            more=required,
            delta="" if change is None else _points(change),
            kind="" if change is None or abs(change) < _SCORE else "better" if change > 0 else "worse",
        )


def mutation_tile(result: MutationResult, baseline: MutationResult | None, *, href: str) -> Tile | None:
    """The share of known defects that the checks of the run notice; None without mutants that count."""
    total = result.total
    if total.score is None or total.interval is None:
        return None
    delta = kind = ""
    before = None if baseline is None else baseline.total
    if before is not None and before.score is not None and before.interval is not None:
        delta = f"{100 * (total.score - before.score):+.1f} points"
        kind = "worse" if total.interval.high < before.interval.low else ""
        kind = "better" if total.interval.low > before.interval.high else kind
    return Tile(
        name="Mutation score",
        value=percent(total.score),
        more=f"{total.caught:,}/{total.counted:,} mutants",
        delta=delta,
        kind=kind,
        tip=f"Known defects that a check notices, between {percent(total.interval.low)} and "
        f"{percent(total.interval.high)} (95 %)",
        href=href,
    )


def _relative(now: float, before: float | None, *, limit: float) -> tuple[str, str]:
    """The change in per cent, and `worse` or `better` if it is larger than the limit."""
    if not before:
        return "", ""
    change = now / before - 1
    kind = "worse" if change > limit else "better" if change < -limit else ""
    return f"{100 * change:+.0f} %" if round(100 * change) else "no change", kind


def _points(change: float) -> str:
    return f"{change:+.1f} points" if round(change, 1) else "no change"

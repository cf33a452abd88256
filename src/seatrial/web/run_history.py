"""Several runs: which of them can be compared, and plots of pass rates, scenarios by runs, and costs."""

from collections import Counter
from collections.abc import Iterable, Sequence

from seatrial.model.run import Run, RunState, ScenarioKey, Verdict
from seatrial.reports.history_plots import costs_of, heat_map_of
from seatrial.reports.plots.svg import Plot
from seatrial.reports.plots.trends import UNKNOWN, TrendPoint, trend
from seatrial.reports.texts import percent
from seatrial.statistics.intervals import Interval, always_valid_interval, wilson_interval
from seatrial.store.runs import RunRow

from .app_state import AppState
from .urls import run_url, scenario_url
from .verdict_cache import DecidedRun

MOST_COLUMNS = 30


def suites_of(run: Run) -> list[str]:
    """The suites of the run; empty for runs of older versions."""
    agents = (run.config or {}).get("agents")
    return list(agents) if isinstance(agents, dict) else []


def share_suite(one: Run, other: Run) -> bool:
    """Whether the runs have a suite in common, as far as is known."""
    first, second = suites_of(one), suites_of(other)
    return not first or not second or not set(first).isdisjoint(second)


def start_of_comparison(candidate: Run, baselines: Iterable[Run], runs: Iterable[Run]) -> str | None:
    """The run to compare the candidate with: its baseline, else the newest other run with the same suite."""
    others = (run for run in (*baselines, *runs) if run.id != candidate.id and share_suite(run, candidate))
    # The scenarios of a sweep are changed, so only another sweep has the same ones.
    return next((run.id for run in others if bool(run.sweep) == bool(candidate.sweep)), None)


def rows_to_plot(rows: Sequence[RunRow]) -> tuple[list[RunRow], str]:
    """The runs of one plot, and their suites if other runs have others: pass rates of two suites have no trend.

    Sweeps are left out: their scenarios are changed.
    """
    rows = [row for row in rows if not row.run.sweep]
    groups = Counter(frozenset(known) for row in rows if row.trials and (known := suites_of(row.run)))
    if len(groups) < 2:
        return list(rows), ""
    chosen = groups.most_common(1)[0][0]
    return [row for row in rows if set(suites_of(row.run)) in (chosen, set())], ", ".join(sorted(chosen))


def trend_of_runs(
    rows: Sequence[RunRow], verdicts: dict[str, Verdict], baselines: set[str], drifts: frozenset[str] = frozenset()
) -> Plot | None:
    """The pass rates of the runs, oldest first; None for fewer than two. `drifts`: runs at which a decay began."""
    shown = [row for row in reversed(rows) if row.trials]
    points = [
        TrendPoint(
            at=row.run.started_at,
            rate=row.passed / row.trials,
            tip=_tip(row),
            kind=_kind(row, verdicts.get(row.run.id)),
            low=interval_of(row)[0],
            high=interval_of(row)[1],
            href=run_url(row.run.id),
            is_baseline=row.run.id in baselines,
            drifts=row.run.id in drifts,
        )
        for row in shown
    ]
    return trend(points, title="Pass rate of trials") if len(points) > 1 else None


def interval_of(row: RunRow) -> Interval:
    """The interval of the row's pass rate; the always-valid one if the run as a whole stops by results."""
    is_auto = ((row.run.config or {}).get("overrides") or {}).get("trials") == "auto"
    bounds = always_valid_interval if is_auto or row.run.gates.history is not None else wilson_interval
    return bounds(row.passed, row.trials)


def _kind(row: RunRow, verdict: Verdict | None) -> str:
    if row.run.state is RunState.RUNNING:
        return "running"
    return UNKNOWN if verdict is None else verdict.status.value


def _tip(row: RunRow) -> str:
    when = f"{row.run.started_at:%Y-%m-%d %H:%M}"
    return f"{row.run.name}, {when}: {percent(row.passed / row.trials)} of {row.trials:,} trials passed"


def trend_of_scenario(rows: Sequence[RunRow], key: ScenarioKey, statuses: Sequence[str]) -> Plot | None:
    """The pass rates of one scenario, oldest first; None for fewer than two runs."""
    points = [
        TrendPoint(
            at=row.run.started_at,
            rate=row.passed / row.trials,
            tip=f"{row.run.name}, {row.run.started_at:%Y-%m-%d %H:%M}: {row.passed}/{row.trials} passed",
            kind=status,
            low=interval_of(row)[0],
            high=interval_of(row)[1],
            href=scenario_url(row.run.id, key),
        )
        for row, status in zip(rows, statuses, strict=True)
    ]
    return trend(points, title="Pass rate in recent runs", width=900, height=160) if len(points) > 1 else None


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


def plots_of(runs: Sequence[DecidedRun]) -> tuple[Plot | None, Plot | None]:
    """The heat map and the costs of the runs; None for fewer than two runs."""
    decided = [(one.run, one.outcome) for one in runs]
    if len(decided) < 2:
        return None, None
    return heat_map_of(decided, scenario_url), costs_of(decided, run_url)

"""Caches of verdicts and comparisons, valid until the stored rows change."""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

from seatrial.clock import milliseconds
from seatrial.comparison.aggregates import RunSide
from seatrial.errors import UsageError
from seatrial.model.comparison import Comparison, RegressionLimits
from seatrial.model.run import Run, RunOutcome, RunState, ScenarioKey, ScenarioOutcome, TrialSummary, Verdict
from seatrial.model.struct import Struct
from seatrial.runs.compare_runs import StoredRuns
from seatrial.runs.report import decide, readable
from seatrial.store.runs import RunRow
from seatrial.store.store import Store

from .background import StillWorking, Worker
from .run_processes import Conflict
from .urls import scenario_id

MOST_SUMMARIES = 60_000
"""The number of trials in memory, over all runs; about 1 kB each."""
_RECENT_MS = 1_000.0


class Sums(Struct, frozen=True, kw_only=True):
    """Totals of a scenario's trials."""

    latency_ms: float | None = None
    """The slowest turn."""
    median_ms: float | None = None
    """The median over the trials of the slowest turn."""
    cost_usd: float | None = None
    """None if the cost of a trial is unknown."""


class DecidedRun(Struct, frozen=True, kw_only=True):
    """A run, its verdict and the summaries of its trials."""

    row: RunRow
    outcome: RunOutcome
    summaries: tuple[TrialSummary, ...]
    scenarios: dict[str, ScenarioOutcome]
    """By the id in URLs."""
    trials: dict[ScenarioKey, tuple[TrialSummary, ...]]
    sums: dict[ScenarioKey, Sums]
    made_at: float
    took_ms: float

    @property
    def run(self) -> Run:
        return self.row.run


class VerdictCache:
    """The decided runs of a store. A run is decided again when its row changes."""

    def __init__(self, store: Store, worker: Worker) -> None:
        self.store = store
        self._worker = worker
        self._kept: OrderedDict[str, DecidedRun] = OrderedDict()
        self._verdicts: dict[str, tuple[RunRow, Verdict]] = {}
        self._lock = Lock()

    def get(self, run_id: str, *, timeout: float | None = None) -> DecidedRun | None:
        """The run with that id; None if there is none. Raises StillWorking."""
        row = self.store.run_row(run_id)
        return None if row is None else self.of(row, timeout=timeout)

    def of(self, row: RunRow, *, timeout: float | None = None) -> DecidedRun:
        """The run of that row. With a timeout, the result of a running run may be a moment old."""
        known = self._kept.get(row.run.id)
        if known is None or not (known.row == row or (timeout is not None and _is_recent(known, row))):
            stamp = (row.run.id, row.run.state, row.run.finished_at, row.passed, row.failed, row.errored)
            known = self._worker.do(stamp, lambda: self._decide(row), timeout)
        return known

    def verdict(self, row: RunRow) -> Verdict | None:
        """The verdict, if it is cached."""
        known = self._verdicts.get(row.run.id)
        return known[1] if known is not None and known[0] == row else None

    def known(self, run: Run) -> DecidedRun | None:
        """The run, if it is cached and finished."""
        found = self._kept.get(run.id)
        return found if found is not None and found.run == run and run.state is not RunState.RUNNING else None

    def prepare(self, row: RunRow) -> None:
        """Decide the run in the background, without waiting for it."""
        try:
            self.of(row, timeout=0)
        except StillWorking:
            return

    def warm(self, rows: Iterable[RunRow]) -> None:
        """Decide runs before they are requested, largest first, as many as fit in the cache."""
        room = MOST_SUMMARIES
        chosen = []
        for row in rows:
            room -= row.trials
            if room < 0:
                break
            chosen.append(row)
        for row in sorted(chosen, key=lambda row: row.trials, reverse=True):
            self.of(row)

    def _decide(self, row: RunRow) -> DecidedRun:
        made = _decide(self.store, row)
        with self._lock:
            self._kept[row.run.id] = made
            self._kept.move_to_end(row.run.id)
            self._verdicts[row.run.id] = (row, made.outcome.verdict)
            while len(self._kept) > 1 and sum(len(one.summaries) for one in self._kept.values()) > MOST_SUMMARIES:
                self._kept.popitem(last=False)
        return made


def _is_recent(known: DecidedRun, row: RunRow) -> bool:
    under_way = row.run.state is known.run.state is RunState.RUNNING
    return under_way and milliseconds() - known.made_at < max(_RECENT_MS, 5 * known.took_ms)


def _decide(store: Store, row: RunRow) -> DecidedRun:
    run_id, began = row.run.id, milliseconds()
    with readable(run_id):
        summaries = tuple(store.summaries(run_id))
        outcome = decide(row.run, store.entries(run_id), summaries, store.merged(run_id))
    grouped: dict[ScenarioKey, list[TrialSummary]] = {}
    for summary in summaries:
        grouped.setdefault(summary.key, []).append(summary)
    return DecidedRun(
        row=row,
        outcome=outcome,
        summaries=summaries,
        scenarios={scenario_id(one.entry.key): one for one in outcome.scenarios},
        trials={key: tuple(group) for key, group in grouped.items()},
        sums={key: _sum(group) for key, group in grouped.items()},
        made_at=began,
        took_ms=milliseconds() - began,
    )


def _sum(group: list[TrialSummary]) -> Sums:
    costs = [summary.cost_usd for summary in group if summary.cost_usd is not None]
    latencies = sorted(summary.latency_ms for summary in group if summary.latency_ms is not None)
    return Sums(
        latency_ms=latencies[-1] if latencies else None,
        median_ms=latencies[len(latencies) // 2] if latencies else None,
        cost_usd=sum(costs) if costs and len(costs) == len(group) else None,
    )


MOST_COMPARISONS = 16
Compared = tuple[StoredRuns, Comparison]


class ComparisonCache:
    """Compares pairs of runs, and caches the results."""

    def __init__(self, runs: VerdictCache, worker: Worker) -> None:
        self._runs = runs
        self._worker = worker
        self._kept: OrderedDict[str, Compared] = OrderedDict()

    def compare(
        self,
        base: str,
        candidate: str,
        limits: RegressionLimits,
        *,
        allow_unfinished: bool = False,
        timeout: float | None = None,
    ) -> Compared:
        """Compare two runs, each given as id, name, `latest` or `baseline`.

        Raises UsageError, StillWorking, and Conflict if a run is not finished.
        """
        began = milliseconds()

        def left() -> float | None:
            return None if timeout is None else max(0.0, timeout - (milliseconds() - began) / 1000)

        runs = StoredRuns(self._runs.store, base, candidate, read=lambda run: self._side(run, left()))
        cache_key = repr((runs.stamp(), limits, allow_unfinished))
        known = self._kept.get(cache_key)
        if known is not None:
            return known
        runs.sides  # noqa: B018  decides each run before they are compared
        try:
            return self._worker.do(cache_key, lambda: self._compare(cache_key, runs, limits, allow_unfinished), left())
        except UsageError as problem:
            whole = runs.base.state is runs.candidate.state is RunState.FINISHED
            if allow_unfinished or whole or runs.base.id == runs.candidate.id:
                raise
            raise Conflict(str(problem)) from None

    def _compare(self, cache_key: str, runs: StoredRuns, limits: RegressionLimits, allow_unfinished: bool) -> Compared:
        made = (runs, runs.compare(limits=limits, allow_unfinished=allow_unfinished))
        if runs.base.state is runs.candidate.state is RunState.FINISHED:
            self._kept[cache_key] = made
            while len(self._kept) > MOST_COMPARISONS:
                self._kept.popitem(last=False)
        return made

    def _side(self, run: Run, timeout: float | None) -> RunSide:
        decided = self._runs.get(run.id, timeout=timeout)
        assert decided is not None
        return RunSide(run=decided.run, outcome=decided.outcome, summaries=decided.summaries)

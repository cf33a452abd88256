"""Runs with their verdicts, kept while the rows they follow from are the same."""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

from seatrial.session.records import decide
from seatrial.store import RunRow, Store
from seatrial.vocabulary.record import record
from seatrial.vocabulary.run import Run, RunOutcome, ScenarioKey, ScenarioOutcome, TrialSummary, Verdict

from .addresses import scenario_id

MOST_SUMMARIES = 60_000
"""So many trials are kept in memory, over all runs: about a kilobyte each."""


@record
class Sums:
    """What a scenario's trials add up to."""

    latency_ms: float | None = None
    """The slowest turn."""
    cost_usd: float | None = None
    """None when the cost of some trial is not known."""


@record
class DecidedRun:
    """A run, its verdict and its trials without their bodies."""

    row: RunRow
    outcome: RunOutcome
    summaries: tuple[TrialSummary, ...]
    scenarios: dict[str, ScenarioOutcome]
    """By the id that stands in addresses."""
    trials: dict[ScenarioKey, tuple[TrialSummary, ...]]
    sums: dict[ScenarioKey, Sums]

    @property
    def run(self) -> Run:
        return self.row.run


class DecidedRuns:
    """The runs of a store as pages show them. A verdict is made anew as soon as a row says something else."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._kept: OrderedDict[str, DecidedRun] = OrderedDict()
        self._verdicts: dict[str, tuple[RunRow, Verdict]] = {}
        self._lock = Lock()

    def get(self, run_id: str) -> DecidedRun | None:
        """The run of that id; None when there is none."""
        row = self.store.run_row(run_id)
        return None if row is None else self.of(row)

    def of(self, row: RunRow) -> DecidedRun:
        # One at a time: deciding is work for one core, and whoever waits may find it done.
        with self._lock:
            known = self._kept.get(row.run.id)
            if known is None or known.row != row:
                known = self._kept[row.run.id] = _decide(self.store, row)
                self._verdicts[row.run.id] = (row, known.outcome.verdict)
            self._kept.move_to_end(row.run.id)
            self._let_go()
            return known

    def verdict(self, row: RunRow) -> Verdict | None:
        """The verdict where it is known without work."""
        known = self._verdicts.get(row.run.id)
        return known[1] if known is not None and known[0] == row else None

    def warm(self, rows: Iterable[RunRow]) -> None:
        """Decide ahead of being asked, as far as there is room."""
        room = MOST_SUMMARIES
        for row in rows:
            room -= row.trials
            if room < 0:
                return
            self.of(row)

    def _let_go(self) -> None:
        while len(self._kept) > 1 and sum(len(one.summaries) for one in self._kept.values()) > MOST_SUMMARIES:
            self._kept.popitem(last=False)


def _decide(store: Store, row: RunRow) -> DecidedRun:
    run_id = row.run.id
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
    )


def _sum(group: list[TrialSummary]) -> Sums:
    costs = [summary.cost_usd for summary in group if summary.cost_usd is not None]
    return Sums(
        latency_ms=max((summary.latency_ms for summary in group if summary.latency_ms is not None), default=None),
        cost_usd=sum(costs) if costs and len(costs) == len(group) else None,
    )

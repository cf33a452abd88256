"""Comparisons, kept while what they follow from is the same: exact tests over 10,000 trials take their time."""

from collections import OrderedDict

from seatrial.clock import milliseconds
from seatrial.comparison.match import RunSide
from seatrial.errors import UsageError
from seatrial.model.comparison import Comparison, RegressionLimits
from seatrial.model.run import Run, RunState
from seatrial.runs.compare_runs import StoredRuns

from .background import Worker
from .run_processes import NotNow
from .verdict_cache import DecidedRuns

MOST_KEPT = 16
Compared = tuple[StoredRuns, Comparison]


class Comparisons:
    """Pairs of runs, compared when they are first asked for."""

    def __init__(self, runs: DecidedRuns, worker: Worker) -> None:
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
        patience: float | None = None,
    ) -> Compared:
        """Two runs by what people call them: an id, a name, `latest` or `baseline`.

        Raises UsageError, NotNow where a run has not come to its end, and StillWorking.
        """
        began = milliseconds()

        def left() -> float | None:
            return None if patience is None else max(0.0, patience - (milliseconds() - began) / 1000)

        runs = StoredRuns(self._runs.store, base, candidate, read=lambda run: self._side(run, left()))
        asked = repr((runs.stamp(), limits, allow_unfinished))
        known = self._kept.get(asked)
        if known is not None:
            return known
        runs.sides  # noqa: B018  each is decided by itself, before the two are compared
        try:
            return self._worker.do(asked, lambda: self._compare(asked, runs, limits, allow_unfinished), left())
        except UsageError as problem:
            whole = runs.base.state is runs.candidate.state is RunState.FINISHED
            if allow_unfinished or whole or runs.base.id == runs.candidate.id:
                raise
            raise NotNow(str(problem)) from None

    def _compare(self, asked: str, runs: StoredRuns, limits: RegressionLimits, allow_unfinished: bool) -> Compared:
        made = (runs, runs.compare(limits=limits, allow_unfinished=allow_unfinished))
        if runs.base.state is runs.candidate.state is RunState.FINISHED:
            self._kept[asked] = made
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return made

    def _side(self, run: Run, patience: float | None) -> RunSide:
        decided = self._runs.get(run.id, patience=patience)
        assert decided is not None
        return RunSide(run=decided.run, outcome=decided.outcome, summaries=decided.summaries)

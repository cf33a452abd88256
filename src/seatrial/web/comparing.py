"""Comparisons, kept while both runs are the same: the exact tests over 10,000 trials take their time."""

from collections import OrderedDict
from threading import Lock

from seatrial.session.comparing import StoredRuns
from seatrial.store import Store
from seatrial.vocabulary.changes import Comparison, RegressionLimits
from seatrial.vocabulary.run import RunState

MOST_KEPT = 16


class Comparisons:
    """Pairs of runs, compared when they are first asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, tuple[StoredRuns, Comparison]] = OrderedDict()
        self._lock = Lock()

    def compare(
        self, base: str, candidate: str, limits: RegressionLimits, *, allow_unfinished: bool = False
    ) -> tuple[StoredRuns, Comparison]:
        """Two runs by what people call them: an id, a name, `latest` or `baseline`. Raises UsageError."""
        runs = StoredRuns(self._store, base, candidate)
        asked = repr((runs.base, runs.candidate, limits))
        with self._lock:
            known = self._kept.get(asked)
            if known is None:
                known = (runs, runs.compare(limits=limits, allow_unfinished=allow_unfinished))
                if runs.base.state is runs.candidate.state is RunState.FINISHED:
                    self._kept[asked] = known
                    while len(self._kept) > MOST_KEPT:
                        self._kept.popitem(last=False)
        return known

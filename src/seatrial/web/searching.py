"""Searches through what was said, kept while the run is the same: page by page, the same is asked again."""

from collections import OrderedDict

from seatrial.model.run import ScenarioKey
from seatrial.store.searching import Said
from seatrial.store.store import Store

from .background import Worker
from .verdict_cache import DecidedRun

MOST_KEPT = 32


class Searches:
    """Looks through conversations for a text, when it is first asked for."""

    def __init__(self, store: Store, worker: Worker) -> None:
        self._store = store
        self._worker = worker
        self._kept: OrderedDict[str, Said] = OrderedDict()

    def find(
        self, decided: DecidedRun, text: str, *, key: ScenarioKey | None = None, patience: float | None = None
    ) -> Said:
        """Where the text was said in the run, or in one of its scenarios. Raises StillWorking."""
        asked = repr((decided.row, text, key))
        known = self._kept.get(asked)
        if known is None:
            known = self._worker.do(asked, lambda: self._find(asked, decided, text, key), patience)
        return known

    def _find(self, asked: str, decided: DecidedRun, text: str, key: ScenarioKey | None) -> Said:
        found = self._kept[asked] = self._store.find_said(decided.run.id, text, key=key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return found

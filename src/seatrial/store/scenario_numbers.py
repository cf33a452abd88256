"""Which number a scenario has in the rows of a run."""

from collections.abc import Iterable
from itertools import count

from . import schema
from .connection import Connection

_MOST = 20_000


class Numbers:
    """The numbers of one run's scenarios: whoever added them knows them, the rest is looked up.

    To look them up where the rows are written would take a third of the time that the rows take.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._known: dict[str, int] = {}

    def add(self, names: Iterable[str], first: int) -> None:
        """These are in the run's rows now, numbered from `first`."""
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known.update(zip(names, count(first), strict=False))

    def of(self, connection: Connection, name: str) -> int | None:
        """None when the run has no such scenario."""
        if name not in self._known:
            row = connection.row(schema.NUMBER, (self.run_id, name))
            if row is None:
                return None
            self.add((name,), row[0])
        return self._known[name]

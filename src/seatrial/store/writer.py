"""Writes the trials of a run in a thread of its own: trials are handed over one by one, and committed in groups."""

from collections.abc import Callable, Sequence
from threading import Condition, Thread
from types import TracebackType

from seatrial.errors import StoreError, UsageError
from seatrial.model.run import ScenarioEntry, Trial

from .database import Conflict, Connection, Database
from .scenarios import insert_scenarios
from .trials import explain_conflict, insert_trials, make_rows

_GROUP = 100
_WAIT_SECONDS = 0.05
_MAX_TRIALS = 1_000
"""The number of trials that may wait before `submit` does."""
_MAX_BATCHES = 8
"""The number of batches of scenarios that may wait before `plan` does."""

_Group = tuple[list[Sequence[ScenarioEntry]], list[tuple[Trial, bool]]]
"""Batches of scenarios, and trials with whether they may replace a stored one."""


class TrialWriter:
    """Saves scenarios and their trials.

    `on_committed` gets each group of trials after its commit, in the writer's thread. It must not submit.

    An event loop must not wait for the disk, so ask first:
    `if writer.full: await asyncio.to_thread(writer.wait_for_room)`.
    """

    def __init__(
        self,
        database: Database,
        run_id: str,
        on_committed: Callable[[list[Trial]], None],
        on_failed: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._database = database
        self._run_id = run_id
        self._on_committed = on_committed
        self._on_failed = on_failed
        self._trials: list[tuple[Trial, bool]] = []
        self._scenarios: list[Sequence[ScenarioEntry]] = []
        self._changed = Condition()
        self._hurry = False
        """Commit now: the run waits for these trials."""
        self._writing = False
        self._closing = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._work, name="seatrial-store", daemon=True)
        self._thread.start()

    def submit(self, trial: Trial, *, replace: bool = False) -> None:
        """Hand a trial over. Waits while the writer is `full`. Raises StoreError when the writer has failed.

        `replace`: delete a stored trial of the same scenario and index; else it is an error.
        """
        with self._changed:
            self._wait_until(lambda: not self.full)
            self._require_open("a trial")
            self._trials.append((trial, replace))
            if len(self._trials) in (1, _GROUP):
                self._changed.notify_all()

    def plan(self, entries: Sequence[ScenarioEntry]) -> None:
        """Hand scenarios over, before their trials. They are committed no later than the first of those."""
        with self._changed:
            self._wait_until(lambda: len(self._scenarios) < _MAX_BATCHES)
            self._require_open("a scenario")
            self._scenarios.append(entries)
            self._changed.notify_all()

    @property
    def full(self) -> bool:
        """Whether `submit` would wait."""
        return len(self._trials) >= _MAX_TRIALS

    def wait_for_room(self) -> None:
        """Return once `submit` would not wait. Raises StoreError when the writer has failed."""
        with self._changed:
            self._wait_until(lambda: not self.full)

    def hurry(self) -> None:
        """Commit what was handed over without waiting for more."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()

    def flush(self) -> None:
        """Return once everything handed over so far is committed and reported. Raises StoreError."""
        with self._changed:
            self.hurry()
            self._changed.wait_for(lambda: self._error or not (self._trials or self._scenarios or self._writing))
            self._raise_error()

    def close(self) -> None:
        """Commit what was handed over, and end the thread. Raises StoreError when anything could not be saved."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._raise_error()

    def explain(self, error: BaseException) -> BaseException:
        """The exception to raise when the writer failed for this reason."""
        if isinstance(error, StoreError | UsageError):
            return type(error)(str(error))
        return StoreError(f"run {self._run_id}: trials could not be saved: {error!r}")

    def __enter__(self) -> "TrialWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._error or self._closing or condition())
        self._raise_error()

    def _require_open(self, what: str) -> None:
        if self._closing:
            raise StoreError(f"run {self._run_id}: {what} was handed to the store after its writer was closed")

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self.explain(self._error) from self._error

    def _work(self) -> None:
        try:
            connection = Connection(self._database)
            try:
                while any(group := self._next_group()):
                    self._save(connection, *group)
                    if trials := [trial for trial, _ in group[1]]:
                        self._on_committed(trials)
            finally:
                connection.close()
        except BaseException as error:  # the end of the thread: the next `submit`, `flush` or `close` raises it
            with self._changed:
                self._error = error
                self._changed.notify_all()
            if self._on_failed is not None:
                self._on_failed(self.explain(error))

    def _next_group(self) -> _Group:
        """What to commit next, once there is a full group or it has waited long enough; empty at the end."""
        with self._changed:
            self._writing = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._trials or self._scenarios or self._closing)
            self._changed.wait_for(
                lambda: self._closing or self._hurry or len(self._trials) >= _GROUP, timeout=_WAIT_SECONDS
            )
            group = (self._scenarios, self._trials)
            self._scenarios, self._trials = [], []
            self._hurry = False
            self._writing = True
            self._changed.notify_all()
            return group

    def _save(
        self, connection: Connection, scenarios: list[Sequence[ScenarioEntry]], trials: list[tuple[Trial, bool]]
    ) -> None:
        rows = [make_rows(trial) for trial, _ in trials]
        replaced = [row for row, (_, replaces) in zip(rows, trials, strict=True) if replaces]
        try:
            with connection.transaction():
                if scenarios:
                    connection.database.lock_contents(connection, shared=True)  # before any row, as `delete_runs` does
                for entries in scenarios:
                    insert_scenarios(connection, self._run_id, entries)
                if rows:
                    insert_trials(connection, self._run_id, rows, replaced=replaced)
        except Conflict as conflict:
            raise explain_conflict(connection, self._run_id, trials, conflict) from conflict

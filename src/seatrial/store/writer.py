"""The one writer of a process: trials go in one by one, and are committed in groups by a thread of its own."""

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from types import TracebackType
from typing import NamedTuple

from seatrial.clock import milliseconds
from seatrial.errors import StoreError, UsageError
from seatrial.model.run import ScenarioEntry, Trial

from .database import Conflict, Connection, Database, Row
from .scenarios import insert_scenarios, make_entry_rows
from .trials import Numbers, TrialRows, explain_conflict, insert_trials, make_rows

_GROUP = 100
_WAIT_MS = 50.0
_ROOM = 1_000
"""How many trials may wait before `submit` does."""
_MOST_PLANNED = 8
"""How many batches of scenarios may wait before `plan` does."""


class _Waiting(NamedTuple):
    rows: TrialRows
    """Made where the trial was played: its parts are at hand there, and another thread would fetch them one by one."""
    trial: Trial
    replaces: bool


class _Planned(NamedTuple):
    entries: Sequence[ScenarioEntry]
    rows: list[Row]


class TrialWriter:
    """Saves scenarios and their trials.

    `on_committed` is told of each group of trials once it is safe, on the writer's thread; it must not submit.

    On an event loop, ask first, so that the loop never waits for the disk:
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
        self._numbers = Numbers(run_id)
        self._on_committed = on_committed
        self._on_failed = on_failed
        self._waiting: deque[_Waiting] = deque()
        self._planned: deque[_Planned] = deque()
        self._changed = Condition()
        self._hurry = False
        """Somebody waits for what is here; no use in gathering more."""
        self._writing = False
        self._closing = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._work, name="seatrial-store", daemon=True)
        self._thread.start()

    def submit(self, trial: Trial, *, replace: bool = False) -> None:
        """Hand a trial over. Waits while the writer is `full`. Raises StoreError when the writer has failed.

        `replace`: a stored trial of the same scenario and index makes way; without, it is an error.
        """
        if self.full or self._closing or self._error is not None:
            self.wait_for_room()
            self._require_open("a trial")
        # A deque needs no lock. The thread looks at it again before it sleeps, so only one that sleeps must be told.
        self._waiting.append(_Waiting(make_rows(trial), trial, replace))
        if len(self._waiting) in (1, _GROUP):
            with self._changed:
                self._changed.notify_all()

    def plan(self, entries: Sequence[ScenarioEntry]) -> None:
        """Hand scenarios over, ahead of their trials; they are committed no later than the first of those."""
        planned = _Planned(entries, make_entry_rows(entries))
        with self._changed:
            self._changed.wait_for(lambda: self._error or self._closing or len(self._planned) < _MOST_PLANNED)
            self._raise_error()
            self._require_open("a scenario")
            self._planned.append(planned)
            self._changed.notify_all()

    @property
    def full(self) -> bool:
        """Whether `submit` would wait."""
        return len(self._waiting) >= _ROOM

    def wait_for_room(self) -> None:
        """Return once `submit` would not wait. Raises StoreError when the writer has failed."""
        with self._changed:
            self._wait_for_room()

    def hurry(self) -> None:
        """Commit what is there without waiting for more."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()

    def flush(self) -> None:
        """Return once everything handed over so far is committed and reported. Raises StoreError."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._error or not (self._waiting or self._planned or self._writing))
            self._raise_error()

    def close(self) -> None:
        """Commit what is left, and end the thread. Raises StoreError when anything could not be saved."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._raise_error()

    def __enter__(self) -> "TrialWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_room(self) -> None:
        self._changed.wait_for(lambda: self._error or self._closing or not self.full)
        self._raise_error()

    def _require_open(self, what: str) -> None:
        if self._closing:
            raise StoreError(f"run {self._run_id}: {what} was handed to the store after its writer was closed")

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self.explain(self._error) from self._error

    def explain(self, error: BaseException) -> BaseException:
        """What is raised where the writer failed for this reason."""
        if isinstance(error, StoreError | UsageError):
            return type(error)(str(error))
        return StoreError(f"run {self._run_id}: trials could not be saved: {error!r}")

    def _work(self) -> None:
        try:
            connection = Connection(self._database)
            try:
                while any(together := self._next_group()):
                    planned, group = together
                    self._save(connection, planned, group)
                    if group:
                        self._on_committed([each.trial for each in group])
            finally:
                connection.close()
        except BaseException as error:  # the end of a thread: whoever submits or closes next raises it
            with self._changed:
                self._error = error
                self._changed.notify_all()
            if self._on_failed is not None:
                self._on_failed(self.explain(error))

    def _next_group(self) -> tuple[list[_Planned], list[_Waiting]]:
        """What is to be committed together; nothing when there is nothing left to do."""
        with self._changed:
            self._writing = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._planned or self._closing)
            deadline = milliseconds() + _WAIT_MS
            while len(self._waiting) < _GROUP and not self._closing and not self._hurry:
                left = deadline - milliseconds()
                if left <= 0:
                    break
                self._changed.wait(left / 1000)
            # Where the disk was slower than the trials came, it is asked once for all full groups that are there.
            count = len(self._waiting)
            group = [self._waiting.popleft() for _ in range(count - count % _GROUP or count)]
            planned = [self._planned.popleft() for _ in range(len(self._planned))]
            self._hurry = self._hurry and bool(self._waiting)
            self._writing = True
            self._changed.notify_all()  # there is room now, before this group is saved
            return planned, group

    def _save(self, connection: Connection, planned: list[_Planned], group: list[_Waiting]) -> None:
        rows = [each.rows for each in group]
        replaced = [each.rows for each in group if each.replaces]
        try:
            with connection.transaction():
                if planned:
                    connection.share_contents()  # before any row: whoever deletes runs takes the locks in that order
                for entries, made in planned:
                    insert_scenarios(connection, self._numbers, entries, made)
                if rows:
                    insert_trials(connection, self._numbers, rows, replaced=replaced)
        except Conflict as conflict:
            given = [(each.trial, each.replaces) for each in group]
            raise explain_conflict(connection, self._run_id, given, conflict) from conflict

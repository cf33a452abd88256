"""The rows of a run under way, and those who listen to it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.model.events import Event, RunFinished, RunStarted, ScenarioPlanned, TrialFinished
from seatrial.model.run import MergedErrors, Run, RunState, ScenarioEntry, ScenarioKey, Trial
from seatrial.store.store import Store
from seatrial.store.writer import TrialWriter

from .report import MemoryRecord, Report, StoredRecord
from .request import Listener

Told = Callable[[Sequence[Trial] | BaseException], object]


class Recorder:
    """Writes a run down as it goes: in the store where there is one, else in memory.

    Listeners are told of a trial only after its commit.
    """

    def __init__(
        self, run: Run, store: Store | None, listeners: Sequence[Listener], *, tell_trials: bool = True
    ) -> None:
        """`tell_trials`: listeners hear of each trial once it is committed; else when `tell_finished` is called."""
        self.run = run
        self._store = store
        self._listeners = listeners
        self._tell_trials = tell_trials
        self._writer: TrialWriter | None = None
        self._entries: list[ScenarioEntry] = []
        self._trials: list[Trial] = []
        self._merged: list[MergedErrors] = []
        self._played = 0
        self._waiting: dict[int, Told] = {}
        """By the identity of trials that are not committed yet: whom to tell."""
        self.looks_for_failures = False
        """Whether some scenario makes the judge look for behaviour failures."""

    def start(self, *, scenarios: int, trials: int, again: bool = False, join: bool = False) -> None:
        """`again`: the run is in the store already, and goes on. `join`: another process may have stored it."""
        if self._store is not None:
            if again:
                self.run = replace(self.run, state=RunState.RUNNING, finished_at=None)
                self._store.resume_run(self.run.id)
            else:
                self.run = _join(self._store, self.run) if join else self.run
                if not join:
                    self._store.start_run(self.run)
        self._tell(RunStarted(run=self.run, scenarios=scenarios, trials=trials))

    def add(self, entries: Sequence[ScenarioEntry], *, stored: Mapping[ScenarioKey, int] | None = None) -> None:
        """Write scenarios ahead of their trials. `stored` says how many trials there are already of those that are."""
        self.looks_for_failures |= any(entry.gates.fail_on_error_severity is not None for entry in entries)
        known = stored or {}
        fresh = [entry for entry in entries if entry.key not in known]
        if self._store is None:
            self._entries += fresh
        elif fresh:
            self._open_writer.plan(fresh)
        for entry in entries if self._listeners else ():
            self._tell(ScenarioPlanned(entry=entry, stored=known.get(entry.key, 0)))

    @property
    def full(self) -> bool:
        """Whether whoever saves must wait for room."""
        return self._writer is not None and self._writer.full

    async def wait_for_room(self) -> None:
        if self._writer is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._writer.wait_for_room)

    def save(self, trial: Trial, *, told: Told, replace: bool = False) -> None:
        """Hand a trial over. `told` is called, in any thread, with trials that are safe, or with why they are not."""
        self._waiting[id(trial)] = told
        if self._store is None:
            self._trials.append(trial)
            self._on_committed([trial])
        else:
            self._open_writer.submit(trial, replace=replace)

    @property
    def _open_writer(self) -> TrialWriter:
        if self._writer is None:
            assert self._store is not None
            self._writer = self._store.writer(self.run.id, on_committed=self._on_committed, on_failed=self._on_failed)
        return self._writer

    def hurry(self) -> None:
        """Commit what is there now: there is nothing to wait for."""
        if self._writer is not None:
            self._writer.hurry()

    async def flush(self) -> None:
        """Wait until everything that was saved is committed."""
        if self._writer is not None:
            await _in_thread(self._writer.flush)

    async def close(self) -> None:
        """Wait for the last commit, even when the run is being cancelled meanwhile."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await _in_thread(writer.close)

    def note_problem(self, problem: str | None) -> None:
        """Keep why the run has not passed whatever its trials say; None: nothing of the kind."""
        if problem is not None:
            self.run = replace(self.run, problem=problem)
            if self._store is not None:
                self._store.note_problem(self.run.id, problem)

    def finish(self, state: RunState) -> None:
        ended = now()
        self.run = replace(self.run, state=state, finished_at=ended)
        if self._store is not None:
            self._store.finish_run(self.run.id, state, ended)

    def keep_merged(self, merges: Sequence[MergedErrors]) -> None:
        """Write down what a model merged."""
        if self._store is None:
            self._merged += merges
        else:
            self._store.put_merged(self.run.id, merges)

    def record(self) -> StoredRecord | MemoryRecord:
        """The run as far as it is written down."""
        if self._store is not None:
            return StoredRecord(self._store, self.run)
        return MemoryRecord(self.run, self._entries, self._trials, self._merged)

    def tell_finished(self, trials: Sequence[Trial]) -> None:
        """Tell listeners of trials that are committed and final."""
        for trial in trials if self._listeners else ():
            self._tell(TrialFinished(trial=trial))

    def tell_run_finished(self) -> None:
        self._tell(RunFinished(run=self.run))

    def report(self) -> Report:
        self.tell_run_finished()
        return Report(self.record(), played=self._played)

    def _on_committed(self, trials: Sequence[Trial]) -> None:
        self._played += len(trials)
        if self._tell_trials:
            self.tell_finished(trials)
        by_reader: dict[Told, list[Trial]] = {}
        for trial in trials:
            by_reader.setdefault(self._waiting.pop(id(trial)), []).append(trial)
        for tell, committed in by_reader.items():
            tell(committed)

    def _on_failed(self, error: BaseException) -> None:
        self._writer = None  # the next trial gets another, which may do better
        waiting, self._waiting = self._waiting, {}
        for tell in dict.fromkeys(waiting.values()):
            tell(error)

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)


async def _in_thread(function: Callable[[], None]) -> None:
    """Call it in a thread and wait for its end, even when the run is being cancelled meanwhile."""
    ending = asyncio.get_running_loop().run_in_executor(None, function)
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            continue
    ending.result()


def _join(store: Store, run: Run) -> Run:
    """The run as it is stored; another process may have been first."""
    try:
        store.start_run(run)
    except UsageError as refused:
        try:
            return store.run(run.id)
        except UsageError:
            raise refused from None
    return run

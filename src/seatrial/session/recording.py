"""The rows of a run under way, and those who listen to it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from seatrial.clock import now
from seatrial.store import Store, TrialWriter
from seatrial.vocabulary.events import (
    Event,
    RunFinished,
    RunStarted,
    ScenarioPlanned,
    TrialFinished,
)
from seatrial.vocabulary.run import MergedErrors, Run, RunState, ScenarioEntry, ScenarioKey, Trial

from .records import MemoryRecord, Report, StoredRecord
from .request import Listener


class Recorder:
    """Writes a run down as it goes: in the store where there is one, else in memory.

    Listeners are told of a trial only after its commit.
    """

    def __init__(self, run: Run, store: Store | None, listeners: Sequence[Listener]) -> None:
        self.run = run
        self._store = store
        self._listeners = listeners
        self._writer: TrialWriter | None = None
        self._entries: list[ScenarioEntry] = []
        self._trials: list[Trial] = []
        self._merged: list[MergedErrors] = []
        self._played = 0
        self.looks_for_failures = False
        """Whether some scenario makes the judge look for behaviour failures."""

    def start(self, *, scenarios: int, trials: int, again: bool = False) -> None:
        """`again`: the run is in the store already, and goes on."""
        if self._store is not None:
            if again:
                self.run = replace(self.run, state=RunState.RUNNING, finished_at=None)
                self._store.resume_run(self.run.id)
            else:
                self._store.start_run(self.run)
            self._writer = self._store.writer(self.run.id, on_committed=self._on_committed)
        self._tell(RunStarted(run=self.run, scenarios=scenarios, trials=trials))

    def add(self, entries: Sequence[ScenarioEntry], *, stored: Mapping[ScenarioKey, int] | None = None) -> None:
        """Write scenarios ahead of their trials. `stored` says how many trials there are already of those that are."""
        self.looks_for_failures |= any(entry.gates.fail_on_error_severity is not None for entry in entries)
        known = stored or {}
        fresh = [entry for entry in entries if entry.key not in known]
        if self._writer is None:
            self._entries += fresh
        elif fresh:
            self._writer.plan(fresh)
        for entry in entries if self._listeners else ():
            self._tell(ScenarioPlanned(entry=entry, stored=known.get(entry.key, 0)))

    @property
    def full(self) -> bool:
        """Whether whoever saves must wait for room."""
        return self._writer is not None and self._writer.full

    async def wait_for_room(self) -> None:
        if self._writer is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._writer.wait_for_room)

    def save(self, trial: Trial, *, replace: bool = False) -> None:
        """Hand a trial over; it is safe once listeners are told of it."""
        if self._writer is None:
            self._trials.append(trial)
            self._on_committed([trial])
        else:
            self._writer.submit(trial, replace=replace)

    async def close(self) -> None:
        """Wait for the last commit, even when the run is being cancelled meanwhile."""
        if self._writer is None:
            return
        closing = asyncio.get_running_loop().run_in_executor(None, self._writer.close)
        while not closing.done():
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError:
                continue
        closing.result()

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

    def report(self) -> Report:
        self._tell(RunFinished(run=self.run))
        return Report(self.record(), played=self._played)

    def _on_committed(self, trials: Iterable[Trial]) -> None:
        for trial in trials:
            self._played += 1
            self._tell(TrialFinished(trial=trial))

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)

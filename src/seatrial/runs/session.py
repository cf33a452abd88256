"""The rows of a run under way, and those who listen to it."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack

from msgspec import field
from msgspec.structs import replace

from seatrial import foreign
from seatrial.clock import now
from seatrial.engine.executors import Executor, LocalExecutor
from seatrial.engine.redact import Redaction, Secret
from seatrial.engine.schedule import RateLimit, Schedule
from seatrial.engine.trial import TrialSettings
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorInfo
from seatrial.model.protocols import Event, PreparedScenario, RunFinished, RunStarted, ScenarioPlanned, TrialFinished
from seatrial.model.results import BehaviourFailure
from seatrial.model.run import MergedErrors, Run, RunState, ScenarioEntry, ScenarioKey, Trial
from seatrial.model.struct import Struct
from seatrial.scenarios.models import RunModels
from seatrial.store.store import Store, open_store
from seatrial.store.writer import TrialWriter
from seatrial.verdicts.trial import count_earlier

from .report import MemoryRecord, Report, StoredRecord
from .request import Listener, RunRequest
from .run_plan import Agents

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


def listeners_of(request: RunRequest) -> tuple[Listener, ...]:
    """Those of the request, and one that writes spans where OpenTelemetry is in use at all."""
    environ = request.environ
    if "opentelemetry.trace" not in sys.modules and not any(name.startswith("OTEL_") for name in environ):
        return request.listeners
    from seatrial.telemetry.setup import span_listeners

    return (*request.listeners, *span_listeners(environ))


async def merge_failures(
    scenarios: Callable[[], Iterable[PreparedScenario]], recorder: Recorder, models: RunModels
) -> list[MergedErrors]:
    """Ask the dedup model about every scenario in whose trials failures differ. All trials must be stored."""
    if not recorder.looks_for_failures:
        return []
    record = recorder.record()
    open_questions = _differing(record)
    asked = [each for each in scenarios() if each.entry.key in open_questions] if open_questions else []
    merged = await asyncio.gather(*(_merge(each, record, models) for each in asked))
    if merged:
        recorder.keep_merged(merged)
    return merged


def _differing(record: StoredRecord | MemoryRecord) -> set[ScenarioKey]:
    """The scenarios that have more than one failure by severity and label; the rest need no model."""
    seen: dict[ScenarioKey, set[tuple[str, str]]] = defaultdict(set)
    for summary in record.summaries():
        for severity, label, _, _ in summary.failures:
            seen[summary.key].add((severity, label))
    return {key for key, found in seen.items() if len(found) > 1}


async def _merge(prepared: PreparedScenario, record: StoredRecord | MemoryRecord, models: RunModels) -> MergedErrors:
    key = prepared.entry.key
    failures: list[tuple[int, tuple[BehaviourFailure, ...]]] = [
        (trial.index, trial.judgement.failures) for trial in record.trials(key) if trial.judgement is not None
    ]
    merged = await models.merge_failures(failures, prepared.scenario)
    return MergedErrors(key=key, errors=merged.errors, use=merged.use, note=merged.note)


Place = tuple[ScenarioKey, int]
"""A scenario and the index of a trial."""


class Jobs(Struct, frozen=True, kw_only=True):
    """Jobs, and how to run them."""

    schedule: Schedule
    executor: Executor
    concurrency: int
    replaced: Mapping[Place, tuple[ErrorInfo, ...]] = field(default_factory=dict)
    """Stored trials that make way for new ones, and the errors of the agent that still count against them."""


class RunSession:
    """One run: its store, agents, models, redaction, budget and listeners. An async context manager.

    `start` writes the run down, `play` yields trials that are committed, `play_to_end` also ends the run and reports.
    """

    def __init__(
        self, request: RunRequest, *, agents: Agents, models: RunModels, secrets: Callable[[], Iterable[Secret]]
    ) -> None:
        """`secrets` gives what must be in no file, report or log; it is asked again when agents have come."""
        self.request = request
        self.agents = agents
        self.models = models
        self._secrets = secrets
        self._redaction: tuple[int, Redaction] | None = None
        self._recorder: Recorder | None = None
        self._resources = ExitStack()
        self.store: Store | None = None
        self.cancelled = False

    async def __aenter__(self) -> "RunSession":
        self._resources.enter_context(foreign.in_use())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Commit what is left, then close all agents and models, also when one of them raises."""
        try:
            if self._recorder is not None:
                await self._recorder.close()
                await self._note_late_calls()
        finally:
            try:
                await self.agents.close()
            finally:
                await self.models.close()
                self._resources.close()

    @property
    def redaction(self) -> Redaction:
        """Made anew only when agents or settings have come that may have brought secrets."""
        if self._redaction is None or self._redaction[0] != self.agents.count:
            self._redaction = (self.agents.count, Redaction(self._secrets()))
        return self._redaction[1]

    def add_secrets(self) -> None:
        """Say that `secrets` has more to give."""
        self._redaction = None

    @property
    def recorder(self) -> Recorder:
        assert self._recorder is not None, "the run has not been started"
        return self._recorder

    @property
    def is_started(self) -> bool:
        return self._recorder is not None

    @property
    def run(self) -> Run:
        return self.recorder.run

    def open_store(self) -> Store | None:
        """The request's store, opened once; None where nothing is kept."""
        if self.store is None and self.request.store is not None:
            self.store = open_store(self.request.store)
        return self.store

    def claim(self, run_id: str) -> None:
        """Say that this process plays the run. Raises UsageError while another process does."""
        store = self.open_store()
        if store is not None:
            self._resources.callback(store.claim_run(run_id))

    def start(
        self,
        run: Run,
        *,
        scenarios: int = 0,
        trials: int = 0,
        again: bool = False,
        join: bool = False,
        tell_trials: bool = True,
    ) -> None:
        """Write the run down. `again`: it is stored and goes on. `join`: another process may have written it first.

        `tell_trials`: listeners hear of each trial once it is committed; else when `recorder.tell_finished` is called.
        """
        self._recorder = Recorder(run, self.open_store(), listeners_of(self.request), tell_trials=tell_trials)
        self._recorder.start(scenarios=scenarios, trials=trials, again=again, join=join)

    def add(self, entries: Sequence[ScenarioEntry], *, stored: Mapping[ScenarioKey, int] | None = None) -> None:
        """Write scenarios down, ahead of their trials."""
        self.recorder.add(entries, stored=stored)

    def settings(self, *, rate_limit: RateLimit | None = None) -> TrialSettings:
        """What all trials of the run share."""
        return TrialSettings(
            run_id=self.run.id, seed=self.run.seed, rate_limit=rate_limit, redact=self.redaction.transcript
        )

    def local_executor(self, *, rate_limit: RateLimit | None = None) -> LocalExecutor:
        return LocalExecutor(self.settings(rate_limit=rate_limit))

    async def play(self, jobs: Jobs) -> AsyncGenerator[Trial, None]:
        """Run the jobs; each trial is yielded once it is committed.

        Closing the generator cancels the trials in flight; what is finished is kept.
        """
        committed: asyncio.Queue[Sequence[Trial] | BaseException] = asyncio.Queue()
        saved = _Saved(committed)
        feeding = asyncio.create_task(self._feed(jobs, saved))
        feeding.add_done_callback(lambda _: committed.put_nowait(()))
        taken = 0
        try:
            while not feeding.done() or taken < saved.count:
                news = await committed.get()
                if isinstance(news, BaseException):
                    raise news
                for trial in news:
                    taken += 1
                    yield trial
                if feeding.done():
                    feeding.result()
        finally:
            await _end(feeding)

    async def _feed(self, jobs: Jobs, saved: "_Saved") -> None:
        """Run the jobs and hand their trials to the store."""
        recorder = self.recorder
        finished = jobs.executor.run(jobs.schedule, concurrency=jobs.concurrency)
        try:
            async for _, trial in finished:
                if recorder.full:
                    await recorder.wait_for_room()
                saved.count += 1
                earlier = jobs.replaced.get((trial.key, trial.index))
                final = count_earlier(trial, earlier) if earlier else trial
                recorder.save(final, told=saved.tell, replace=earlier is not None)
        finally:
            await finished.aclose()
            recorder.hurry()

    async def merge_failures(self, scenarios: Callable[[], Iterable[PreparedScenario]]) -> list[MergedErrors]:
        """Merge behaviour failures of several trials, where a model must say which are the same."""
        await self.recorder.flush()
        return await merge_failures(scenarios, self.recorder, self.models)

    async def play_to_end(
        self,
        jobs: Jobs,
        *,
        scenarios: Callable[[], Iterable[PreparedScenario]],
        rest: Iterable[object] = (),
        complete: bool = True,
    ) -> Report:
        """Play everything, end the run and report. A cancelled run keeps what is finished and ends as interrupted.

        `scenarios`: all of the run, read again where failures must be merged. `rest`: going through it writes down the
        scenarios that were not reached. `complete`: False where the run lacks trials all the same, so that it cannot
        end as finished.
        """
        state = RunState.INTERRUPTED
        try:
            await self._play_all(jobs, rest)
            await self.merge_failures(scenarios)
            await self._note_late_calls()
            if complete:
                state = RunState.FINISHED
        except asyncio.CancelledError:
            self.cancelled = True
        finally:
            await self.recorder.close()
            self.recorder.finish(state)
        return self.recorder.report()

    async def _note_late_calls(self) -> None:
        """Keep calls that agents made for trials that had ended: they are in no transcript."""
        self.recorder.note_problem(await self.agents.find_late_call())

    async def _play_all(self, jobs: Jobs, rest: Iterable[object]) -> None:
        trials = self.play(jobs)
        try:
            async for _ in trials:
                pass
        except asyncio.CancelledError:
            await trials.aclose()
            _exhaust(rest)
            raise
        finally:
            await trials.aclose()
        _exhaust(rest)


def _exhaust(rest: Iterable[object]) -> None:
    for _ in rest:
        pass


class _Saved:
    """The trials that were handed to the store, and those of them that are committed."""

    def __init__(self, committed: "asyncio.Queue[Sequence[Trial] | BaseException]") -> None:
        self.count = 0
        self._committed = committed
        self._loop = asyncio.get_running_loop()

    def tell(self, news: Sequence[Trial] | BaseException) -> None:
        try:
            self._loop.call_soon_threadsafe(self._committed.put_nowait, news)
        except RuntimeError:
            return  # the loop has closed, so nobody reads this


async def _end(task: "asyncio.Task[None]") -> None:
    """Cancel the task and wait for its end; what it raises is told elsewhere."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()

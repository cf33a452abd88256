"""The session of a run: it owns the store, agents, models, redaction and listeners, and plays jobs.

Request -> RunSession -> jobs -> executor -> committed trial -> verdicts from rows -> Report. The command line plays all
jobs of a plan (execute_run), pytest one scenario at a time (scenario_session), regrade and import-trace judge recorded
conversations.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from msgspec import field
from msgspec.structs import replace

from seatrial import foreign
from seatrial.clock import now
from seatrial.engine.executors import Executor
from seatrial.engine.redact import Redaction
from seatrial.engine.schedule import RateLimit, Schedule
from seatrial.engine.trial import TrialSettings
from seatrial.errors import UsageError
from seatrial.model.conversation import ErrorInfo
from seatrial.model.protocols import Event, PreparedScenario, RunFinished, RunStarted, ScenarioPlanned, TrialFinished
from seatrial.model.run import MergedErrors, Run, RunState, ScenarioEntry, ScenarioKey, Trial
from seatrial.model.struct import Struct
from seatrial.scenarios.loaded_suite import LoadedSuite
from seatrial.scenarios.models import RunModels
from seatrial.store.store import Store, open_store
from seatrial.store.writer import TrialWriter
from seatrial.verdicts.trial import count_earlier

from .agents import Agents
from .definitions import definition_name, definition_of
from .event_loop import cancel_on_sigterm
from .report import MemoryRecord, Report, StoredRecord
from .request import Listener, RunRequest
from .secrets import find_secrets, model_settings

Place = tuple[ScenarioKey, int]
"""A scenario and the index of a trial."""
OnCommitted = Callable[[Sequence[Trial] | BaseException], object]
"""Receives trials that are committed, or the error that prevented it. Called in any thread."""


class Jobs(Struct, frozen=True, kw_only=True):
    """Jobs, and how to run them."""

    schedule: Schedule
    executor: Executor
    concurrency: int
    replaced: Mapping[Place, tuple[ErrorInfo, ...]] = field(default_factory=dict)
    """Stored trials that are replaced by new ones, with the agent errors that still count against them."""


class RunSession:
    """One run: its store, agents, models, redaction, budget and listeners. An async context manager.

    `start` stores the run, `play` yields committed trials, `play_to_end` also ends the run and reports.
    """

    def __init__(self, request: RunRequest, *, agents: Agents, models: RunModels) -> None:
        self.request = request
        self.agents = agents
        self.models = models
        self.store: Store | None = None
        self.cancelled = False
        self._model_settings: dict[str, Mapping[str, Any]] = {}
        """By their text: settings of models that may contain secrets."""
        self._redaction: tuple[tuple[int, int], Redaction] | None = None
        self._recorder: Recorder | None = None
        self._seeds: set[str] = set()
        """Hashes of stored seeds."""
        self._resources = ExitStack()

    async def __aenter__(self) -> "RunSession":
        self._resources.callback(cancel_on_sigterm())
        self._resources.enter_context(foreign.in_use())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Commit the last trials, then close all agents and models, even if one of them raises."""
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

    def keep_contents(self, scenarios: Iterable[PreparedScenario]) -> None:
        """Store the definitions of the scenarios and the seeds of their worlds, each once for all runs."""
        scenarios = list(scenarios)
        seeds: dict[str, Any] = {
            definition_name(one.entry.fingerprint): definition_of(one.scenario) for one in scenarios
        }
        for world in {id(each.world): each.world for each in scenarios if each.world is not None}.values():
            seeds |= {name: seed for name, seed in world.seed_documents().items() if name not in self._seeds}
            self._seeds |= seeds.keys()
        if seeds and self.store is not None:
            self.store.add_contents(self.run.id, {name: self.redaction.value(seed) for name, seed in seeds.items()})

    def add_model_settings(self, suite: LoadedSuite) -> None:
        """Let redaction find the secrets in the model settings of a suite and its scenarios."""
        self._model_settings |= {repr(settings): settings for settings in model_settings(suite)}

    @property
    def redaction(self) -> Redaction:
        """Replaces the secrets of the environment and of all settings known so far."""
        known = (self.agents.count, len(self._model_settings))
        if self._redaction is None or self._redaction[0] != known:
            request = self.request
            settings = (request.models, request.overrides, {"store": request.store}, *self._model_settings.values())
            secrets = find_secrets(request.environ, (*self.agents.settings(), *settings), exempt=request.not_redacted)
            self._redaction = (known, Redaction(secrets))
        return self._redaction[1]

    @property
    def recorder(self) -> "Recorder":
        assert self._recorder is not None, "the run has not been started"
        return self._recorder

    @property
    def is_started(self) -> bool:
        return self._recorder is not None

    @property
    def run(self) -> Run:
        return self.recorder.run

    def open_store(self) -> Store | None:
        """The request's store, opened once; None if nothing is stored."""
        if self.store is None and self.request.store is not None:
            self.store = open_store(self.request.store)
        return self.store

    def claim(self, run_id: str) -> None:
        """Reserve the run for this process. Raises UsageError while another process plays it."""
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
        """Store the run. `again`: it is stored and continues. `join`: another process may have stored it first.

        `tell_trials`: listeners receive each trial after its commit; otherwise when `recorder.tell_finished` is called.
        """
        self._recorder = Recorder(run, self.open_store(), find_listeners(self.request), tell_trials=tell_trials)
        self._recorder.start(scenarios=scenarios, trials=trials, again=again, join=join)

    def trial_settings(self, run: Run | None = None, *, rate_limit: RateLimit | None = None) -> TrialSettings:
        """What all trials of the run share. `run` is needed before `start`."""
        run = run or self.run
        return TrialSettings(run_id=run.id, seed=run.seed, rate_limit=rate_limit, redaction=self.redaction)

    async def play(self, jobs: Jobs) -> AsyncGenerator[Trial, None]:
        """Run the jobs. Yields each trial after its commit.

        Closing the generator cancels the running trials and keeps the finished ones.
        """
        saved = _SavedTrials()
        feeding = asyncio.create_task(self._feed(jobs, saved))
        feeding.add_done_callback(lambda _: saved.committed.put_nowait(()))
        taken = 0
        try:
            while not feeding.done() or taken < saved.count:
                news = await saved.committed.get()
                if isinstance(news, BaseException):
                    raise news
                for trial in news:
                    taken += 1
                    yield trial
                if feeding.done():
                    feeding.result()
        finally:
            await _cancel(feeding)

    async def _feed(self, jobs: Jobs, saved: "_SavedTrials") -> None:
        """Run the jobs and pass their trials to the store."""
        recorder = self.recorder
        finished = jobs.executor.run(jobs.schedule, concurrency=jobs.concurrency)
        try:
            async for _, trial in finished:
                await recorder.wait_for_room()
                saved.count += 1
                earlier = jobs.replaced.get((trial.key, trial.index))
                final = count_earlier(trial, earlier) if earlier else trial
                recorder.save(final, on_committed=saved.add, replace=earlier is not None)
        finally:
            await finished.aclose()
            recorder.commit_now()

    async def play_to_end(
        self,
        jobs: Jobs,
        *,
        scenarios: Callable[[], Iterable[PreparedScenario]],
        rest: Iterable[object] = (),
        complete: bool = True,
    ) -> Report:
        """Play all jobs, end the run and report. A cancelled run keeps its finished trials and ends as interrupted.

        `scenarios`: all scenarios of the run, read again to merge failures. `rest`: an iterator that stores the
        scenarios that were not reached. `complete`: False if the run lacks trials in any case and cannot finish.
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

    async def _note_late_calls(self) -> None:
        """Store a call that an agent made after its trial ended: no transcript contains it."""
        problem = await self.agents.find_late_call()
        if problem is not None:
            self.recorder.note_problem(problem)

    async def merge_failures(self, scenarios: Callable[[], Iterable[PreparedScenario]]) -> list[MergedErrors]:
        """Ask the dedup model about each scenario whose trials have different behaviour failures."""
        await self.recorder.flush()
        if not self.recorder.looks_for_failures:
            return []
        record = self.recorder.record()
        keys = _find_differing(record)
        unclear = [each for each in scenarios() if each.entry.key in keys] if keys else []
        merged = await asyncio.gather(*(self._merge(each, record) for each in unclear))
        if merged:
            self.recorder.keep_merged(merged)
        return merged

    async def _merge(self, prepared: PreparedScenario, record: StoredRecord | MemoryRecord) -> MergedErrors:
        key = prepared.entry.key
        judged = [(trial.index, trial.judgement) for trial in record.trials(key)]
        failures = [(index, judgement.failures) for index, judgement in judged if judgement is not None]
        merged = await self.models.merge_failures(failures, prepared.scenario)
        return MergedErrors(key=key, errors=merged.errors, use=merged.use, note=merged.note)


def _find_differing(record: StoredRecord | MemoryRecord) -> set[ScenarioKey]:
    """The scenarios with more than one failure by severity and label; the others need no model."""
    seen: dict[ScenarioKey, set[tuple[str, str]]] = defaultdict(set)
    for summary in record.summaries():
        for severity, label, _, _ in summary.failures:
            seen[summary.key].add((severity, label))
    return {key for key, found in seen.items() if len(found) > 1}


def _exhaust(rest: Iterable[object]) -> None:
    for _ in rest:
        pass


class _SavedTrials:
    """The trials that were passed to the store, and a queue of those that are committed."""

    def __init__(self) -> None:
        self.count = 0
        self.committed: asyncio.Queue[Sequence[Trial] | BaseException] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def add(self, news: Sequence[Trial] | BaseException) -> None:
        try:
            self._loop.call_soon_threadsafe(self.committed.put_nowait, news)
        except RuntimeError:
            return  # the loop is closed, so there is no reader


async def _cancel(task: "asyncio.Task[None]") -> None:
    """Cancel the task and wait for its end. Its exception is reported elsewhere."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.exception()


def find_listeners(request: RunRequest) -> tuple[Listener, ...]:
    """The request's listeners, and one that writes spans if OpenTelemetry is in use."""
    environ = request.environ
    if "opentelemetry.trace" not in sys.modules and not any(name.startswith("OTEL_") for name in environ):
        return request.listeners
    from seatrial.telemetry.setup import span_listeners

    return (*request.listeners, *span_listeners(environ))


class Recorder:
    """Stores the rows of a run as it goes, in the store or in memory, and tells listeners.

    Listeners receive a trial only after its commit.
    """

    def __init__(
        self, run: Run, store: Store | None, listeners: Sequence[Listener], *, tell_trials: bool = True
    ) -> None:
        """`tell_trials`: listeners receive each trial after its commit; otherwise when `tell_finished` is called."""
        self.run = run
        self._store = store
        self._listeners = listeners
        self._tell_trials = tell_trials
        self._writer: TrialWriter | None = None
        self._entries: list[ScenarioEntry] = []
        self._trials: list[Trial] = []
        self._merged: list[MergedErrors] = []
        self._played = 0
        self._waiting: dict[int, OnCommitted] = {}
        """By the identity of each trial that is not committed yet."""
        self.looks_for_failures = False
        """Whether a scenario makes the judge look for behaviour failures."""

    def start(self, *, scenarios: int, trials: int, again: bool = False, join: bool = False) -> None:
        """Store the run. `again`: it is stored and continues. `join`: another process may have stored it first."""
        if again:
            self.run = replace(self.run, state=RunState.RUNNING, finished_at=None)
        if self._store is not None:
            if again:
                self._store.resume_run(self.run.id)
            elif join:
                self.run = _start_or_join(self._store, self.run)
            else:
                self._store.start_run(self.run)
        self._tell(RunStarted(run=self.run, scenarios=scenarios, trials=trials))

    def add(self, entries: Sequence[ScenarioEntry], *, stored: Mapping[ScenarioKey, int] | None = None) -> None:
        """Store scenarios before their trials. `stored`: scenarios that have rows, with their number of trials."""
        self.looks_for_failures |= any(entry.gates.fail_on_error_severity is not None for entry in entries)
        known = stored or {}
        new = [entry for entry in entries if entry.key not in known]
        if self._store is None:
            self._entries += new
        elif new:
            self._open_writer.plan(new)
        for entry in entries if self._listeners else ():
            self._tell(ScenarioPlanned(entry=entry, stored=known.get(entry.key, 0)))

    async def wait_for_room(self) -> None:
        """Wait while too many trials are not committed yet."""
        if self._writer is not None and self._writer.full:
            await asyncio.get_running_loop().run_in_executor(None, self._writer.wait_for_room)

    def save(self, trial: Trial, *, on_committed: OnCommitted, replace: bool = False) -> None:
        """Pass a trial to the store."""
        self._waiting[id(trial)] = on_committed
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

    def commit_now(self) -> None:
        """Commit without waiting for more trials."""
        if self._writer is not None:
            self._writer.hurry()

    async def flush(self) -> None:
        """Wait until every saved trial is committed."""
        if self._writer is not None:
            await _run_in_thread(self._writer.flush)

    async def close(self) -> None:
        """Wait for the last commit, even if the run is cancelled meanwhile."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await _run_in_thread(writer.close)

    def note_problem(self, problem: str) -> None:
        """Store why the run has not passed, whatever its trials say."""
        self.run = replace(self.run, problem=problem)
        if self._store is not None:
            self._store.note_problem(self.run.id, problem)

    def finish(self, state: RunState) -> None:
        ended = now()
        self.run = replace(self.run, state=state, finished_at=ended)
        if self._store is not None:
            self._store.finish_run(self.run.id, state, ended)

    def keep_merged(self, merges: Sequence[MergedErrors]) -> None:
        """Store the failures that a model merged."""
        if self._store is None:
            self._merged += merges
        else:
            self._store.put_merged(self.run.id, merges)

    def record(self) -> StoredRecord | MemoryRecord:
        """The rows of the run so far."""
        if self._store is not None:
            return StoredRecord(self._store, self.run)
        return MemoryRecord(self.run, self._entries, self._trials, self._merged)

    def tell_finished(self, trials: Sequence[Trial]) -> None:
        """Tell listeners of trials that are committed and final."""
        for trial in trials if self._listeners else ():
            self._tell(TrialFinished(trial=trial))

    def report(self) -> Report:
        self.tell_run_finished()
        return Report(self.record(), played=self._played)

    def tell_run_finished(self) -> None:
        self._tell(RunFinished(run=self.run))

    def _on_committed(self, trials: Sequence[Trial]) -> None:
        self._played += len(trials)
        if self._tell_trials:
            self.tell_finished(trials)
        by_reader: dict[OnCommitted, list[Trial]] = {}
        for trial in trials:
            by_reader.setdefault(self._waiting.pop(id(trial)), []).append(trial)
        for on_committed, committed in by_reader.items():
            on_committed(committed)

    def _on_failed(self, error: BaseException) -> None:
        self._writer = None  # the next trial gets a new writer, which may work
        waiting, self._waiting = self._waiting, {}
        for on_committed in dict.fromkeys(waiting.values()):
            on_committed(error)

    def _tell(self, event: Event) -> None:
        for listener in self._listeners:
            listener(event)


async def _run_in_thread(function: Callable[[], None]) -> None:
    """Call the function in a thread and wait for its end, even if this task is cancelled meanwhile."""
    ending = asyncio.get_running_loop().run_in_executor(None, function)
    while not ending.done():
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            continue
    ending.result()


def _start_or_join(store: Store, run: Run) -> Run:
    """Store the run, or return the stored one if another process was first."""
    try:
        store.start_run(run)
    except UsageError as refused:
        try:
            return store.run(run.id)
        except UsageError:
            raise refused from None
    return run

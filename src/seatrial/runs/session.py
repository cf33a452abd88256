"""`RunSession`: everything that one run needs. All trials are played, judged, stored and reported through it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack

from msgspec import field

from seatrial import foreign
from seatrial.engine.executors import Executor, LocalExecutor
from seatrial.engine.rate_limit import RateLimit
from seatrial.engine.redact import Redaction, Secret
from seatrial.engine.schedule import Schedule
from seatrial.engine.trial import TrialSettings
from seatrial.model.conversation import ErrorInfo
from seatrial.model.protocols import PreparedScenario
from seatrial.model.run import MergedErrors, Run, RunState, ScenarioEntry, ScenarioKey, Trial
from seatrial.model.struct import Struct
from seatrial.scenarios.models import ModelCast
from seatrial.store.opening import open_store
from seatrial.store.store import Store
from seatrial.verdicts.trial import count_earlier

from .agents import Agents
from .listeners import listeners_of
from .merge_failures import merge_failures
from .recorder import Recorder
from .report import Report
from .request import RunRequest

Place = tuple[ScenarioKey, int]
"""A scenario and the index of a trial."""


class Work(Struct, frozen=True, kw_only=True):
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
        self, request: RunRequest, *, agents: Agents, models: ModelCast, secrets: Callable[[], Iterable[Secret]]
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

    async def play(self, work: Work) -> AsyncGenerator[Trial, None]:
        """Run the jobs; each trial is yielded once it is committed.

        Closing the generator cancels the trials in flight; what is finished is kept.
        """
        committed: asyncio.Queue[Sequence[Trial] | BaseException] = asyncio.Queue()
        saved = _Saved(committed)
        feeding = asyncio.create_task(self._feed(work, saved))
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

    async def _feed(self, work: Work, saved: "_Saved") -> None:
        """Run the jobs and hand their trials to the store."""
        recorder = self.recorder
        finished = work.executor.run(work.schedule, concurrency=work.concurrency)
        try:
            async for _, trial in finished:
                if recorder.full:
                    await recorder.wait_for_room()
                saved.count += 1
                earlier = work.replaced.get((trial.key, trial.index))
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
        work: Work,
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
            await self._play_all(work, rest)
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

    async def _play_all(self, work: Work, rest: Iterable[object]) -> None:
        trials = self.play(work)
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

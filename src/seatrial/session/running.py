"""One run from the plan to the report."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.clock import now
from seatrial.errors import UsageError
from seatrial.runner import Redaction, RunOptions, TrialSettings, run_trials
from seatrial.runner.pace import Pace
from seatrial.store import Store, open_store
from seatrial.verdicts import count_earlier
from seatrial.vocabulary.roles import PreparedScenario
from seatrial.vocabulary.run import Run, RunState, Trial

from .discretion import discreet
from .listening import listeners_of
from .loops import cancel_on_sigterm, run_to_the_end
from .merging import merge_errors
from .planning import RunPlan
from .project import Commit, find_commit, versions
from .recording import Recorder
from .records import Report, StoredRecord
from .request import RunRequest
from .snapshot import snapshot

if TYPE_CHECKING:
    from .resuming import Resumed

_CHUNK = 500
"""Scenarios whose rows are written together, ahead of their trials."""


def execute(what: RunRequest | RunPlan) -> Report:
    """Run it to its end, or until Ctrl-C; what is finished is kept either way."""
    plan = what if isinstance(what, RunPlan) else RunPlan(what)
    plan.require_something()
    return run_to_the_end(_Running(plan).play())


async def play(request: RunRequest) -> Report:
    """The same on a loop of the caller's. Cancelling it keeps what is finished, and then cancels."""
    plan = RunPlan(request)
    plan.require_something()
    running = _Running(plan)
    report = await running.play()
    if running.cancelled:
        raise asyncio.CancelledError
    return report


class _Running:
    """A run under way."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._request = plan.request
        if plan.request.executor == "ray":
            from .on_ray import require_cluster

            require_cluster(plan.request)
        self._commit = find_commit(Path.cwd())
        self._redaction = Redaction(plan.secrets())
        self.cancelled = False
        self._while_playing = ExitStack()

    async def play(self) -> Report:
        let_go = cancel_on_sigterm()
        store = open_store(self._request.store) if self._request.store is not None else None
        try:
            return await self._play(store)
        finally:
            let_go()
            self._while_playing.close()
            await self._plan.agents.close()
            await self._plan.models.close()

    async def _play(self, store: Store | None) -> Report:
        resumed = self._resume(store) if self._request.resume else None
        if resumed is not None and store is not None and resumed.is_complete(self._plan):
            return Report(StoredRecord(store, resumed.run))
        run = resumed.run if resumed else self._new_run()
        if store is not None and resumed is None:
            self._while_playing.callback(store.claim_run(run.id))
        recorder = Recorder(run, store, listeners_of(self._request))
        scenarios, trials = self._plan.count()
        recorder.start(
            scenarios=scenarios,
            trials=max(trials - resumed.count, 0) if resumed else trials,
            again=resumed is not None,
        )
        state = RunState.INTERRUPTED
        try:
            await self._play_trials(recorder, resumed)
            await merge_errors(self._plan, recorder)
            recorder.note_problem(await self._plan.agents.find_late_call())
            state = RunState.FINISHED
        except asyncio.CancelledError:
            self.cancelled = True
        finally:
            recorder.finish(state)
        return recorder.report()

    async def _play_trials(self, recorder: Recorder, resumed: "Resumed | None") -> None:
        planned = self._planned(recorder, resumed)
        replaced = resumed.replaced if resumed else {}
        try:
            trials = self._executed(planned, self._options(recorder, resumed))
            try:
                async for trial in trials:
                    if recorder.full:
                        await recorder.wait_for_room()
                    earlier = replaced.get((trial.key, trial.index)) if replaced else None
                    recorder.save(count_earlier(trial, earlier) if earlier else trial, replace=earlier is not None)
            finally:
                await trials.aclose()
        finally:
            for _ in planned:
                pass
            await recorder.close()

    def _executed(self, planned: Iterator[PreparedScenario], options: RunOptions) -> AsyncGenerator[Trial, None]:
        if self._request.executor == "local":
            return run_trials(planned, options)
        from .on_ray import run_trials_on_ray

        return run_trials_on_ray(planned, options, self._request)

    def _options(self, recorder: Recorder, resumed: "Resumed | None") -> RunOptions:
        config = self._plan.config
        return RunOptions(
            concurrency=config.concurrency,
            fail_fast=config.fail_fast,
            budget_usd=_left(config.budget, resumed),
            shuffle_seed=config.seed,
            settings=TrialSettings(
                run_id=recorder.run.id,
                seed=recorder.run.seed,
                pace=Pace(config.rpm) if config.rpm else None,
                redact=self._redaction.transcript,
            ),
            known=resumed.answers if resumed else None,
        )

    def _planned(self, recorder: Recorder, resumed: "Resumed | None") -> Iterator[PreparedScenario]:
        """The scenarios, with their rows written ahead of their trials."""
        scenarios = self._plan.scenarios()
        while chunk := list(islice(scenarios, _CHUNK)):
            recorder.add([prepared.entry for prepared in chunk], stored=resumed.stored if resumed else None)
            yield from (discreet(prepared, self._redaction) for prepared in chunk)

    def _new_run(self) -> Run:
        seed = self._plan.config.seed
        return new_run(
            self._plan, self._commit, self._redaction, seed=secrets.randbelow(2**31) if seed is None else seed
        )

    def _resume(self, store: Store | None) -> "Resumed":
        if store is None:
            raise UsageError("--resume needs a store")
        from .resuming import find_resumed

        assert self._request.resume is not None
        # Before it is looked at, since whoever plays it changes it.
        self._while_playing.callback(store.claim_run(store.run(self._request.resume).id))
        resumed = find_resumed(store, self._plan)
        _left(self._plan.config.budget, resumed)
        return resumed


def new_run(plan: RunPlan, commit: Commit, redaction: Redaction, *, seed: int, parent: str | None = None) -> Run:
    """The record of a run that begins now."""
    found = commit.wait()
    started = now()
    return Run(
        id=plan.request.id or f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        name=plan.name,
        started_at=started,
        seed=seed,
        gates=plan.gates,
        config=redaction.value(snapshot(plan)),
        git_commit=found.sha,
        git_dirty=found.dirty,
        versions=versions(),
        parent=parent,
        replayed=plan.agents.replay(plan.suites),
    )


def _left(budget_usd: float | None, resumed: "Resumed | None") -> float | None:
    """What may still be spent. Raises UsageError where the run has spent it all."""
    if budget_usd is None or resumed is None:
        return budget_usd
    if resumed.spent_usd >= budget_usd:
        raise UsageError(
            f"run {resumed.run.id}: has spent ${resumed.spent_usd:,.4f} of its budget of ${budget_usd:,.4f}. "
            "Give a larger one: --budget USD"
        )
    return budget_usd - resumed.spent_usd

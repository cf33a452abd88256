"""One run from the plan to the report."""

import asyncio
import secrets
import signal
import threading
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from seatrial.clock import now
from seatrial.errors import SeatrialError, UsageError
from seatrial.runner import Redaction, RunOptions, TrialSettings, run_trials
from seatrial.runner.pace import Pace
from seatrial.store import Store, TrialWriter, open_store
from seatrial.verdicts import answer_of
from seatrial.vocabulary.events import (
    Event,
    RunFinished,
    RunStarted,
    ScenarioPlanned,
    TrialFinished,
    TrialStarted,
)
from seatrial.vocabulary.roles import PreparedScenario
from seatrial.vocabulary.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, Trial

from .planning import RunPlan
from .project import find_commit, versions
from .records import MemoryRecord, Report, StoredRecord
from .request import RunRequest
from .secrets_of import find_secrets
from .snapshot import snapshot

_CHUNK = 500
"""Scenarios whose rows are written together, ahead of their trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resumed:
    """What an interrupted run has already."""

    run: Run
    answers: dict[ScenarioKey, dict[int, bool | None]]
    replaced: frozenset[tuple[ScenarioKey, int]]
    """Errored trials that are played again."""


def execute(what: RunRequest | RunPlan) -> Report:
    """Run it to its end, or until Ctrl-C; what is finished is kept either way."""
    plan = what if isinstance(what, RunPlan) else RunPlan(what)
    plan.require_something()
    return _run_to_the_end(_Running(plan).play())


async def play(request: RunRequest) -> Report:
    """The same on a loop of the caller's. Cancelling it keeps what is finished, and then cancels."""
    plan = RunPlan(request)
    plan.require_something()
    running = _Running(plan)
    report = await running.play()
    if running.cancelled:
        raise asyncio.CancelledError
    return report


def _run_to_the_end(coroutine: Coroutine[Any, Any, Report]) -> Report:
    """On a loop of our own; in a thread where this one has a loop already, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_alone(coroutine)
    found: list[Report | BaseException] = []

    def work() -> None:
        try:
            found.append(_run_alone(coroutine))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    result = found[0]
    if isinstance(result, BaseException):
        raise result
    return result


def _run_alone(coroutine: Coroutine[Any, Any, Report]) -> Report:
    try:
        with asyncio.Runner() as runner:
            try:
                return runner.run(coroutine)
            except KeyboardInterrupt:
                # The second Ctrl-C. What it broke off has nothing to add, least of all a traceback.
                runner.get_loop().set_exception_handler(lambda loop, context: None)
                raise
    except SystemExit as left:
        # Python would end here with the code that was given, and 0 would look like a pass.
        raise SeatrialError(
            f"something that takes part in the run called sys.exit({left.code!r}), so there is no verdict; "
            "look for it in evaluators, setup and teardown"
        ) from None


class _Running:
    """A run under way: the rows it writes, and those who listen."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._request = plan.request
        self._commit = find_commit(Path.cwd())
        self._store: Store | None = None
        self._entries: list[ScenarioEntry] = []
        self._trials: list[Trial] = []
        self.cancelled = False

    async def play(self) -> Report:
        task = asyncio.current_task()
        assert task is not None
        unhook = _hook_sigterm(task)
        if self._request.store is not None:
            self._store = open_store(self._request.store)
        try:
            return await self._play()
        finally:
            unhook()
            await self._plan.agents.close()
            await self._plan.models.close()

    async def _play(self) -> Report:
        resumed = self._resume() if self._request.resume else None
        run = resumed.run if resumed else self._new_run()
        if self._store is not None:
            if resumed:
                self._store.resume_run(run.id)
            else:
                self._store.start_run(run)
        scenarios, trials = self._plan.count()
        self._tell(RunStarted(run=run, scenarios=scenarios, trials=trials))
        state = RunState.INTERRUPTED
        try:
            await self._play_trials(run, resumed)
            state = RunState.FINISHED
        except asyncio.CancelledError:
            self.cancelled = True
        finally:
            run = replace(run, state=state, finished_at=now())
            if self._store is not None:
                self._store.finish_run(run.id, state, run.finished_at or now())
        self._tell(RunFinished(run=run))
        if self._store is not None:
            return Report(StoredRecord(self._store, run))
        return Report(MemoryRecord(run, self._entries, self._trials))

    async def _play_trials(self, run: Run, resumed: _Resumed | None) -> None:
        config = self._plan.config
        redaction = Redaction(find_secrets(self._request.environ, self._plan.agents.all()))
        planned = self._planned(run)
        options = RunOptions(
            concurrency=config.concurrency,
            fail_fast=config.fail_fast,
            budget_usd=config.budget,
            shuffle_seed=config.seed,
            settings=TrialSettings(
                run_id=run.id,
                seed=run.seed,
                pace=Pace(config.rpm) if config.rpm else None,
                redact=redaction.transcript,
            ),
            known=resumed.answers if resumed else None,
            on_start=self._on_start if self._request.listeners else None,
        )
        writer = None if self._store is None else self._store.writer(run.id, on_committed=self._on_committed)
        replaced = resumed.replaced if resumed else frozenset()
        try:
            trials = run_trials(planned, options)
            try:
                async for trial in trials:
                    if writer is None:
                        self._trials.append(trial)
                        self._on_committed([trial])
                    else:
                        await _save(writer, trial, replace=(trial.key, trial.index) in replaced)
            finally:
                await trials.aclose()
        finally:
            for _ in planned:
                pass
            if writer is not None:
                await _closed(writer)

    def _planned(self, run: Run) -> Iterator[PreparedScenario]:
        """The scenarios, with their rows written ahead of their trials."""
        scenarios = self._plan.scenarios()
        while chunk := list(islice(scenarios, _CHUNK)):
            entries = [prepared.entry for prepared in chunk]
            if self._store is not None:
                self._store.add_scenarios(run.id, entries)
            else:
                self._entries += entries
            for entry in entries if self._request.listeners else ():
                self._tell(ScenarioPlanned(entry=entry))
            yield from chunk

    def _new_run(self) -> Run:
        config = self._plan.config
        commit = self._commit.wait()
        started = now()
        return Run(
            id=f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            name=self._plan.name,
            started_at=started,
            seed=secrets.randbelow(2**31) if config.seed is None else config.seed,
            gates=self._plan.gates,
            config=snapshot(self._plan),
            git_commit=commit.sha,
            git_dirty=commit.dirty,
            versions=versions(),
        )

    def _resume(self) -> _Resumed:
        assert self._request.resume is not None
        if self._store is None:
            raise UsageError("--resume needs a store")
        run = self._store.run(self._request.resume)
        self._refuse_changes(run)
        answers: dict[ScenarioKey, dict[int, bool | None]] = {}
        replaced = set()
        for summary in self._store.summaries(run.id):
            if self._request.retry_errors and summary.status is Status.ERRORED:
                replaced.add((summary.key, summary.index))
                continue
            answers.setdefault(summary.key, {})[summary.index] = answer_of(summary.status, summary.error_kind)
        return _Resumed(run=replace(run, state=RunState.RUNNING), answers=answers, replaced=frozenset(replaced))

    def _refuse_changes(self, run: Run) -> None:
        """A resumed run must be the same run: same scenarios, same agents."""
        assert self._store is not None
        stored = {entry.key: entry.fingerprint for entry in self._store.entries(run.id)}
        changed = [
            prepared.entry.key.label
            for prepared in self._plan.scenarios()
            if stored.get(prepared.entry.key, prepared.entry.fingerprint) != prepared.entry.fingerprint
        ]
        if changed:
            raise UsageError(
                f"run {run.id} cannot be resumed: {', '.join(changed[:5])} changed since it was started "
                f"(the scenario, its mocks or evaluators, or the agent). Start a new run instead."
            )

    def _on_start(self, key: ScenarioKey, index: int) -> None:
        self._tell(TrialStarted(key=key, index=index))

    def _on_committed(self, trials: Iterable[Trial]) -> None:
        for trial in trials if self._request.listeners else ():
            self._tell(TrialFinished(trial=trial))

    def _tell(self, event: Event) -> None:
        for listener in self._request.listeners:
            listener(event)


async def _save(writer: TrialWriter, trial: Trial, *, replace: bool) -> None:
    if writer.full:
        await asyncio.get_running_loop().run_in_executor(None, writer.wait_for_room)
    writer.submit(trial, replace=replace)


async def _closed(writer: TrialWriter) -> None:
    """Wait for the last commit, even when the run is being cancelled meanwhile."""
    closing = asyncio.get_running_loop().run_in_executor(None, writer.close)
    while not closing.done():
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            continue
    closing.result()


def _hook_sigterm(task: "asyncio.Task[Any]") -> Any:
    """SIGTERM ends a run as Ctrl-C does. Only the main thread can listen."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    except (NotImplementedError, RuntimeError, ValueError):
        return lambda: None
    return lambda: loop.remove_signal_handler(signal.SIGTERM)

"""Executors turn jobs into trials, several at a time.

A job is one trial of one scenario with one agent. `LocalExecutor` plays it in this process; `JudgeExecutor` judges a
recorded conversation. The third executor is `runs.ray_executor`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from seatrial.model.results import RepeatTrial
from seatrial.model.run import Trial

from .schedule import Job, Schedule
from .trial import TrialSettings, disturbed_trial, judge_recorded_trial, run_trial

GRACE_SECONDS = 2.0
"""How long running trials may take to end after an interrupt."""

MAX_REPEATS = 100
"""How often a trial is repeated because other trials disturbed it."""


Finished = tuple[Job, Trial]


class Executor(Protocol):
    """Runs the jobs of a schedule."""

    def run(self, schedule: Schedule, *, concurrency: int) -> AsyncGenerator[Finished, None]:
        """Each job with its trial, as it finishes. Closing the generator cancels the running trials."""
        ...


class LocalExecutor:
    """Plays trials in this process."""

    def __init__(self, settings: TrialSettings) -> None:
        self._settings = settings

    def run(self, schedule: Schedule, *, concurrency: int) -> AsyncGenerator[Finished, None]:
        return run_jobs(schedule, self.play, concurrency=concurrency)

    async def play(self, job: Job) -> Trial:
        for _ in range(MAX_REPEATS):
            try:
                return await run_trial(job.prepared, job.index, self._settings)
            except RepeatTrial:
                continue
        return disturbed_trial(job.prepared, job.index, self._settings, times=MAX_REPEATS)


class JudgeExecutor:
    """Judges recorded conversations. It calls no agent."""

    def __init__(self, settings: TrialSettings) -> None:
        self._settings = settings

    def run(self, schedule: Schedule, *, concurrency: int) -> AsyncGenerator[Finished, None]:
        return run_jobs(schedule, self.judge, concurrency=concurrency)

    async def judge(self, job: Job) -> Trial:
        return await judge_recorded_trial(job, self._settings)


async def run_jobs(
    schedule: Schedule, run_one: Callable[[Job], Awaitable[Trial]], *, concurrency: int
) -> AsyncGenerator[Finished, None]:
    """Run `concurrency` jobs at a time. No job is started while a finished trial waits to be taken."""
    finished: asyncio.Queue[tuple[Job, asyncio.Task[Trial]]] = asyncio.Queue()
    running: set[asyncio.Task[Trial]] = set()

    async def run(job: Job) -> Trial:
        return await run_one(job)

    def start(job: Job) -> None:
        task = asyncio.create_task(run(job))
        running.add(task)
        task.add_done_callback(lambda done: finished.put_nowait((job, done)))

    try:
        while True:
            while len(running) < concurrency and (job := schedule.next()) is not None:
                start(job)
            if not running:
                return
            job, task = await finished.get()
            running.discard(task)
            trial = task.result()
            schedule.note(job, trial)
            yield job, trial
    finally:
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=GRACE_SECONDS)

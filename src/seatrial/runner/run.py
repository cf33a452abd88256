"""All trials of a run, so many at a time."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable
from dataclasses import field

from seatrial.verdicts import Spending
from seatrial.vocabulary.failures import PlayAgain
from seatrial.vocabulary.roles import PreparedScenario
from seatrial.vocabulary.run import Trial
from seatrial.vocabulary.value import Value

from .deck import Deck
from .plan import Answers, Job, Plan
from .trial import TrialSettings, disturbed_trial, run_trial

GRACE_SECONDS = 2.0
"""How long trials in flight may take to end after an interrupt."""

MOST_DISTURBANCES = 100
"""How often a trial is played anew because others disturbed it."""


class RunOptions(Value):
    """How a run goes about its trials."""

    concurrency: int = 20
    fail_fast: bool = False
    budget_usd: float | None = None
    shuffle_seed: int | None = None
    settings: TrialSettings = field(default_factory=TrialSettings)
    known: Answers | None = None
    """What earlier trials of a resumed run said; they are not played again."""


async def run_trials(scenarios: Iterable[PreparedScenario], options: RunOptions) -> AsyncGenerator[Trial, None]:
    """Play the trials and yield each as it is finished. Closing the iterator cancels those in flight."""
    plan = Plan(scenarios, known=options.known, shuffle_seed=options.shuffle_seed, fail_fast=options.fail_fast)
    hands = _Hands(plan, options)
    workers = [asyncio.create_task(hands.work()) for _ in range(options.concurrency)]
    closing = asyncio.create_task(hands.close_after(workers))
    try:
        while await hands.wait():
            while hands.finished:
                yield hands.finished.popleft()
            hands.make_room()
    finally:
        for task in (closing, *workers):
            task.cancel()
        await asyncio.wait((closing, *workers, *hands.deck.close()), timeout=GRACE_SECONDS)
    for worker in workers:
        if worker.done() and not worker.cancelled() and (error := worker.exception()) is not None:
            raise error


class _Hands:
    """The workers that play trials, and what they have in common."""

    def __init__(self, plan: Plan, options: RunOptions) -> None:
        self._plan = plan
        self._options = options
        self._idle = 0
        self._is_over = False
        self._spent = Spending()
        self._changed = asyncio.Event()
        self.finished: deque[Trial] = deque()
        self._closed = False
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self.deck = Deck(self._play, self._finish)
        self._keeps_pace = options.settings.pace is not None
        self._plays_ahead = not options.fail_fast and options.budget_usd is None
        """No result can make it wrong that a trial was begun."""
        self._set_aside: deque[Job] = deque()

    async def work(self) -> None:
        while (job := self._next() or await self._next_job()) is not None:
            if self._is_for_deck(job):
                await self._play_on_deck(job)
            else:
                self._finish(job, await self._play(job))
            # Whoever takes the trials may be slower than those who play them, and memory must stay flat.
            if len(self.finished) >= 2 * self._options.concurrency:
                self._room.clear()
                await self._room.wait()

    def _next(self) -> Job | None:
        return self._set_aside.popleft() if self._set_aside else self._plan.next()

    def _is_for_deck(self, job: Job) -> bool:
        """Conversations of several turns are not: there each is played to its end before the next, and an agent that
        mixes them up would not be found out."""
        prepared = job[0]
        return prepared.plain and len(prepared.scenario.turns) < 2 and not self._keeps_pace

    async def _play_on_deck(self, job: Job) -> None:
        self.deck.add(job)
        while self._plays_ahead and self.deck.wants_more and (ahead := self._next()) is not None:
            if not self._is_for_deck(ahead):
                self._set_aside.append(ahead)
                break
            self.deck.add(ahead)
        await self.deck.wait()

    async def _play(self, job: Job) -> Trial:
        prepared, index = job
        try:
            return await run_trial(prepared, index, self._options.settings)
        except PlayAgain:
            return await self._play_again(prepared, index)

    def _finish(self, job: Job, trial: Trial) -> None:
        self._plan.note(job[0], trial)
        self._spend(trial)
        self._changed.set()
        self.finished.append(trial)
        self._news.set()

    async def wait(self) -> bool:
        """Return when there are finished trials; False when no more will come."""
        while not self.finished:
            if self._closed:
                return False
            self._news.clear()
            await self._news.wait()
        return True

    def make_room(self) -> None:
        """All finished trials were taken."""
        self._room.set()

    async def close_after(self, workers: Collection["asyncio.Task[None]"]) -> None:
        """Tell that nothing more comes, once all workers have ended or one has broken down."""
        await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        self._closed = True
        self._news.set()

    async def _next_job(self) -> Job | None:
        """The next job, when one comes; None when there will be none. The last worker to wait ends the work of all."""
        while (job := self._next()) is None:
            if self.deck.needs_hands:
                await self.deck.wait()
                continue
            self._idle += 1
            if self._idle == self._options.concurrency:
                self._is_over = True
                self._changed.set()
            else:
                self._changed.clear()
                await self._changed.wait()
            if self._is_over:
                return None
            self._idle -= 1
        return job

    async def _play_again(self, prepared: PreparedScenario, index: int) -> Trial:
        for _ in range(MOST_DISTURBANCES - 1):
            try:
                return await run_trial(prepared, index, self._options.settings)
            except PlayAgain:
                continue
        return disturbed_trial(prepared, index, self._options.settings, times=MOST_DISTURBANCES)

    def _spend(self, trial: Trial) -> None:
        self._spent.add(trial.transcript.cost_usd, trial.instruments)
        if self._options.budget_usd is not None and self._spent.reaches(self._options.budget_usd):
            self._plan.stopped = True

"""The order of jobs: which trials to start next, and when to stop. Also rate limits and budgets."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from seatrial.model.conversation import ErrorInfo
from seatrial.model.protocols import PreparedScenario
from seatrial.model.run import HistoryTest, ScenarioKey, Status, Trial
from seatrial.model.struct import Struct
from seatrial.verdicts.rates import answer_of, can_still_pass, decide_history, read_sequential_test
from seatrial.verdicts.run import Spending


class RateLimit:
    """Limits agent calls per minute and spaces them evenly; shared by all trials of a run."""

    def __init__(self, per_minute: float) -> None:
        self._gap = 60.0 / per_minute
        self._next = 0.0

    def reserve(self, now: float) -> float:
        """Reserve the next call. Returns the seconds until it may be made."""
        mine = max(now, self._next)
        self._next = mine + self._gap
        return mine - now

    async def wait(self) -> float:
        """Wait until the next call may be made. Returns the seconds of the wait."""
        seconds = self.reserve(asyncio.get_running_loop().time())
        if seconds > 0:
            await asyncio.sleep(seconds)
        return seconds


Answers = Mapping[ScenarioKey, Mapping[int, bool | None]]
"""By scenario and index: whether the stored trials of a resumed run passed."""

SHUFFLE_WINDOW: Final = 10_000
"""How many scenarios are shuffled at a time, so that large suites are not kept in memory."""


class Job(Struct, frozen=True, kw_only=True):
    """One trial of one scenario with one agent."""

    prepared: PreparedScenario
    index: int
    recorded: Trial | None = None
    """A recorded trial, for the judge executor."""
    problem: ErrorInfo | None = None
    """Why the recorded conversation cannot be judged."""


class Schedule(Protocol):
    """Decides which jobs of a run to start."""

    stopped: bool
    """True if no more jobs may start."""

    def next(self) -> Job | None:
        """The next job to start; None if there is none now (a sequential test may need one later)."""
        ...

    def note(self, job: Job, trial: Trial) -> None:
        """Take a finished trial into account."""
        ...


class FixedSchedule:
    """A fixed list of jobs."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = iter(jobs)
        self.stopped = False

    def next(self) -> Job | None:
        return None if self.stopped else next(self._jobs, None)

    def note(self, job: Job, trial: Trial) -> None:
        """Results do not change a fixed list."""


class Budget:
    """The limit of a run's cost, and the cost so far. An unknown cost is not free."""

    def __init__(self, limit_usd: float | None) -> None:
        self._limit_usd = limit_usd
        self._spent = Spending()

    def spend(self, trial: Trial) -> None:
        self._spent.add(trial.transcript.cost_usd, trial.instruments)

    @property
    def is_spent(self) -> bool:
        return self._limit_usd is not None and self._spent.reaches(self._limit_usd)


class TrialSchedule:
    """The trials of scenarios, each as often as the scenario requires."""

    def __init__(
        self,
        scenarios: Iterable[PreparedScenario],
        *,
        known: Answers | None = None,
        shuffle_seed: int | None = None,
        fail_fast: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self._budget = budget
        self._known = known or {}
        self._scenarios = iter(scenarios) if shuffle_seed is None else _shuffled(scenarios, shuffle_seed)
        self._current: PreparedScenario | None = None
        self._indexes: Iterator[int] = iter(())
        """The trials of the current scenario that are not started."""
        self._sequential: dict[ScenarioKey, _SequentialPlan] = {}
        self._waiting: list[_SequentialPlan] = []
        """Tests against a history: their first trials run before further trials of any of them."""
        self._ready: deque[_SequentialPlan] = deque()
        self._misses: dict[ScenarioKey, int] = {}
        self._fail_fast = fail_fast
        self.stopped = False

    def next(self) -> Job | None:
        while not self.stopped:
            if self._ready:
                plan = self._ready[0]
                # A trial that finished meanwhile may have decided the test.
                if plan.wants_more():
                    return plan.take()
                self._ready.popleft()
                continue
            for index in self._indexes:
                assert self._current is not None
                return Job(prepared=self._current, index=index)
            self._current = next(self._scenarios, None)
            if self._current is not None:
                self._begin(self._current)
            elif self._waiting:
                self._ready.extend(self._waiting)
                for plan in self._waiting:
                    plan.only_first = False
                self._waiting.clear()
            else:
                return None
        return None

    def _begin(self, prepared: PreparedScenario) -> None:
        entry = prepared.entry
        if entry.skip is not None:
            return
        answers = self._known.get(entry.key, {}) if self._known else {}
        if not entry.stops_by_results:
            planned = range(entry.trials)
            self._indexes = iter([index for index in planned if index not in answers] if answers else planned)
            return
        plan = self._sequential[entry.key] = _SequentialPlan(prepared, dict(answers))
        if entry.history is not None:
            self._waiting.append(plan)
        if plan.wants_more():
            self._ready.append(plan)

    def note(self, job: Job, trial: Trial) -> None:
        prepared = job.prepared
        if self._budget is not None:
            self._budget.spend(trial)
            self.stopped = self.stopped or self._budget.is_spent
        plan = self._sequential.get(trial.key) if self._sequential else None
        if plan is not None:
            plan.note(trial)
            if plan.wants_more() and plan not in self._ready:
                self._ready.append(plan)
        if self._fail_fast and prepared.entry.xfail is None and self._is_lost(prepared, trial, plan):
            self.stopped = True

    def _is_lost(self, prepared: PreparedScenario, trial: Trial, plan: "_SequentialPlan | None") -> bool:
        """Whether the scenario cannot pass any more."""
        if plan is not None:
            return plan.failed
        if trial.status is Status.PASSED:
            return False
        entry = prepared.entry
        before = self._misses.get(trial.key)
        if before is None:
            before = sum(answer is not True for answer in self._known.get(trial.key, {}).values())
        misses = self._misses[trial.key] = before + 1
        return not can_still_pass(entry, misses)


class _SequentialPlan:
    """A test that stops by results. It runs no more trials at once than a verdict may still need."""

    def __init__(self, prepared: PreparedScenario, answers: dict[int, bool | None]) -> None:
        self._prepared = prepared
        self._answers = answers
        self._in_flight: set[int] = set()
        self._next_index = 0
        entry = prepared.entry
        self._first = 0 if entry.history is None else entry.history.first
        self._rule = _history_rule(entry.history) if entry.history else _sequential_rule(entry.sequential or {})
        self.only_first = entry.history is not None
        """Do not go beyond the first trials yet."""
        self._decide()

    def wants_more(self) -> bool:
        index = self._next()
        if self.only_first and index >= self._first:
            return False
        return index < self._most and (index < self._first or len(self._in_flight) < self._needed)

    @property
    def _most(self) -> int:
        """Instrument errors are replaced, unless they are more than the answers."""
        errors = sum(answer is None for answer in self._answers.values())
        return self._prepared.entry.trials + min(errors, len(self._answers) - errors)

    def _next(self) -> int:
        while self._next_index in self._answers or self._next_index in self._in_flight:
            self._next_index += 1
        return self._next_index

    def take(self) -> Job:
        index = self._next()
        self._in_flight.add(index)
        return Job(prepared=self._prepared, index=index)

    def note(self, trial: Trial) -> None:
        self._in_flight.discard(trial.index)
        self._answers[trial.index] = answer_of(trial)
        self._decide()

    def _decide(self) -> None:
        """Decide on trials in index order, so that quick trials do not count before slow ones."""
        in_order: list[bool | None] = []
        while len(in_order) in self._answers:
            in_order.append(self._answers[len(in_order)])
        self.failed, more = self._rule(in_order)
        waiting = sum(index >= len(in_order) for index in self._answers)
        self._needed = max(1, more - waiting) if more else 0


_Rule = Callable[[list[bool | None]], tuple[bool, int]]
"""Answers in index order -> (whether the scenario failed, the fewest further trials that could decide)."""


def _sequential_rule(settings: Mapping[str, float]) -> _Rule:
    test = read_sequential_test(settings)

    def decide(answers: list[bool | None]) -> tuple[bool, int]:
        from seatrial.statistics.sequential import decide_sequentially

        found = decide_sequentially(answers, test)
        return found.verdict == "fail", found.fewest_more if found.verdict == "continue" else 0

    return decide


def _history_rule(test: HistoryTest) -> _Rule:
    def decide(answers: list[bool | None]) -> tuple[bool, int]:
        found = decide_history(test, answers)
        return found.decision == "worse", found.fewest_more

    return decide


def _shuffled(scenarios: Iterable[PreparedScenario], seed: int) -> Iterator[PreparedScenario]:
    order = random.Random(seed)
    window: list[PreparedScenario] = []
    for prepared in scenarios:
        window.append(prepared)
        if len(window) == SHUFFLE_WINDOW:
            order.shuffle(window)
            yield from window
            window.clear()
    order.shuffle(window)
    yield from window

"""Verdicts of runs that are too large to hold: derived from the rows, of which only a few are in memory at a time."""

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import overload

from msgspec.structs import replace

from seatrial.assertions import is_asserting
from seatrial.errors import StoreError, UsageError
from seatrial.model.run import (
    MergedErrors,
    Run,
    RunOutcome,
    RunState,
    ScenarioEntry,
    ScenarioKey,
    ScenarioOutcome,
    Status,
    Trial,
    TrialSummary,
    Verdict,
    summarise,
)
from seatrial.store.runs import damaged
from seatrial.store.store import Store
from seatrial.verdicts.run import RunDecision, decide_run
from seatrial.verdicts.scenario import decide_scenario


def decide_large(store: Store, run: Run) -> RunOutcome:
    """What follows from the stored rows, however many there are."""
    merges = {each.key: each for each in store.merged(run.id)}
    decision = RunDecision(run.gates)
    others = _Numbers()
    for digest in store.digests(run.id, decision.counts_together):
        for entry, count in digest.passed:
            decision.add_passed(entry, scenarios=count)
        decision.add_passed_trials(digest.trials)
        decided = _decided(store, run.id, merges, [number for _, number in digest.others])
        for place, (each, trials) in zip(digest.others, decided, strict=True):
            decision.add(each, trials)
            if not each.verdict.passed:
                others.add(place)
    for merged in merges.values():
        decision.add_use(merged.use)
    outcome = decision.outcome(
        StoredOutcomes(store, run.id, merges, count=decision.scenarios),
        others=StoredOutcomes(store, run.id, merges, numbers=others.in_order()),
        budget_usd=budget_of(run),
    )
    return mind_the_end(run, outcome)


def mind_the_end(run: Run, outcome: RunOutcome) -> RunOutcome:
    """The outcome; a run that has a problem, or did not come to its end, has not passed, whatever its rows say."""
    if run.problem is not None:
        status = Status.ERRORED if outcome.verdict.passed else outcome.verdict.status
        reasons = (run.problem, *outcome.verdict.failure_reasons)
        return replace(outcome, verdict=Verdict(status=status, failure_reasons=reasons))
    if run.state is RunState.FINISHED or not outcome.verdict.passed:
        return outcome
    why = "the run was interrupted" if run.state is RunState.INTERRUPTED else "the run has not come to its end"
    return replace(outcome, verdict=Verdict(status=Status.NOT_RUN, failure_reasons=(why,)))


def budget_of(run: Run) -> float | None:
    """What the run was allowed to cost."""
    settings = (run.config or {}).get("run") or {}
    budget: float | None = settings.get("budget")
    return budget


class StoredOutcomes(Sequence[ScenarioOutcome]):
    """Verdicts of a stored run's scenarios, derived anew each time somebody goes through them."""

    def __init__(
        self,
        store: Store,
        run_id: str,
        merges: Mapping[ScenarioKey, MergedErrors],
        *,
        count: int = 0,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """All of them, which are `count`; or those of some numbers."""
        self._store = store
        self._run_id = run_id
        self._merges = merges
        self._numbers = numbers
        self._count = count if numbers is None else len(numbers)

    def __iter__(self) -> Iterator[ScenarioOutcome]:
        decided = _decided(self._store, self._run_id, self._merges, self._numbers)
        return (outcome for outcome, _ in decided)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> ScenarioOutcome: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[ScenarioOutcome]: ...

    def __getitem__(self, place: int | slice) -> ScenarioOutcome | Sequence[ScenarioOutcome]:
        if isinstance(place, slice):
            return tuple(self)[place]
        return next(islice(self, range(self._count)[place], None))


def _decided(
    store: Store, run_id: str, merges: Mapping[ScenarioKey, MergedErrors], numbers: Sequence[int] | None
) -> Iterator[tuple[ScenarioOutcome, list[TrialSummary]]]:
    for entry, trials in store.played(run_id, numbers):
        yield decide_scenario(entry, trials, merged=merges.get(entry.key)), trials


class _Numbers:
    """Numbers of scenarios, to be put in the order of their positions: sixteen bytes for each."""

    def __init__(self) -> None:
        self._positions = array("q")
        self._numbers = array("q")

    def add(self, place: tuple[int, int]) -> None:
        """A position with its number."""
        self._positions.append(place[0])
        self._numbers.append(place[1])

    def in_order(self) -> Sequence[int]:
        # Only runs put together from shards have an order of their own.
        order = sorted(range(len(self._positions)), key=self._positions.__getitem__)
        return array("q", (self._numbers[place] for place in order))


HELD = 500
"""Verdicts of so many scenarios are held; of larger runs they are derived whenever somebody goes through them."""

_NAMED = 10
"""So many scenarios are named to somebody who asked for one that is not there."""


def decide(
    run: Run,
    entries: Iterable[ScenarioEntry],
    summaries: Iterable[TrialSummary],
    merged: Iterable[MergedErrors] = (),
) -> RunOutcome:
    """What follows from the rows; a run that did not come to its end has not passed, whatever they say."""
    return mind_the_end(run, decide_run(entries, summaries, run.gates, merged=merged, budget_usd=budget_of(run)))


@contextmanager
def readable(run_id: str) -> Iterator[None]:
    """Inside, rows of the run are read; where they cannot be, a StoreError names the run."""
    try:
        yield
    except StoreError as broken:
        named = str(broken).startswith("run ")
        raise broken if named else StoreError(damaged(run_id, broken)) from broken
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as broken:
        raise StoreError(damaged(run_id, broken)) from broken


def find_damaged(store: Store, limit: int | None = None) -> list[tuple[str, str]]:
    """The ids of runs that cannot be read, each with what is wrong. Trials are looked at in the newest `limit` runs."""
    problems: list[tuple[str, str]] = []
    for run in store.runs(problems=problems)[:limit]:
        try:
            _ = StoredRecord(store, run).outcome
        except StoreError as broken:
            problems.append((run.id, str(broken)))
    return problems


class StoredRecord:
    """A run in the store."""

    def __init__(self, store: Store, run: Run) -> None:
        self.store = store
        self.run = run

    @cached_property
    def outcome(self) -> RunOutcome:
        run_id = self.run.id
        with readable(run_id):
            if self.store.count_scenarios(run_id) > HELD:
                return decide_large(self.store, self.run)
            return decide(self.run, self.store.entries(run_id), self.store.summaries(run_id), self.store.merged(run_id))

    def trials(self, key: ScenarioKey) -> Iterator[Trial]:
        return self.store.trials(self.run.id, key)

    def summaries(self) -> Iterator[TrialSummary]:
        return self.store.summaries(self.run.id)


class MemoryRecord:
    """A run that nobody stored."""

    def __init__(
        self, run: Run, entries: list[ScenarioEntry], trials: list[Trial], merged: Iterable[MergedErrors] = ()
    ) -> None:
        self.run = run
        self._entries = entries
        self._trials = trials
        self._merged = merged

    @cached_property
    def outcome(self) -> RunOutcome:
        return decide(self.run, self._entries, self.summaries(), self._merged)

    def summaries(self) -> Iterator[TrialSummary]:
        return (summarise(trial) for trial in self._trials)

    def trials(self, key: ScenarioKey) -> Iterator[Trial]:
        mine = (trial for trial in self._trials if trial.key == key)
        return iter(sorted(mine, key=lambda trial: trial.index))


class Report:
    """What a run came to. `report.passed` is the verdict; `report.failure_reasons` say why not."""

    def __init__(self, record: StoredRecord | MemoryRecord, *, played: int = 0) -> None:
        self.record = record
        self.played = played
        """How many trials were played for it just now; a resumed run has more."""
        self.asserted = True
        """Whether a test asserts the verdict; False only for reports that a test has made."""

    @property
    def run(self) -> Run:
        return self.record.run

    @property
    def outcome(self) -> RunOutcome:
        return self._read()

    @property
    def passed(self) -> bool:
        return self._read().verdict.passed

    def __bool__(self) -> bool:
        """Else `assert run(...)` would hold for every run."""
        return self._read().verdict.passed

    @property
    def status(self) -> Status:
        return self._read().verdict.status

    def _read(self) -> RunOutcome:
        """The outcome. Notes whether the code that asked one of our properties for it is part of an assertion."""
        if not self.asserted:
            self.asserted = is_asserting(sys._getframe(2))
        return self.record.outcome

    @property
    def failure_reasons(self) -> tuple[str, ...]:
        """Why the run did not pass: the run's own reasons, then those of each scenario."""
        outcome = self._read()
        own = outcome.verdict.failure_reasons
        theirs = tuple(
            f"{scenario.entry.key.label}: {reason}"
            for scenario in outcome.scenarios
            if not scenario.verdict.passed and not scenario.skipped and not scenario.xfailed
            for reason in scenario.verdict.failure_reasons
        )
        return (*own, *theirs)

    def trials(self, scenario: str | None = None) -> Iterator[Trial]:
        """The trials with their transcripts, of one scenario or of all.

        Raises UsageError where the run has no scenario of that name: whatever is asked of all of none holds.
        """
        keys: Iterator[ScenarioKey] = (each.entry.key for each in self.record.outcome.scenarios)
        if scenario is not None:
            keys = iter(self._keys_named(scenario))
        return (trial for key in keys for trial in self.record.trials(key))

    def _keys_named(self, name: str) -> list[ScenarioKey]:
        keys = [each.entry.key for each in self.record.outcome.scenarios]
        found = [key for key in keys if key.name == name]
        if not found:
            raise UsageError(f"run {self.run.id}: has no scenario {name!r}.{_which_there_are(name, keys)}")
        return found

    @property
    def exit_code(self) -> int:
        """0 passed, 1 not passed, 130 interrupted."""
        outcome = self._read()
        if self.run.state is RunState.INTERRUPTED:
            return 130
        return 0 if outcome.verdict.passed else 1

    def __repr__(self) -> str:
        # Not the verdict: event loops print what they wait for, and a verdict reads every row.
        return f"<Report {self.run.id}>"


def _which_there_are(name: object, keys: Iterable[ScenarioKey]) -> str:
    from difflib import get_close_matches

    names = list(dict.fromkeys(key.name for key in keys))
    close = get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{hint} It has: {', '.join(names[:_NAMED])}{more}"

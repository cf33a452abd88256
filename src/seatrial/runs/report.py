"""Runs as they can be read back: verdicts derived from the rows, whenever somebody asks."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property

from seatrial.assertions import is_asserting
from seatrial.errors import StoreError, UsageError
from seatrial.model.run import (
    MergedErrors,
    Run,
    RunOutcome,
    RunState,
    ScenarioEntry,
    ScenarioKey,
    Status,
    Trial,
    TrialSummary,
)
from seatrial.model.summary import summarise
from seatrial.store.runs import damaged
from seatrial.store.store import Store
from seatrial.verdicts.run import decide_run

from .large_runs import budget_of, decide_large, mind_the_end

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

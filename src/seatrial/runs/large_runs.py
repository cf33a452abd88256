"""Verdicts of runs that are too large to hold: derived from the rows, of which only a few are in memory at a time."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import overload

from msgspec.structs import replace

from seatrial.model.run import (
    MergedErrors,
    Run,
    RunOutcome,
    RunState,
    ScenarioKey,
    ScenarioOutcome,
    Status,
    TrialSummary,
    Verdict,
)
from seatrial.store.store import Store
from seatrial.verdicts.run_decision import RunDecision
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

"""What earlier runs say: scenarios that are flaky across runs, and runs that extend a baseline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from seatrial.comparison.aggregates import RunSide, fixed_trials, trial_identity
from seatrial.comparison.compare import BaselinePool
from seatrial.errors import UsageError
from seatrial.model.run import Interval, Run, RunState, ScenarioKey, TrialSummary
from seatrial.statistics.intervals import always_valid_interval, wilson_interval
from seatrial.store.store import Store
from seatrial.verdicts.rates import answer_of

MOST_RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyScenario:
    """A scenario that passed and failed with the same agent and the same content."""

    key: ScenarioKey
    passed: int
    failed: int
    runs: tuple[str, ...]
    """Newest first."""
    interval: Interval
    """The interval of the pass rate; the always-valid one if trials stopped by their results."""
    commit: str | None = None
    """The Git commit of the runs."""
    uncommitted: bool = False
    """The run had uncommitted changes, so it is counted alone."""


@dataclass(slots=True)
class _Count:
    run: Run
    """The newest of the runs, which have one commit."""
    passed: int = 0
    failed: int = 0
    runs: tuple[str, ...] = ()
    stopped_by_results: bool = False
    copies: set[tuple[int, tuple[bool, ...]]] = field(default_factory=set)
    """Seeds with their answers: a run that repeats both adds nothing."""

    def add(self, run: Run, answers: tuple[bool, ...], *, stopped_by_results: bool) -> None:
        if (run.seed, answers) in self.copies:
            return
        self.copies.add((run.seed, answers))
        self.passed += sum(answers)
        self.failed += len(answers) - sum(answers)
        self.runs = (*self.runs, run.id)
        self.stopped_by_results = self.stopped_by_results or stopped_by_results

    @property
    def interval(self) -> Interval:
        bounds = always_valid_interval if self.stopped_by_results else wilson_interval
        low, high = bounds(self.passed, self.passed + self.failed)
        return Interval(low=low, high=high)


def find_flaky(store: Store, runs: Sequence[Run] | None = None) -> list[FlakyScenario]:
    """Flaky scenarios of the given runs (default: the newest). A pass rate near one half comes first.

    Trials are counted together if scenario, agent, models and commit are the same. A run with uncommitted changes is
    counted alone: another run may have had different changes. A run with the seed and the answers of another is its
    copy and adds nothing. Recordings and regraded runs are not counted.
    """
    chosen = store.runs(MOST_RUNS) if runs is None else runs
    counts: dict[tuple[ScenarioKey, str, str], _Count] = {}
    for run in chosen:
        if not run.replayed and run.parent is None and not run.sweep and not (run.config or {}).get("fork"):
            _count_results(store, run, counts)
    found = [
        FlakyScenario(
            key=key,
            passed=count.passed,
            failed=count.failed,
            runs=count.runs,
            interval=count.interval,
            commit=count.run.git_commit,
            uncommitted=bool(count.run.git_dirty),
        )
        for (key, _, _), count in counts.items()
        if count.passed and count.failed
    ]
    return sorted(found, key=lambda one: (abs(one.passed - one.failed) / (one.passed + one.failed), one.key))


def _count_results(store: Store, run: Run, counts: dict[tuple[ScenarioKey, str, str], _Count]) -> None:
    config = run.config or {}
    code = run.id if run.git_dirty else run.git_commit
    who = repr([code, *(config.get(name) for name in ("agent", "agents", "models"))])
    for entry, trials in store.played(run.id):
        ordered = sorted(trials, key=lambda trial: trial.index)
        answers = tuple(answer for trial in ordered if (answer := answer_of(trial)) is not None)
        if answers:
            count = counts.setdefault((entry.key, trial_identity(entry), who), _Count(run=run))
            count.add(run, answers, stopped_by_results=entry.stops_by_results)


MOST_POOLED_RUNS: Final = 10
ENOUGH_POOLED_TRIALS: Final = 10_000
_LOOKED_AT: Final = 500
"""How many of the newest runs are searched for runs to pool."""


def pool_baseline(
    store: Store, base: RunSide, candidate: Run, *, named: Sequence[str] = (), look: bool = True
) -> BaselinePool:
    """Further trials for the baseline: from the named runs and, with `look`, from runs of the same code.

    Raises UsageError if a named run cannot be pooled.
    """
    chosen = _Chosen(store, base.run, candidate)
    for ref in named:
        chosen.add_named(store.run(ref))
    found = find_alike(store, base.run) if look else []
    found = [run for run in found if chosen.why_not(run) is None and not chosen.counts(run)]
    notes: tuple[str, ...] = ()
    if found and _is_alike(candidate, base.run):
        # These runs could belong to the baseline or to the candidate. Only the user knows.
        notes = (_may_be_either(len(found)),)
        found = []
    counts, used = _count_answered(store, base, [*chosen.runs, *found[:MOST_POOLED_RUNS]])
    return BaselinePool(runs=used, counts=counts, notes=notes)


class _Chosen:
    """The named runs so far. Each conversation counts once; the candidate's conversations never count."""

    def __init__(self, store: Store, base: Run, candidate: Run) -> None:
        self.runs: list[Run] = []
        self._store = store
        self._base = base
        self._candidate = candidate
        self._owners = {find_original(store, base): base, find_original(store, candidate): candidate}
        """By the id of the original run, the run whose conversations are already used."""

    def counts(self, run: Run) -> bool:
        """Whether the run is already part of the baseline."""
        return run.id in (self._base.id, *(each.id for each in self.runs))

    def add_named(self, run: Run) -> None:
        if self.counts(run):
            return
        if reason := self.why_not(run):
            raise UsageError(f"run {run.id}: cannot be pooled with the baseline: {reason}. Leave it out of --pool.")
        self.runs.append(run)
        self._owners[find_original(self._store, run)] = run

    def why_not(self, run: Run) -> str | None:
        """Why the run cannot be pooled with the baseline; None if it can."""
        if run.id == self._candidate.id:
            return "it is the candidate"
        if (run.config or {}).get("confirms") == self._candidate.id:
            return "its trials are the candidate's, played again by --confirm"
        if (run.config or {}).get("fork"):
            return "its trials continue a stored conversation, so they are not whole ones"
        if run.sweep:
            return "it is a sweep, whose trials are changed scenarios"
        if run.replayed:
            return "its trials are recordings, so they are not independent"
        owner = self._owners.get(find_original(self._store, run))
        if owner is not None and owner.id != run.id:
            return f"it has the same conversations as run {owner.id}, which counts already"
        return None


def find_original(store: Store, run: Run) -> str:
    """The id of the run that played the conversations; regraded runs lead back to it."""
    while run.parent is not None:
        row = store.run_row(run.parent)
        if row is None:
            return run.parent
        run = row.run
    return run.id


def find_alike(store: Store, base: Run) -> list[Run]:
    """Finished runs with the baseline's commit, agent and models. Newest first."""
    if base.git_commit is None or base.git_dirty or base.replayed or base.parent is not None:
        return []
    return [
        run
        for run in store.runs(_LOOKED_AT)
        if run.state is RunState.FINISHED and run.parent is None and not run.is_derived and _is_alike(run, base)
    ]


def _is_alike(run: Run, base: Run) -> bool:
    """Whether the two have the same clean commit, the same agent and the same models."""
    return run.git_commit == base.git_commit and not run.git_dirty and _who_played(run) == _who_played(base)


def _who_played(run: Run) -> list[Any]:
    config = run.config or {}
    return [config.get(name) for name in ("agent", "agents", "models")]


def _may_be_either(count: int) -> str:
    runs = "1 further run" if count == 1 else f"{count:,} further runs"
    return (
        f"baseline and candidate have the same commit and agent, so {runs} may belong to either and "
        f"{'was' if count == 1 else 'were'} not pooled. Name the baseline's runs: --pool RUN"
    )


def _count_answered(
    store: Store, base: RunSide, runs: Sequence[Run]
) -> tuple[dict[ScenarioKey, tuple[int, int]], tuple[str, ...]]:
    """(passed, answered) trials of each scenario that is the same as in the baseline, and the ids of the runs used."""
    wanted = {key: trial_identity(outcome.entry) for key, outcome in base.played().items()}
    counts: dict[ScenarioKey, tuple[int, int]] = {}
    used: list[str] = []
    seeds = {base.run.seed}
    total = 0
    for run in runs:
        if total >= ENOUGH_POOLED_TRIALS:
            break
        if run.seed in seeds:  # the same random numbers: its trials are not independent
            continue
        seeds.add(run.seed)
        same = {
            entry.key: fixed_trials(entry)
            for entry in store.entries(run.id)
            if wanted.get(entry.key) == trial_identity(entry)
        }
        answers = list(_answers(store.summaries(run.id), same)) if same else []
        for key, passed in answers:
            before = counts.get(key, (0, 0))
            counts[key] = (before[0] + passed, before[1] + 1)
        if answers:
            used.append(run.id)
            total += len(answers)
    return counts, tuple(used)


def _answers(summaries: Iterator[TrialSummary], fixed: Mapping[ScenarioKey, int]) -> Iterator[tuple[ScenarioKey, bool]]:
    """The answers of trials whose number did not depend on results."""
    for summary in summaries:
        answer = answer_of(summary) if summary.index < fixed.get(summary.key, 0) else None
        if answer is not None:
            yield summary.key, answer

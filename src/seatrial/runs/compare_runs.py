"""Compare two stored runs, explain the changes, and run suspicious scenarios again."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

from msgspec.structs import fields, replace

from seatrial.comparison.aggregates import RunSide, find_gap
from seatrial.comparison.alignment import align_closest
from seatrial.comparison.compare import compare_runs
from seatrial.comparison.rerun_suspects import Rerun
from seatrial.errors import UsageError
from seatrial.model.comparison import Alignment, ChangeKind, Comparison, ConfigDifference, RegressionLimits
from seatrial.model.run import Run, RunState, ScenarioEntry, ScenarioKey, Status, Trial, TrialSummary
from seatrial.store.store import Store

from .against_history import plan_history, read_history
from .execute_run import execute
from .history import find_alike, find_original, pool_baseline
from .new_run import find_commit
from .report import MemoryRecord, StoredRecord, decide
from .request import RunRequest

_LOOKED_AT: Final = 500
"""How many of the newest runs are searched for one that was not started by --confirm."""
_EXAMPLES: Final = 10
_EXPLAINED: Final = 10


class StoredRuns:
    """Two stored runs, found by id or name, for a comparison."""

    def __init__(
        self, store: Store, base: str, candidate: str, *, read: Callable[[Run], RunSide] | None = None
    ) -> None:
        self.store = store
        self._read = read or (lambda run: _stored_side(store, run))
        """Reads a run's verdict and trials; a caller that caches them gives its own function."""
        self.candidate = _find(store, candidate, None)
        self._base = base

    @cached_property
    def base(self) -> Run:
        return _find(self.store, self._base, self.candidate)

    @cached_property
    def sides(self) -> tuple[RunSide, RunSide]:
        return self._side(self.base), self._side(self.candidate)

    def _side(self, run: Run) -> RunSide:
        return replace(self._read(run), original=find_original(self.store, run))

    def stamp(self) -> tuple[object, ...]:
        """A cache key: the two runs, and the runs that may be pooled with the baseline."""
        further = [(run.id, run.finished_at) for run in find_alike(self.store, self.base)]
        return (self.base, self.candidate, further)

    def compare(
        self,
        *,
        limits: RegressionLimits,
        allow_unfinished: bool = False,
        pool: bool = True,
        pooled: Sequence[str] = (),
    ) -> Comparison:
        """The comparison. `pooled` names runs that extend the baseline, whatever their commit."""
        base, candidate = self.sides
        return compare_runs(
            base,
            candidate,
            limits=limits,
            pool=pool_baseline(self.store, base, self.candidate, named=pooled, look=pool),
            differences=find_differences(base, candidate),
            allow_unfinished=allow_unfinished,
        )

    def against_history(self, ref: str, *, allow_unfinished: bool = False) -> MemoryRecord:
        """The candidate's stored trials, decided by their tests against the history of `ref`.

        Raises UsageError if the candidate is not finished, or if nothing can be tested.
        """
        side = self._side(self.candidate)
        if not allow_unfinished and (gap := find_gap(side)) is not None:
            raise UsageError(f"{gap}. Finish it: seatrial run --resume {self.candidate.id}; or use --allow-unfinished.")
        run, entries = self.candidate, list(self.store.entries(self.candidate.id))
        if run.replayed:
            raise UsageError(f"run {run.id}: its trials are recordings, so no test can be made with them.")
        named = (run.config or {}).get("baselines") or {}
        history = read_history(
            self.store,
            ref,
            baselines={entry.key.suite: named.get(entry.key.suite) for entry in entries},
            commit=None if run.git_dirty else run.git_commit,
            candidate=run,
        )
        gates = replace(run.gates, history=None)
        plan = plan_history(history, (replace(entry, history=None) for entry in entries), gates)
        if not plan.tests:
            raise UsageError(
                f"run {run.id}: no scenario has a history to test against. {'; '.join(plan.history.notes)}"
            )
        trials = side.trials()
        tested = [
            replace(plan.apply(entry), trials=len(trials.get(entry.key, ()))) if entry.key in plan.tests else entry
            for entry in entries
        ]
        decided = replace(run, gates=replace(gates, history=plan.history))
        return MemoryRecord(decided, tested, self._trials(entries))

    def find_missing(self) -> list[ScenarioKey]:
        """The scenarios of the baseline that the candidate lacks."""
        has = {entry.key for entry in self.store.entries(self.candidate.id)}
        return [entry.key for entry in self.store.entries(self.base.id) if entry.key not in has]

    def _trials(self, entries: Sequence[ScenarioEntry]) -> list[Trial]:
        return [trial for entry in entries for trial in self.store.trials(self.candidate.id, entry.key)]

    def explain(self, key: ScenarioKey) -> Alignment | None:
        """Where a failing conversation of the candidate first differs from a passing one.

        Passing conversations come from the baseline, or from the candidate if the baseline has none.
        """
        failing = self._examples(self.candidate, key, passed=False)
        passing = self._examples(self.base, key, passed=True) or self._examples(self.candidate, key, passed=True)
        return align_closest(passing, failing)

    def explain_changes(self, comparison: Comparison) -> tuple[Alignment, ...]:
        """Explanations for the first scenarios that got worse; changes beyond noise come first."""
        worse = [
            one for one in comparison.scenarios if one.change is ChangeKind.REGRESSION or one.beyond_noise == "worse"
        ]
        worse.sort(key=lambda one: (one.beyond_noise != "worse", 1.0 if one.p_worse is None else one.p_worse))
        found = (self.explain(one.key) for one in worse[:_EXPLAINED])
        return tuple(alignment for alignment in found if alignment is not None)

    def _examples(self, run: Run, key: ScenarioKey, *, passed: bool) -> list[tuple[str, Trial]]:
        wanted = Status.PASSED if passed else Status.FAILED
        found = (summary.index for summary in self.store.summaries(run.id, key) if summary.status is wanted)
        trials = (self.store.trial(run.id, key, index) for index in islice(found, _EXAMPLES))
        return [(f"{trial.id} of run {run.id}", trial) for trial in trials]


def side_of(record: StoredRecord | MemoryRecord) -> RunSide:
    """A new run as one side of a comparison."""
    outcome = record.outcome
    held = replace(outcome, scenarios=tuple(outcome.scenarios))  # they are iterated many times
    return RunSide(run=record.run, outcome=held, summaries=list(record.summaries()))


def _stored_side(store: Store, run: Run) -> RunSide:
    summaries = list(store.summaries(run.id))
    outcome = decide(run, store.entries(run.id), summaries, store.merged(run.id))
    return RunSide(run=run, outcome=outcome, summaries=summaries)


def _find(store: Store, ref: str, candidate: Run | None) -> Run:
    """The run that `ref` names. `baseline`: of the candidate's suites, from their files or the store."""
    if ref == "latest":
        return newest_run(store)
    if ref != "baseline" or candidate is None:
        return store.run(ref)
    suites = list(dict.fromkeys(entry.key.suite for entry in store.entries(candidate.id)))
    named = (candidate.config or {}).get("baselines") or {}
    baselines = (store.run(named[suite]) if suite in named else store.baseline(suite) for suite in suites)
    found = {run.id: run for run in baselines if run is not None}
    if len(found) > 1:
        raise UsageError(
            f"run {candidate.id}: its suites have different baselines: {', '.join(found)}. Name one of them."
        )
    return next(iter(found.values())) if found else store.run("baseline")


def newest_run(store: Store) -> Run:
    """The latest run of whole, unchanged scenarios: not by --confirm, no fork, no sweep."""
    for run in store.runs(_LOOKED_AT):
        if not run.is_derived:
            return run
    return store.run("latest")


def find_differences(base: RunSide, candidate: RunSide) -> list[ConfigDifference]:
    """Settings that differ: agent, models, flags, thresholds, metrics, commit, versions."""
    before, now = _settings(base), _settings(candidate)
    return [
        ConfigDifference(what=name, base=before.get(name), candidate=now.get(name))
        for name in dict.fromkeys((*before, *now))
        if before.get(name) != now.get(name)
    ]


def _settings(side: RunSide) -> dict[str, Any]:
    run = side.run
    config = run.config or {}
    gates = {field.name: getattr(run.gates, field.name) for field in fields(run.gates) if field.name != "history"}
    metrics = {name for outcome in side.outcome.scenarios for name in outcome.metric_averages or ()}
    agent = config.get("agent") if config.get("agent") is not None else config.get("agents")
    parts = {
        "agent": agent,
        "models": config.get("models"),
        "metrics": sorted(metrics),
        "set": config.get("overrides"),
        "gates": gates,
        "commit": run.git_commit,
        "uncommitted changes": run.git_dirty,
        "versions": run.versions,
    }
    return dict(_flat(parts))


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        place = f"{above}.{name}" if above else name
        if isinstance(item, Mapping):
            yield from _flat(item, place)
        else:
            yield place, item


def make_rerun(store: Store, candidate: Run, settings: RunRequest) -> Rerun:
    """A function that runs scenarios of the candidate again, and returns the new run's id and trials.

    `settings` holds what is not stored: store, environment, default agent, listeners.
    Raises UsageError if the candidate cannot be run again unchanged.
    """
    _refuse_other_code(candidate)
    request = _request(candidate, settings)
    known = {entry.key: entry.trial_fingerprint for entry in store.entries(candidate.id)}

    def rerun(keys: Sequence[ScenarioKey], trials: int) -> tuple[str, list[TrialSummary]]:
        only = frozenset((key.suite, key.name) for key in keys)
        overrides = {**request.overrides, "trials": trials}
        report = execute(replace(request, only=only, overrides=overrides))
        if report.run.state is not RunState.FINISHED:
            raise KeyboardInterrupt
        for entry in store.entries(report.run.id):
            if known.get(entry.key) != entry.trial_fingerprint:
                raise UsageError(
                    f"{entry.source or entry.key.suite}: scenario {entry.key.label!r} was edited since "
                    f"run {candidate.id}, so fresh trials would test another scenario. "
                    "Run the suite again and compare that run."
                )
        wanted = set(keys)
        return report.run.id, [summary for summary in store.summaries(report.run.id) if summary.key in wanted]

    return rerun


def _refuse_other_code(candidate: Run) -> None:
    """Raise UsageError unless the code is the candidate's: fresh trials must test the same agent."""
    here = find_commit(Path.cwd()).wait()
    where = f"run {candidate.id}"
    if here.sha is None or candidate.git_commit is None:
        return
    if here.sha != candidate.git_commit:
        raise UsageError(
            f"{where}: was made at commit {candidate.git_commit[:12]}, but {here.sha[:12]} is checked out, "
            f"so fresh trials would test another agent. First: git checkout {candidate.git_commit[:12]}"
        )
    if None not in (here.dirty, candidate.git_dirty) and here.dirty != candidate.git_dirty:
        had, has = ("with", "has none") if candidate.git_dirty else ("without", "has some")
        remedy = "Restore them" if candidate.git_dirty else "First: git stash"
        raise UsageError(
            f"{where}: was made {had} uncommitted changes, but this folder {has}, so fresh trials would test another "
            f"agent. {remedy}; or run the suite again and compare that run."
        )


def _request(candidate: Run, settings: RunRequest) -> RunRequest:
    config: Mapping[str, Any] = candidate.config or {}
    sources = config.get("sources") or []
    where = f"run {candidate.id}"
    if not sources or any(str(source).startswith("<") for source in sources):
        raise UsageError(f"{where}: was started from Python objects, so it cannot be run again from files.")
    agent = config.get("agent")
    if "[redacted]" in str(agent):
        raise UsageError(f"{where}: the secrets of its agent are not stored. Put the agent into the suite's file.")
    overrides = {
        **(config.get("overrides") or {}),
        # A new seed and no cache, or the trials would only repeat the suspicious ones.
        "seed": secrets.randbelow(2**31),
        "fail_fast": False,
    }
    return replace(
        settings,
        sources=tuple(sources),
        agent=agent,
        overrides=overrides,
        models={**settings.models, **(config.get("models") or {})},
        name=f"confirm {candidate.name}",
        cache=None,
        confirms=candidate.id,
        scenario_text=(),
        tags=(),
        shard=None,
        resume=None,
    )

"""Scenarios that pass and fail although nothing about them changed, within a run and across runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.comparison.scenario_status import trial_identity
from seatrial.model.run import Interval, Run, ScenarioKey
from seatrial.statistics.intervals import wilson_interval
from seatrial.store.store import Store
from seatrial.verdicts.rates import answer_of

MOST_RUNS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyScenario:
    """Passed and failed trials that asked the same of the same agent."""

    key: ScenarioKey
    passed: int
    failed: int
    runs: tuple[str, ...]
    """Newest first."""
    interval: Interval
    """Of the pass rate."""


@dataclass(slots=True)
class _Count:
    passed: int = 0
    failed: int = 0
    runs: tuple[str, ...] = ()


def find_flaky(store: Store, runs: Sequence[Run] | None = None) -> list[FlakyScenario]:
    """Those of the given runs (by default the newest), the most undecided first.

    Trials count together where scenario, agent, models and commit are the same; those of a run with uncommitted changes
    only by themselves, since nobody knows whether another has the same ones. Recordings count nowhere.
    """
    chosen = store.runs(MOST_RUNS) if runs is None else runs
    counts: dict[tuple[ScenarioKey, str, str], _Count] = {}
    for run in chosen:
        if not run.replayed and run.parent is None:
            _count(store, run, counts)
    found = [
        FlakyScenario(
            key=key,
            passed=count.passed,
            failed=count.failed,
            runs=count.runs,
            interval=_interval(count.passed, count.failed),
        )
        for (key, _, _), count in counts.items()
        if count.passed and count.failed
    ]
    return sorted(found, key=lambda one: (abs(one.passed - one.failed) / (one.passed + one.failed), one.key))


def _count(store: Store, run: Run, counts: dict[tuple[ScenarioKey, str, str], _Count]) -> None:
    config = run.config or {}
    code = run.id if run.git_dirty else run.git_commit
    who = repr([code, *(config.get(name) for name in ("agent", "agents", "models"))])
    asked = {entry.key: trial_identity(entry) for entry in store.entries(run.id)}
    for summary in store.summaries(run.id):
        answer = answer_of(summary)
        if answer is None:
            continue
        count = counts.setdefault((summary.key, asked[summary.key], who), _Count())
        count.passed += answer
        count.failed += not answer
        if not count.runs or count.runs[-1] != run.id:
            count.runs = (*count.runs, run.id)


def _interval(passed: int, failed: int) -> Interval:
    low, high = wilson_interval(passed, passed + failed)
    return Interval(low=low, high=high)

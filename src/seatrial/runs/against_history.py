"""`run --against`: the history of each scenario from accepted runs, and the test that it gives the scenario.

A run is accepted if it is or was a baseline. Other runs with the same clean commit, agent and models belong to the
history too. Only trials whose number was fixed in advance count, each seed once, at most the newest 100 of each
scenario.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from seatrial.comparison.aggregates import fixed_trials, trial_identity
from seatrial.errors import UsageError
from seatrial.model.run import (
    HistoryTest,
    Run,
    RunGates,
    RunHistory,
    RunState,
    ScenarioEntry,
    ScenarioKey,
)
from seatrial.statistics.history_gate import (
    DEFAULT_GATE,
    LONGEST_HISTORY,
    History,
    between_run_variance,
    find_boundary,
    first_trials,
    forecast,
)
from seatrial.store.store import Store
from seatrial.verdicts.rates import answer_of
from seatrial.verdicts.reasons import counted

from .trend import find_trend

BASELINE: Final = "baseline"
_LOOKED_AT: Final = 500
"""How many of the newest runs are searched for accepted ones."""
_MOST_RUNS: Final = 100
_NAMES_SHOWN: Final = 5

_Identity = tuple[ScenarioKey, str]
"""A scenario and the hash of what decides its trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialHistory:
    """The answered trials of accepted runs."""

    against: str
    runs: tuple[Run, ...] = ()
    """Newest first."""
    answers: Mapping[_Identity, Mapping[str, tuple[bool, ...]]] = field(default_factory=dict)
    """By scenario and run, newest first."""
    notes: tuple[str, ...] = ()

    def of(self, entry: ScenarioEntry) -> History:
        """The history of the scenario, at most its newest 100 answers; empty if it is new or was edited."""
        by_run = self.answers.get((entry.key, trial_identity(entry)), {}).values()
        return _count([answer for answers in by_run for answer in answers])

    def counts(self) -> list[list[History]]:
        """By run, newest first: the counts of all scenarios, in one order."""
        return [[_count(by_run.get(run.id, ())) for by_run in self.answers.values()] for run in self.runs]


def _count(answers: Sequence[bool]) -> History:
    kept = answers[:LONGEST_HISTORY]
    return History(passed=sum(kept), total=len(kept))


def read_history(
    store: Store,
    against: str,
    *,
    baselines: Mapping[str, str | None],
    commit: str | None = None,
    candidate: Run | None = None,
) -> TrialHistory:
    """The history of the suites in `baselines`, each with the baseline that its file names.

    `commit`: of the candidate; other runs of it may belong to either side. `candidate`: a stored run that is compared
    with the history, and does not count.
    """
    notes: list[str] = []
    accepted: dict[str, Run] = {}
    newest = [run for run in store.runs(_LOOKED_AT) if _can_count(run, candidate)]
    for suite, named in baselines.items():
        base = _find_base(store, named or against, suite, newest)
        if base is None:
            notes.append(f"suite {suite!r}: no run is accepted as its baseline. Accept one: seatrial baseline set RUN")
            continue
        found = _find_accepted(newest, base, every=against == BASELINE)
        known = {run.id for run in found}
        commits = {run.git_commit for run in found if run.git_commit and not run.git_dirty} - {commit}
        alike = (run for run in newest if run.git_commit in commits and not run.git_dirty and run.id not in known)
        accepted |= {run.id: run for run in (*found, *alike) if agent_of(run, suite) == agent_of(base, suite)}
    runs = sorted(accepted.values(), key=lambda run: run.started_at, reverse=True)
    counted_once = list(_each_seed_once(runs))
    if len(counted_once) < len(runs):
        notes.append(_same_seed(len(runs) - len(counted_once)))
    used, answers = _read_answers(store, counted_once)
    return TrialHistory(against=against, runs=tuple(used), answers=answers, notes=tuple(notes))


def _find_base(store: Store, ref: str, suite: str, newest: Sequence[Run]) -> Run | None:
    if ref != BASELINE:
        return store.run(ref)
    # Accepted runs of another store may have been imported.
    return store.baseline(suite) or next((run for run in newest if run.accepted), None)


def _find_accepted(newest: Sequence[Run], base: Run, *, every: bool) -> list[Run]:
    """The baseline and, with `every`, all runs that were one."""
    found = [run for run in newest if run.id == base.id or (every and run.accepted)]
    # It may be older than the newest runs.
    return found if base.id in {run.id for run in found} or not _can_count(base, None) else [*found, base]


def _can_count(run: Run, candidate: Run | None) -> bool:
    """Whether the trials are conversations of their own, all of them finished."""
    own = run.parent is None and not run.replayed and not run.is_derived
    return own and run.state is RunState.FINISHED and (candidate is None or run.id != candidate.id)


def agent_of(run: Run, suite: str) -> tuple[Any, Any, Any]:
    """The agent and the models that played the suite."""
    config = run.config or {}
    return config.get("agent"), (config.get("agents") or {}).get(suite), config.get("models")


def _each_seed_once(runs: Iterable[Run]) -> Iterator[Run]:
    seeds = set()
    for run in runs:
        if run.seed not in seeds:
            seeds.add(run.seed)
            yield run


def _same_seed(copies: int) -> str:
    have = "has" if copies == 1 else "have"
    once = f"{counted(copies, 'run')} of the history {have} the seed of another run, so each seed counts once"
    return f"{once}. Run without a fixed seed to get a longer history"


def _read_answers(store: Store, runs: Iterable[Run]) -> tuple[list[Run], dict[_Identity, dict[str, tuple[bool, ...]]]]:
    answers: dict[_Identity, dict[str, tuple[bool, ...]]] = {}
    used: list[Run] = []
    for run in runs:
        if len(used) >= _MOST_RUNS:
            break
        found = False
        for entry, trials in store.played(run.id):
            fixed = fixed_trials(entry)
            said = [answer_of(trial) for trial in sorted(trials, key=lambda one: one.index) if trial.index < fixed]
            kept = tuple(answer for answer in said if answer is not None)
            if kept:
                answers.setdefault((entry.key, trial_identity(entry)), {})[run.id] = kept
                found = True
        if found:
            used.append(run)
    return used, answers


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPlan:
    """The test of each scenario of a run, and what is stored with the run."""

    tests: Mapping[ScenarioKey, HistoryTest]
    skipped: Mapping[ScenarioKey, str]
    """Scenarios that cannot get worse, with the reason."""
    history: RunHistory

    def apply(self, entry: ScenarioEntry) -> ScenarioEntry:
        """The entry with its test against the history, if it has one."""
        if entry.key in self.skipped:
            return replace(entry, skip=self.skipped[entry.key])
        test = self.tests.get(entry.key)
        return entry if test is None else replace(entry, history=test, trials=test.max_trials, sequential=None)


def plan_history(history: TrialHistory, entries: Iterable[ScenarioEntry], gates: RunGates) -> HistoryPlan:
    """The tests of these scenarios. The others use their own trials and gate; the notes name them."""
    histories: dict[ScenarioKey, History] = {}
    skipped: dict[ScenarioKey, str] = {}
    own: list[str] = []
    for entry in entries:
        if entry.skip is not None:
            continue
        found = history.of(entry)
        reason = _own_rule(entry, gates) or (_how_short(found) if found.problem == "too short" else None)
        if reason is not None:
            own.append(f"{entry.key.label} ({reason})")
        elif found.problem == "cannot get worse":
            rate = f"it passed {found.passed} of {found.total} trials of its history"
            skipped[entry.key] = f"{rate}, so it cannot get worse. Run it without --against"
        else:
            histories[entry.key] = found
    return HistoryPlan(
        tests=_tests(histories),
        skipped=skipped,
        history=_run_history(history, histories, notes=(*history.notes, *_own_notes(own), *_drift_notes(history))),
    )


def _tests(histories: Mapping[ScenarioKey, History]) -> dict[ScenarioKey, HistoryTest]:
    count, gate = len(histories), DEFAULT_GATE
    return {
        key: HistoryTest(
            passed=one.passed,
            total=one.total,
            boundary=find_boundary(one.total, count),
            first=first_trials(count),
            drop=gate.drop,
            beta=gate.beta,
            max_trials=gate.max_trials,
        )
        for key, one in histories.items()
    }


def _run_history(history: TrialHistory, tested: Mapping[ScenarioKey, History], *, notes: Iterable[str]) -> RunHistory:
    expected = forecast(list(tested.values())) if tested else None
    variance = between_run_variance(history.counts())
    if variance > 1.0:
        more = f"the runs of the history differ {variance:.1f} times as much as their trials explain"
        notes = (*notes, f"{more}, so the test of the suite as a whole is wider")
    return RunHistory(
        against=history.against,
        runs=tuple(run.id for run in history.runs),
        scenarios=len(tested),
        variance=variance,
        power=None if expected is None else expected.power,
        notes=tuple(notes),
    )


def _own_rule(entry: ScenarioEntry, gates: RunGates) -> str | None:
    """Why the scenario is not tested against its history."""
    in_group = any(
        entry.key.name in (group.get("must_pass") or ()) and group.get("suite") in (None, entry.key.suite)
        for group in gates.groups
    )
    if entry.gates.must_pass or in_group:
        return "must pass"
    return "xfail" if entry.xfail is not None else None


def _how_short(history: History) -> str:
    return f"{counted(history.total, 'trial')} of history, 20 needed"


def _drift_notes(history: TrialHistory) -> list[str]:
    """Slow decay of the accepted runs, which no single test finds."""
    suites = dict.fromkeys(key.suite for key, _ in history.answers)
    trends = [find_trend(history, suite) for suite in suites] if history.against == BASELINE else []
    return [f"{trend.suite}: {trend.text}. See: seatrial trend" for trend in trends if trend.verdict == "DRIFT"]


def _own_notes(own: Sequence[str]) -> list[str]:
    if not own:
        return []
    use = "uses its own trials and gate" if len(own) == 1 else "use their own trials and gates"
    more = f" and {len(own) - _NAMES_SHOWN:,} more" if len(own) > _NAMES_SHOWN else ""
    return [f"{counted(len(own), 'scenario')} {use}: {', '.join(own[:_NAMES_SHOWN])}{more}"]


def stored_plan(store: Store, run: Run) -> HistoryPlan:
    """The tests of a stored run, to resume it: its history stays as it was when it started."""
    if run.gates.history is None:
        raise UsageError(f"run {run.id}: was not tested against a history")
    entries = list(store.entries(run.id))
    return HistoryPlan(
        tests={entry.key: entry.history for entry in entries if entry.history is not None},
        skipped={entry.key: entry.skip for entry in entries if entry.skip is not None},
        history=run.gates.history,
    )

"""Explain a run: group its failed trials by cause."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from seatrial.comparison.causes import Finding, find_cause, group_causes, group_scenarios
from seatrial.model.causes import Cause, Divergence
from seatrial.model.protocols import RunRecord
from seatrial.model.run import Run, ScenarioEntry, ScenarioOutcome, Status, Trial
from seatrial.model.struct import Struct
from seatrial.store.store import Store

MOST_SCENARIOS: Final = 500
"""In a larger run, only the first scenarios with failed trials are explained."""
_MOST_PASSED: Final = 10
"""Passed trials of a scenario that failed ones are compared with."""
_EARLIER_RUNS: Final = 20
"""If no trial of a scenario passed, this many earlier runs are searched for one that did."""

Passed = list[tuple[str, Trial]]
"""Passed trials with the ids of their runs."""
FindEarlier = Callable[[ScenarioEntry], Passed]


def find_causes(record: RunRecord, *, earlier: FindEarlier | None = None) -> tuple[Cause, ...]:
    """The causes of all trials that did not pass, and of scenarios that failed without such a trial."""
    findings: list[Finding] = []
    without_trials: list[ScenarioOutcome] = []
    scenarios = (one for one in record.outcome.scenarios if _needs_explanation(one))
    for outcome in islice(scenarios, MOST_SCENARIOS):
        found = list(_explain_scenario(record, outcome, earlier)) if outcome.failed or outcome.errored else []
        findings += found
        if not found:
            without_trials.append(outcome)
    return (*group_causes(findings), *group_scenarios(without_trials))


def _needs_explanation(outcome: ScenarioOutcome) -> bool:
    if outcome.skipped or outcome.xfailed:
        return False
    return bool(outcome.failed or outcome.errored) or not outcome.verdict.passed


def _explain_scenario(record: RunRecord, outcome: ScenarioOutcome, earlier: FindEarlier | None) -> Iterator[Finding]:
    key, run = outcome.entry.key, record.run.id
    good = (trial for trial in record.trials(key) if trial.status is Status.PASSED)
    passed = [(run, trial) for trial in islice(good, _MOST_PASSED)] if outcome.passed else []
    if not passed and earlier is not None:
        passed = earlier(outcome.entry)
    for trial in record.trials(key):
        if trial.status in (Status.FAILED, Status.ERRORED):
            yield find_cause(trial, passed, run=run, counts=not outcome.verdict.passed)


def passed_in_earlier_runs(store: Store, run: Run) -> FindEarlier:
    """A function that finds passed trials of the same scenario in runs before this one, newest first."""
    runs: list[Run] | None = None

    def find(entry: ScenarioEntry) -> Passed:
        nonlocal runs
        if runs is None:
            newest = store.runs(_EARLIER_RUNS + 1)
            runs = [one for one in newest if one.id != run.id and one.started_at <= run.started_at]
        for one in runs:
            found = [(one.id, trial) for trial in _passed_trials(store, one, entry)]
            if found:
                return found
        return []

    return find


class Beside(Struct, frozen=True, kw_only=True):
    """A trial that did not pass, and the nearest passed one of its scenario."""

    divergence: Divergence
    passed: Trial | None
    """None: no trial of the scenario passed, in this run or in earlier ones."""


def find_beside(store: Store, run: Run, entry: ScenarioEntry, trial: Trial) -> Beside:
    """Where the trial first differs from the nearest passed one, and that one."""
    passed = [(run.id, one) for one in _passed_trials(store, run, entry)]
    passed = passed or passed_in_earlier_runs(store, run)(entry)
    found = find_cause(trial, passed, run=run.id).divergence
    nearest = (one for of_run, one in passed if (of_run, one.index) == (found.passed_run, found.passed_trial))
    return Beside(divergence=found, passed=next(nearest, None))


def _passed_trials(store: Store, run: Run, entry: ScenarioEntry) -> Iterator[Trial]:
    """Passed trials of the scenario, if it was not edited since."""
    indexes = [one.index for one in store.summaries(run.id, entry.key) if one.status is Status.PASSED]
    if not indexes:
        return
    stored = next((one for one in store.entries(run.id) if one.key == entry.key), None)
    if stored is None or stored.trial_fingerprint != entry.trial_fingerprint:
        return
    for index in indexes[:_MOST_PASSED]:
        yield store.trial(run.id, entry.key, index)

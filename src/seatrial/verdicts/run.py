"""From scenarios to the verdict of a run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seatrial.model.run import (
    MergedErrors,
    RunGates,
    RunOutcome,
    ScenarioEntry,
    ScenarioKey,
    ScenarioOutcome,
    TrialSummary,
    Verdict,
)

from .run_decision import GroupDecision, RunDecision
from .scenario import decide_scenario


def decide_run(
    entries: Iterable[ScenarioEntry],
    trials: Iterable[TrialSummary],
    gates: RunGates | None = None,
    *,
    merged: Iterable[MergedErrors] = (),
    budget_usd: float | None = None,
) -> RunOutcome:
    """Everything that follows from the rows: totals, the verdict of each scenario and group, and of the run.

    `budget_usd` is what the run was allowed to cost: it is a reason for trials that were not run, never a gate.
    """
    merges = {each.key: each for each in merged}
    by_scenario: dict[ScenarioKey, list[TrialSummary]] = {}
    for trial in trials:
        by_scenario.setdefault(trial.key, []).append(trial)
    decision = RunDecision(gates or RunGates())
    outcomes = []
    for entry in sorted(entries, key=lambda entry: entry.position):
        played = by_scenario.pop(entry.key, ())
        outcomes.append(decide_scenario(entry, played, merged=merges.get(entry.key)))
        decision.add(outcomes[-1], played)
    for strays in by_scenario.values():
        decision.add_trials(strays)
    for each in merges.values():
        decision.add_use(each.use)
    return decision.outcome(tuple(outcomes), budget_usd=budget_usd)


def decide_group(group: Mapping[str, Any], outcomes: Sequence[ScenarioOutcome]) -> Verdict:
    """A group's verdict over these scenarios."""
    decision = GroupDecision(group)
    for outcome in outcomes:
        decision.add(outcome)
    return decision.verdict()

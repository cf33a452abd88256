"""Compares two runs."""

from collections.abc import Mapping, Sequence

from seatrial.model.comparison import (
    ChangeKind,
    Comparison,
    ConfigDifference,
    Evidence,
    Regression,
    RegressionLimits,
    RegressionReason,
    ScenarioChange,
    ScenarioFigures,
)
from seatrial.model.run import ScenarioKey, ScenarioOutcome
from seatrial.model.struct import Struct

from . import messages
from .aggregates import (
    RunSide,
    check_limits,
    classify,
    find_edits,
    find_regressions,
    measure_scenario,
    measure_suites,
    refuse_incomparable,
    score_delta,
)
from .significance import find_dependence, make_evidence, measure_values, with_noise, with_tests

NO_LIMITS = RegressionLimits()


class BaselinePool(Struct, frozen=True, kw_only=True):
    """Trials of other runs with the same agent and scenarios, added to the baseline for the tests."""

    runs: tuple[str, ...] = ()
    counts: Mapping[ScenarioKey, tuple[int, int]]
    """(passed, answered) by scenario."""
    notes: tuple[str, ...] = ()
    """Why runs were left out."""


NO_POOL = BaselinePool(counts={})


def compare_runs(
    base: RunSide,
    candidate: RunSide,
    *,
    limits: RegressionLimits = NO_LIMITS,
    pool: BaselinePool = NO_POOL,
    differences: Sequence[ConfigDifference] = (),
    allow_unfinished: bool = False,
) -> Comparison:
    """What changed from the baseline to the candidate. Raises UsageError if the runs cannot be compared."""
    check_limits(limits)
    refuse_incomparable(base, candidate, allow_unfinished=allow_unfinished)
    before, now = _measure(base), _measure(candidate)
    dependence = find_dependence(base, candidate)
    changes = _changes(base, candidate, before, now, pool)
    if dependence is None:
        changes = with_tests(changes)
        evidence = measure_values(make_evidence(changes, pooled_runs=pool.runs), base, candidate)
    else:
        evidence = Evidence(sentence=dependence, testable=False, dependent=True)
    base_figures, candidate_figures = measure_suites(before, now)
    regressions = with_noise(find_regressions(base_figures, candidate_figures, limits), evidence)
    return Comparison(
        base=base.run,
        candidate=candidate.run,
        limits=limits,
        scenarios=tuple(changes),
        base_figures=base_figures,
        candidate_figures=candidate_figures,
        regressions=regressions,
        evidence=evidence,
        config_differences=tuple(differences),
        notes=(*_notes(base, candidate), *pool.notes, *_limits_within_noise(regressions)),
    )


def _measure(side: RunSide) -> dict[ScenarioKey, ScenarioFigures]:
    trials = side.trials()
    return {key: measure_scenario(outcome, trials[key]) for key, outcome in side.played().items()}


def _changes(
    base: RunSide,
    candidate: RunSide,
    before: Mapping[ScenarioKey, ScenarioFigures],
    now: Mapping[ScenarioKey, ScenarioFigures],
    pool: BaselinePool,
) -> list[ScenarioChange]:
    """The changes in the order of the candidate's scenarios; missing ones last."""
    old, new = base.played(), candidate.played()
    found = []
    for key, outcome in new.items():
        if key in old:
            found.append(_change(old[key], outcome, before[key], now[key], pool.counts.get(key, (0, 0))))
        else:
            found.append(ScenarioChange(key=key, change=ChangeKind.NEW, candidate=now[key]))
    gone = [key for key in old if key not in new]
    return [*found, *(ScenarioChange(key=key, change=ChangeKind.MISSING, base=before[key]) for key in gone)]


def _change(
    old: ScenarioOutcome,
    new: ScenarioOutcome,
    before: ScenarioFigures,
    now: ScenarioFigures,
    pooled: tuple[int, int],
) -> ScenarioChange:
    return ScenarioChange(
        key=new.entry.key,
        change=classify(before, now),
        base=before,
        candidate=now,
        score_delta=score_delta(before, now),
        edits=find_edits(old.entry, new.entry),
        pooled_passed=pooled[0],
        pooled=pooled[1],
    )


def _notes(base: RunSide, candidate: RunSide) -> list[str]:
    notes = []
    for side in (base, candidate):
        absent = [outcome for outcome in side.outcome.scenarios if not outcome.played]
        skipped = sum(outcome.skipped for outcome in absent)
        if skipped:
            notes.append(f"run {side.run.id}: {messages.counted(skipped, 'scenario')} skipped")
        if len(absent) > skipped:
            notes.append(f"run {side.run.id}: {messages.counted(len(absent) - skipped, 'scenario')} not run")
    return notes


def _limits_within_noise(regressions: Sequence[Regression]) -> list[str]:
    """Exceeded limits of score, latency and cost that noise may explain."""
    values = [one for one in regressions if one.reason is not RegressionReason.PASS_RATE and not one.beyond_noise]
    return [messages.within_noise(one) for one in values]

"""From scenarios to the verdict of a run."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seatrial.vocabulary.findings import ModelUse, sum_model_use
from seatrial.vocabulary.run import (
    MergedErrors,
    RunGates,
    RunOutcome,
    ScenarioEntry,
    ScenarioKey,
    ScenarioOutcome,
    Status,
    Totals,
    TrialSummary,
    Verdict,
)

from . import reasons
from .averages import mean, quantile
from .rates import decide_share, reaches
from .scenario import decide_scenario
from .spending import Spending

_WORST_FIRST = (Status.FAILED, Status.ERRORED, Status.INCONCLUSIVE, Status.NOT_RUN)


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
    gates = gates or RunGates()
    merges = {each.key: each for each in merged}
    by_scenario: dict[ScenarioKey, list[TrialSummary]] = {}
    for trial in trials:
        by_scenario.setdefault(trial.key, []).append(trial)
    outcomes = tuple(
        decide_scenario(entry, by_scenario.get(entry.key, ()), merged=merges.get(entry.key))
        for entry in sorted(entries, key=lambda entry: entry.position)
    )
    played = [trial for group in by_scenario.values() for trial in group]
    uses = [*(trial.instruments for trial in played), *(each.use for each in merges.values())]
    totals = total(played, gates, planned=sum(o.not_run for o in outcomes) + len(played), uses=uses)
    spending = _spending(played)
    groups = tuple((str(group["name"]), decide_group(group, outcomes)) for group in gates.groups)
    verdict = _with_budget(_decide(outcomes, totals, gates, groups), totals, budget_usd, spending)
    notes = (reasons.agent_cost_unknown(budget_usd),) if budget_usd and spending.agent_is_silent else ()
    return RunOutcome(verdict=verdict, scenarios=outcomes, totals=totals, groups=groups, notes=notes)


def _spending(trials: Iterable[TrialSummary]) -> Spending:
    spending = Spending()
    for trial in trials:
        spending.add(trial.cost_usd, trial.instruments)
    return spending


def _with_budget(verdict: Verdict, totals: Totals, budget: float | None, spending: Spending) -> Verdict:
    """The verdict, with the budget among its reasons where it kept trials from being run."""
    if verdict.passed or budget is None or not totals.not_run_count or not spending.reaches(budget):
        return verdict
    why = reasons.budget_spent(budget, spending.total_usd, totals.not_run_count)
    return Verdict(status=verdict.status, failure_reasons=(*verdict.failure_reasons, why))


def _decide(
    outcomes: Sequence[ScenarioOutcome],
    totals: Totals,
    gates: RunGates,
    groups: Sequence[tuple[str, Verdict]],
) -> Verdict:
    counted = [outcome for outcome in outcomes if not outcome.skipped and not outcome.xfailed]
    if totals.total_executions == 0 or not any(outcome.played for outcome in outcomes):
        return Verdict(status=Status.NOT_RUN, failure_reasons=(reasons.nothing_run(),))
    problems: list[tuple[Status, str]] = []
    if gates.cases_pass_threshold is None:
        problems += _problem_scenarios(counted)
    else:
        problems += _problem_cases(totals, gates.cases_pass_threshold)
        problems += [
            (o.verdict.status, reasons.must_pass_missed(o.entry.key.label))
            for o in outcomes
            if o.entry.gates.must_pass and not o.verdict.passed
        ]
    if totals.metrics_passed is False:
        assert totals.weighted_metrics_score_pct is not None
        why = reasons.metrics_below(totals.weighted_metrics_score_pct, gates.metrics_pass_threshold)
        problems.append((Status.FAILED, why))
    for name, verdict in groups:
        if verdict.failure_reasons:
            problems += [(verdict.status, reasons.in_group(name, why)) for why in verdict.failure_reasons]
    if not problems:
        return Verdict(status=Status.PASSED)
    return Verdict(status=_worst(problems), failure_reasons=tuple(why for _, why in problems))


def _problem_scenarios(outcomes: Sequence[ScenarioOutcome]) -> list[tuple[Status, str]]:
    counts = {status: sum(o.verdict.status is status for o in outcomes) for status in _WORST_FIRST}
    return [(status, reasons.scenarios_with(count, status)) for status, count in counts.items() if count]


def _problem_cases(totals: Totals, threshold: float) -> list[tuple[Status, str]]:
    status = decide_share(
        passed=totals.passed_count,
        errored=totals.error_count,
        missing=totals.not_run_count,
        total=totals.total_executions,
        threshold=threshold / 100,
    )
    if status is Status.PASSED:
        return []
    assert totals.cases_pass_rate_pct is not None
    return [(status, reasons.cases_below(totals.cases_pass_rate_pct, threshold))]


def decide_group(group: Mapping[str, Any], outcomes: Sequence[ScenarioOutcome]) -> Verdict:
    """A group's verdict: the share of its scenarios that passed, and those that must.

    Not run, without a reason against the run, where none of its scenarios was selected.
    """
    tags = set(group.get("tags") or ())
    must = set(group.get("must_pass") or ())
    tagged = [o for o in outcomes if tags & set(o.entry.tags)]
    named = [o for o in outcomes if o.entry.key.name in must]
    if not tagged and not named:
        return Verdict(status=Status.NOT_RUN)
    problems = [(o.verdict.status, reasons.must_pass_missed(o.entry.key.label)) for o in named if not o.verdict.passed]
    if tagged:
        problems = [*_problem_members(tagged, float(group.get("threshold", 1.0))), *problems]
    if not problems:
        return Verdict(status=Status.PASSED)
    return Verdict(status=_worst(problems), failure_reasons=tuple(why for _, why in problems))


def _problem_members(tagged: Sequence[ScenarioOutcome], threshold: float) -> list[tuple[Status, str]]:
    members = [o.verdict.status for o in tagged if not o.skipped and not o.xfailed]
    if not members:
        return [(Status.NOT_RUN, reasons.group_empty())]
    passed = members.count(Status.PASSED)
    status = decide_share(
        passed=passed,
        errored=members.count(Status.ERRORED) + members.count(Status.INCONCLUSIVE),
        missing=members.count(Status.NOT_RUN),
        total=len(members),
        threshold=threshold,
    )
    return [] if status is Status.PASSED else [(status, reasons.group_below(passed, len(members), threshold))]


def _worst(problems: Sequence[tuple[Status, str]]) -> Status:
    return min((status for status, _ in problems), key=_WORST_FIRST.index)


def total(
    trials: Sequence[TrialSummary], gates: RunGates, *, planned: int, uses: Sequence[ModelUse | None] = ()
) -> Totals:
    """The aggregates of a run. Percentages and gates are None where there is nothing to take them from."""
    use = sum_model_use(uses)
    counts = {status: sum(trial.status is status for trial in trials) for status in Status}
    scores = [trial.overall_score for trial in trials if trial.overall_score is not None]
    metrics_pct = mean(scores)
    cases_pct = 100.0 * counts[Status.PASSED] / planned if planned else None
    cases_threshold = 100.0 if gates.cases_pass_threshold is None else gates.cases_pass_threshold
    return Totals(
        total_executions=planned,
        passed_count=counts[Status.PASSED],
        failed_count=counts[Status.FAILED],
        error_count=counts[Status.ERRORED],
        not_run_count=planned - len(trials),
        cases_pass_rate_pct=cases_pct,
        cases_pass_threshold=cases_threshold,
        cases_passed=reaches(counts[Status.PASSED], planned, cases_threshold / 100) if planned else None,
        weighted_metrics_score_pct=metrics_pct,
        metrics_pass_threshold=gates.metrics_pass_threshold,
        metrics_passed=None if metrics_pct is None else round(metrics_pct, 2) >= gates.metrics_pass_threshold,
        tokens=_known_sum([trial.tokens for trial in trials]),
        cost_usd=_known_sum([trial.cost_usd for trial in trials]),
        model_calls=use.calls,
        cache_hits=use.cached,
        model_tokens=use.usage.total_tokens if use.usage else None,
        model_cost_usd=use.cost_usd,
        **_latencies(trials),
    )


def _latencies(trials: Sequence[TrialSummary]) -> dict[str, float | None]:
    middles = [trial.median_latency_ms for trial in trials if trial.median_latency_ms is not None]
    slowest = [trial.latency_ms for trial in trials if trial.latency_ms is not None]
    return {
        "latency_avg_ms": mean(middles),
        "latency_p50_ms": quantile(middles, 0.5),
        "latency_p95_ms": quantile(middles, 0.95) if len(middles) >= 20 else None,
        "latency_max_ms": max(slowest, default=None),
    }


def _known_sum(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known else None

"""The figures of the compared runs, the threshold rules on them, and checks whether two runs are comparable."""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from typing import Final

from msgspec.structs import fields

from seatrial.errors import UsageError
from seatrial.model.comparison import (
    ChangeKind,
    Regression,
    RegressionLimits,
    RegressionReason,
    ScenarioFigures,
    SuiteFigures,
)
from seatrial.model.run import (
    Gates,
    Run,
    RunOutcome,
    RunState,
    ScenarioEntry,
    ScenarioKey,
    ScenarioOutcome,
    Status,
    TrialSummary,
)
from seatrial.model.struct import Struct
from seatrial.verdicts.rates import answer_of, read_sequential_test


class RunSide(Struct, frozen=True, kw_only=True):
    """One of the two runs with its outcome and trials."""

    run: Run
    outcome: RunOutcome
    summaries: Sequence[TrialSummary]
    original: str | None = None
    """The id of the run that made the conversations, if known."""

    @property
    def conversations(self) -> str:
        """The id of the run that made the conversations: equal for two runs that judge the same ones."""
        return self.original or self.run.parent or self.run.id

    def trials(self) -> dict[ScenarioKey, list[TrialSummary]]:
        return group_trials(self.summaries)

    def played(self) -> dict[ScenarioKey, ScenarioOutcome]:
        """The scenarios with at least one trial."""
        return {outcome.entry.key: outcome for outcome in self.outcome.scenarios if outcome.played}


def refuse_incomparable(base: RunSide, candidate: RunSide, *, allow_unfinished: bool) -> None:
    """Raise UsageError with every reason why the runs cannot be compared."""
    if base.run.id == candidate.run.id:
        raise UsageError(f"run {base.run.id}: was given on both sides. Give two runs: seatrial list runs")
    problems = [problem for side in (base, candidate) for problem in _problems(side, allow_unfinished)]
    if not problems:
        problems = _nothing_in_common(base, candidate)
    if problems:
        raise UsageError("\n".join(problems))


def _problems(side: RunSide, allow_unfinished: bool) -> list[str]:
    where = f"run {side.run.id}"
    if not side.played():
        return [f"{where}: has no results, so there is nothing to compare. Run it again, or choose another run."]
    gap = None if allow_unfinished else find_gap(side)
    if gap is None:
        return []
    remedy = f"Finish it: seatrial run --resume {side.run.id}; or compare what is there with --allow-unfinished."
    return [f"{gap}. {remedy}"]


def find_gap(side: RunSide) -> str | None:
    """What the run lacks: it did not finish, or some trials did not run; None if it is complete."""
    where = f"run {side.run.id}"
    if side.run.state is not RunState.FINISHED:
        return f"{where}: {'was interrupted' if side.run.state is RunState.INTERRUPTED else 'is not finished'}"
    missing = [outcome for outcome in side.outcome.scenarios if outcome.not_run and not outcome.skipped]
    if not missing:
        return None
    count = sum(outcome.not_run for outcome in missing)
    names = ", ".join(outcome.entry.key.label for outcome in missing[:3]) + (", …" if len(missing) > 3 else "")
    return f"{where}: {count} of its trials {'was' if count == 1 else 'were'} not run ({names})"


def _nothing_in_common(base: RunSide, candidate: RunSide) -> list[str]:
    before, now = base.played(), candidate.played()
    if any(key in before for key in now):
        return []
    suites = [sorted({key.suite for key in side}) for side in (before, now)]
    where = f"runs {base.run.id} and {candidate.run.id}"
    if not set(suites[0]) & set(suites[1]):
        names = [", ".join(map(repr, names)) for names in suites]
        return [f"{where}: are of different suites: {names[0]} and {names[1]}. Compare runs of one suite."]
    return [f"{where}: have no scenario in common. Compare runs of the same scenarios and agents."]


def group_trials(summaries: Iterable[TrialSummary]) -> dict[ScenarioKey, list[TrialSummary]]:
    """The trials by scenario."""
    grouped: dict[ScenarioKey, list[TrialSummary]] = {}
    for summary in summaries:
        grouped.setdefault(summary.key, []).append(summary)
    return grouped


MANY: Final = 2**31
"""More than any number of trials."""


def fixed_trials(entry: ScenarioEntry) -> int:
    """The trials, from index 0, whose number did not depend on their results: only these may be tested.

    `trials: auto` and `run --against` stop by results, so only the trials that they always run count.
    """
    if entry.history is not None:
        return entry.history.first
    if entry.sequential is None:
        return MANY
    from seatrial.statistics.sequential import stopping_rule

    return stopping_rule(read_sequential_test(entry.sequential)).earliest


def measure_scenario(outcome: ScenarioOutcome, trials: Sequence[TrialSummary]) -> ScenarioFigures:
    """The scenario's figures in one run."""
    costs = [trial.cost_usd for trial in trials]
    fixed = fixed_trials(outcome.entry)
    tested = [answer for trial in trials if trial.index < fixed and (answer := answer_of(trial)) is not None]
    limited = fixed < MANY
    return ScenarioFigures(
        status=outcome.verdict.status,
        passed=outcome.passed,
        failed=outcome.failed,
        errored=outcome.errored,
        answered=sum(answer_of(trial) is not None for trial in trials),
        tested=len(tested) if limited else None,
        tested_passed=sum(tested) if limited else None,
        interval=outcome.interval,
        avg_score=outcome.overall_score,
        avg_latency_ms=_mean(trial.median_latency_ms for trial in trials),
        avg_cost_usd=None if None in costs else _mean(costs),
    )


def measure_suites(
    base: Mapping[ScenarioKey, ScenarioFigures], candidate: Mapping[ScenarioKey, ScenarioFigures]
) -> tuple[SuiteFigures, SuiteFigures]:
    """The figures of both runs over the scenarios that both have.

    A rate, score, latency or cost counts only if both runs have it: otherwise a missing value would move the mean.
    Of scenarios that stop by results, only the first trials are in the pass rate: the share of all of them is biased.
    """
    shared = [key for key in candidate if key in base]
    rated = [key for key in shared if base[key].counts[1] and candidate[key].counts[1]]
    both = {
        name: [key for key in shared if None not in (getattr(base[key], name), getattr(candidate[key], name))]
        for name in ("avg_score", "avg_latency_ms", "avg_cost_usd")
    }

    def figures(side: Mapping[ScenarioKey, ScenarioFigures]) -> SuiteFigures:
        mine, counts = [side[key] for key in shared], [side[key].counts for key in rated]
        return SuiteFigures(
            pass_rate=_mean(passed / total for passed, total in counts),
            rated=sum(total for _, total in counts),
            rated_passed=sum(passed for passed, _ in counts),
            trials=sum(one.trials for one in mine),
            passed=sum(one.passed for one in mine),
            failed=sum(one.failed for one in mine),
            errored=sum(one.errored for one in mine),
            **{name: _mean(getattr(side[key], name) for key in keys) for name, keys in both.items()},
        )

    return figures(base), figures(candidate)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None


SCORE_NOISE: Final = 5.0
"""Smaller changes of a scenario's score do not count."""

ROUNDING: Final = 1e-9
"""A drop of exactly the limit is allowed, apart from rounding."""

_NO_ANSWER = (Status.ERRORED, Status.NOT_RUN)
_GATES = tuple(field.name for field in fields(Gates))


def classify(base: ScenarioFigures, candidate: ScenarioFigures) -> ChangeKind:
    """The change of a scenario that both runs have, by the threshold rules."""
    if base.status in _NO_ANSWER or candidate.status in _NO_ANSWER:
        return ChangeKind.ERROR
    passed_before, passes_now = base.status is Status.PASSED, candidate.status is Status.PASSED
    if passed_before != passes_now:
        return ChangeKind.IMPROVEMENT if passes_now else ChangeKind.REGRESSION
    delta = score_delta(base, candidate) or 0.0
    if abs(delta) <= SCORE_NOISE + ROUNDING:
        return ChangeKind.UNCHANGED
    return ChangeKind.IMPROVEMENT if delta > 0 else ChangeKind.REGRESSION


def score_delta(base: ScenarioFigures, candidate: ScenarioFigures) -> float | None:
    """The change of the overall score; None if one run has none."""
    if base.avg_score is None or candidate.avg_score is None:
        return None
    return candidate.avg_score - base.avg_score


def find_edits(base: ScenarioEntry, candidate: ScenarioEntry) -> tuple[str, ...]:
    """What was edited between the runs, except the agent and the number of trials."""
    edits = []
    if trial_identity(base) != trial_identity(candidate):
        edits.append("scenario")
    for name in _GATES:
        before, now = getattr(base.gates, name), getattr(candidate.gates, name)
        if before != now:
            edits.append(f"{name}: {_shown(before)} → {_shown(now)}")
    if (base.xfail is None) != (candidate.xfail is None):
        edits.append("xfail added" if base.xfail is None else "xfail removed")
    return tuple(edits)


def trial_identity(entry: ScenarioEntry) -> str:
    """The hash that is equal if trials of two runs are comparable."""
    return entry.trial_fingerprint or entry.fingerprint


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


LATENCY_NOISE_MS = 20.0
"""A smaller rise of the mean is noise of the machine."""


def check_limits(limits: RegressionLimits) -> None:
    """Raise UsageError for negative limits, and for a pass rate drop above 1."""
    wrong = [
        f"{field.name}: {value!r} is not 0 or more. Give how much worse the candidate may be, such as {field.default}."
        for field in fields(limits)
        if (value := getattr(limits, field.name)) is not None and not value >= 0
    ]
    if limits.max_pass_rate_drop > 1:
        given = limits.max_pass_rate_drop
        wrong.append(f"max_pass_rate_drop: {given!r} is not a share, 0 to 1. Give 0.05 for five points.")
    if wrong:
        raise UsageError("\n".join(wrong))


def find_regressions(
    base: SuiteFigures, candidate: SuiteFigures, limits: RegressionLimits | None = None
) -> tuple[Regression, ...]:
    """Every figure that is worse by more than its limit: pass rate, score, latency, cost."""
    limits = limits or RegressionLimits()
    check_limits(limits)
    found = []
    if base.pass_rate is not None and candidate.pass_rate is not None:
        drop, limit = base.pass_rate - candidate.pass_rate, limits.max_pass_rate_drop
        if drop > limit + ROUNDING:
            text = f"pass rate fell by {100 * drop:.3g} points (limit: {100 * limit:.3g})"
            found.append(_regression(RegressionReason.PASS_RATE, base.pass_rate, candidate.pass_rate, limit, text))
    if base.avg_score is not None and candidate.avg_score is not None:
        drop, limit = base.avg_score - candidate.avg_score, limits.max_avg_score_drop
        if drop > limit + ROUNDING:
            text = f"average overall score fell by {drop:.3g} points (limit: {limit:.3g})"
            found.append(_regression(RegressionReason.AVG_SCORE, base.avg_score, candidate.avg_score, limit, text))
    if base.avg_latency_ms and candidate.avg_latency_ms is not None:
        rise, limit = candidate.avg_latency_ms - base.avg_latency_ms, limits.max_latency_increase_pct
        percent = 100.0 * rise / base.avg_latency_ms
        if percent > limit + ROUNDING and rise >= LATENCY_NOISE_MS:
            text = f"average latency rose by {percent:.3g} % (limit: {limit:.3g} %)"
            before, now = base.avg_latency_ms, candidate.avg_latency_ms
            found.append(_regression(RegressionReason.AVG_LATENCY, before, now, limit, text))
    if limits.max_cost_increase_pct is not None and base.avg_cost_usd and candidate.avg_cost_usd is not None:
        percent = 100.0 * (candidate.avg_cost_usd / base.avg_cost_usd - 1.0)
        limit = limits.max_cost_increase_pct
        if percent > limit + ROUNDING:
            text = f"average cost rose by {percent:.3g} % (limit: {limit:.3g} %)"
            before, now = base.avg_cost_usd, candidate.avg_cost_usd
            found.append(_regression(RegressionReason.AVG_COST, before, now, limit, text))
    return tuple(found)


def _regression(reason: RegressionReason, base: float, candidate: float, limit: float, text: str) -> Regression:
    return Regression(reason=reason, base=base, candidate=candidate, limit=limit, text=text)

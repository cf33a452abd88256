"""A run's trials as the figures that are compared."""

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

from seatrial.model.comparison import ScenarioFigures, SuiteFigures
from seatrial.model.run import ScenarioKey, ScenarioOutcome, TrialSummary
from seatrial.verdicts.rates import answer_of


def group_trials(summaries: Iterable[TrialSummary]) -> dict[ScenarioKey, list[TrialSummary]]:
    """The trials by scenario."""
    grouped: dict[ScenarioKey, list[TrialSummary]] = {}
    for summary in summaries:
        grouped.setdefault(summary.key, []).append(summary)
    return grouped


def measure_scenario(outcome: ScenarioOutcome, trials: Sequence[TrialSummary]) -> ScenarioFigures:
    """The scenario's figures in one run."""
    costs = [trial.cost_usd for trial in trials]
    return ScenarioFigures(
        status=outcome.verdict.status,
        passed=outcome.passed,
        failed=outcome.failed,
        errored=outcome.errored,
        answered=sum(answer_of(trial) is not None for trial in trials),
        interval=outcome.interval,
        avg_score=outcome.overall_score,
        avg_latency_ms=_mean(trial.median_latency_ms for trial in trials),
        avg_cost_usd=None if None in costs else _mean(costs),
    )


def measure_suites(
    base: Mapping[ScenarioKey, ScenarioFigures], candidate: Mapping[ScenarioKey, ScenarioFigures]
) -> tuple[SuiteFigures, SuiteFigures]:
    """The figures of both runs over the scenarios that both have.

    A rate, score, latency or cost counts only where both sides know it: else a scenario that lost its value would move
    the mean of the others.
    """
    shared = [key for key in candidate if key in base]
    rated = [key for key in shared if base[key].answered and candidate[key].answered]
    both = {
        name: [key for key in shared if None not in (getattr(base[key], name), getattr(candidate[key], name))]
        for name in ("avg_score", "avg_latency_ms", "avg_cost_usd")
    }

    def figures(side: Mapping[ScenarioKey, ScenarioFigures]) -> SuiteFigures:
        mine = [side[key] for key in shared]
        return SuiteFigures(
            pass_rate=_mean(side[key].passed / side[key].answered for key in rated),
            rated=sum(side[key].answered for key in rated),
            rated_passed=sum(side[key].passed for key in rated),
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

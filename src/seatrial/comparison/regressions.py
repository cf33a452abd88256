"""Whether the suite's figures fell further than the limits allow."""

from msgspec.structs import fields

from seatrial.errors import UsageError
from seatrial.model.comparison import Regression, RegressionLimits, RegressionReason, SuiteFigures

from .scenario_status import ROUNDING

LATENCY_NOISE_MS = 20.0
"""A mean that rises by less tells of the machine, not of the agent."""


def check_limits(limits: RegressionLimits) -> None:
    """Refuse limits that would flag a run compared with its equal, or none at all."""
    wrong = [
        f"{field.name}: {value!r} is not 0 or more. Give how much worse the candidate may be, such as {field.default}."
        for field in fields(limits)
        if not (value := getattr(limits, field.name)) >= 0
    ]
    if limits.max_pass_rate_drop > 1:
        given = limits.max_pass_rate_drop
        wrong.append(f"max_pass_rate_drop: {given!r} is not a share, 0 to 1. Give 0.05 for five points.")
    if wrong:
        raise UsageError("\n".join(wrong))


def find_regressions(
    base: SuiteFigures, candidate: SuiteFigures, limits: RegressionLimits | None = None
) -> tuple[Regression, ...]:
    """Every figure that is worse by more than its limit: pass rate, then score, then latency."""
    limits = limits or RegressionLimits()
    check_limits(limits)
    found = (_pass_rate(base, candidate, limits), _score(base, candidate, limits), _latency(base, candidate, limits))
    return tuple(regression for regression in found if regression is not None)


def _pass_rate(base: SuiteFigures, candidate: SuiteFigures, limits: RegressionLimits) -> Regression | None:
    if base.pass_rate is None or candidate.pass_rate is None:
        return None
    drop, limit = base.pass_rate - candidate.pass_rate, limits.max_pass_rate_drop
    if drop <= limit + ROUNDING:
        return None
    return Regression(
        reason=RegressionReason.PASS_RATE,
        base=base.pass_rate,
        candidate=candidate.pass_rate,
        limit=limit,
        text=f"pass rate fell by {100 * drop:.3g} points (limit: {100 * limit:.3g})",
    )


def _score(base: SuiteFigures, candidate: SuiteFigures, limits: RegressionLimits) -> Regression | None:
    if base.avg_score is None or candidate.avg_score is None:
        return None
    drop, limit = base.avg_score - candidate.avg_score, limits.max_avg_score_drop
    if drop <= limit + ROUNDING:
        return None
    return Regression(
        reason=RegressionReason.AVG_SCORE,
        base=base.avg_score,
        candidate=candidate.avg_score,
        limit=limit,
        text=f"average overall score fell by {drop:.3g} points (limit: {limit:.3g})",
    )


def _latency(base: SuiteFigures, candidate: SuiteFigures, limits: RegressionLimits) -> Regression | None:
    if not base.avg_latency_ms or candidate.avg_latency_ms is None:
        return None
    rise = 100.0 * (candidate.avg_latency_ms - base.avg_latency_ms) / base.avg_latency_ms
    limit = limits.max_latency_increase_pct
    if rise <= limit + ROUNDING or candidate.avg_latency_ms - base.avg_latency_ms < LATENCY_NOISE_MS:
        return None
    return Regression(
        reason=RegressionReason.AVG_LATENCY,
        base=base.avg_latency_ms,
        candidate=candidate.avg_latency_ms,
        limit=limit,
        text=f"average latency rose by {rise:.3g} % (limit: {limit:.3g} %)",
    )

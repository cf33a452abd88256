"""Planning: the number of trials that finds a drop, and the power of the exact test."""

from dataclasses import dataclass

from seatrial.errors import UsageError

from .distributions import (
    ROUNDING,
    binomial_at_most,
    binomial_distribution,
    reaches,
    require_open_rate,
    require_positive,
    require_rate,
)
from .significance import ScenarioCounts, fisher_test


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedDesign:
    """A test of one rate against a required rate with a fixed number of trials."""

    trials: int
    fail_at_most: int
    """Fail if this number of trials or fewer pass."""
    false_alarm: float
    """The exact probability of failing an agent at the required rate."""
    power: float
    """The exact probability of failing an agent at the bad rate."""


def fixed_design(
    bar: float, bad_rate: float, *, alpha: float = 0.05, power: float = 0.8, max_trials: int = 10_000
) -> FixedDesign | None:
    """The fewest trials that find a drop from the required to the bad rate; None if the maximum is not enough."""
    _require_bar(bar)
    require_rate("bad_rate", bad_rate)
    _require_errors(alpha, power)
    if bad_rate >= bar:
        raise UsageError(f"bad_rate: {bad_rate!r} is not below the bar {bar!r}. Give the rate that you want to notice.")
    cut = -1
    for trials in range(1, max_trials + 1):
        # With one trial more the cut stays or grows by one, never by more.
        if reaches(binomial_at_most(cut + 1, trials, bar), alpha):
            cut += 1
        if cut < 0:
            continue
        seen = binomial_at_most(cut, trials, bad_rate)
        if seen >= power * (1.0 - ROUNDING):
            return FixedDesign(
                trials=trials, fail_at_most=cut, false_alarm=binomial_at_most(cut, trials, bar), power=seen
            )
    return None


def fisher_power(base_rate: float, candidate_rate: float, *, trials: int, alpha: float = 0.05) -> float:
    """The exact power of the one-sided Fisher test with this number of trials in each run."""
    require_rate("base_rate", base_rate)
    require_rate("candidate_rate", candidate_rate)
    require_open_rate("alpha", alpha)
    require_positive("trials", trials)
    base, candidate = binomial_distribution(trials, base_rate), binomial_distribution(trials, candidate_rate)
    power, cut = 0.0, -1
    for base_passed in range(trials + 1):
        # The more the baseline passed, the more the candidate may pass and still be significantly worse.
        while reaches(_fisher_p(base_passed, cut + 1, trials), alpha):
            cut += 1
        power += base.exactly(base_passed) * candidate.at_most(cut)
    return power


def _fisher_p(base_passed: int, candidate_passed: int, trials: int) -> float:
    counts = ScenarioCounts(
        base_passed=base_passed, base_total=trials, candidate_passed=candidate_passed, candidate_total=trials
    )
    return fisher_test(counts)


def _require_errors(alpha: float, power: float) -> None:
    require_open_rate("alpha", alpha)
    require_open_rate("power", power)


def _require_bar(bar: float) -> None:
    if not 0.0 < bar <= 1.0:
        raise UsageError(f"bar: {bar!r} is not above 0 and at most 1. Give the rate that must be reached, such as 0.9.")

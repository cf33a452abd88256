"""Planning: the number of trials that finds a drop, and the power of the exact test."""

import math
from dataclasses import dataclass

from seatrial.errors import UsageError

from .distributions import (
    ROUNDING,
    beta_quantile,
    binomial_at_most,
    binomial_distribution,
    normal_quantile,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSpread:
    """Where the noise of a comparison comes from, as variances."""

    between_scenarios: float
    """How much the true differences vary from scenario to scenario."""
    base_trial: float
    """One trial of the baseline within a scenario: the mean of p (1 - p)."""
    candidate_trial: float

    def scenarios_beat_repeats(self, repeats: int) -> bool:
        """Whether more scenarios help more than more repeats, at this many repeats."""
        return (self.base_trial + self.candidate_trial) / repeats < self.between_scenarios


def noticeable_rate(bar: float, trials: int, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """The rate below which this many trials reliably notice a fall from the bar; None when they notice nothing."""
    _require_bar(bar)
    require_positive("trials", trials)
    _require_errors(alpha, power)
    distribution = binomial_distribution(trials, bar)
    cut, tail = distribution.start - 1, 0.0
    for chance in distribution.chances:
        tail += chance
        if not reaches(tail, alpha):
            break
        cut += 1
    return beta_quantile(1.0 - power, cut + 1, trials - cut) if cut >= 0 else None


def trials_per_run(
    base_rate: float, candidate_rate: float, *, alpha: float = 0.05, power: float = 0.8, one_sided: bool = False
) -> int:
    """Trials of one scenario in each run to tell the two rates apart, by the normal approximation."""
    require_rate("base_rate", base_rate)
    require_rate("candidate_rate", candidate_rate)
    _require_errors(alpha, power)
    if base_rate == candidate_rate:
        raise UsageError(f"candidate_rate: {candidate_rate!r} equals base_rate. Give the rate that you want to notice.")
    noise = base_rate * (1.0 - base_rate) + candidate_rate * (1.0 - candidate_rate)
    reach = _z_sum(alpha if one_sided else alpha / 2.0, power)
    return max(1, math.ceil(reach**2 * noise / (base_rate - candidate_rate) ** 2))


def pairs_needed(pass_to_fail: float, fail_to_pass: float, *, alpha: float = 0.05, power: float = 0.8) -> int:
    """Scenarios, run once in each run, for McNemar's test to see these shares of flips (Connor 1987)."""
    require_rate("pass_to_fail", pass_to_fail)
    require_rate("fail_to_pass", fail_to_pass)
    _require_errors(alpha, power)
    flips, drift = pass_to_fail + fail_to_pass, pass_to_fail - fail_to_pass
    if drift == 0.0 or flips > 1.0:
        raise UsageError(
            f"pass_to_fail, fail_to_pass: {pass_to_fail!r} and {fail_to_pass!r} are equal or exceed 1 together. "
            "Give two shares such as 0.1 and 0.02."
        )
    reach = -normal_quantile(alpha / 2.0) * math.sqrt(flips)
    reach += normal_quantile(power) * math.sqrt(flips - drift * drift)
    return math.ceil((reach / drift) ** 2)


def repeats_to_flag_one(scenarios: int, *, q: float = 0.05, base_repeats: int | None = None) -> int:
    """Repeats for plain Benjamini-Hochberg to flag one completely broken scenario in a suite of this size.

    `base_repeats` is how often the baseline ran each of them; None when as often as the candidate.
    """
    require_positive("scenarios", scenarios)
    require_open_rate("q", q)
    if base_repeats is not None:
        require_positive("base_repeats", base_repeats)
    repeats = 1
    while not reaches(1.0 / math.comb((base_repeats or repeats) + repeats, repeats), q / scenarios):
        repeats += 1
    return repeats


def smallest_visible_drop(
    spread: SuiteSpread, *, scenarios: int, repeats: int, alpha: float = 0.05, power: float = 0.8
) -> float:
    """The mean drop over a suite that a paired comparison reliably shows (Miller 2024)."""
    require_positive("scenarios", scenarios)
    require_positive("repeats", repeats)
    _require_errors(alpha, power)
    noise = spread.between_scenarios + (spread.base_trial + spread.candidate_trial) / repeats
    return _z_sum(alpha / 2.0, power) * math.sqrt(noise / scenarios)


def _trial_variance(passed: int, total: int) -> float:
    """The unbiased estimate of p (1 - p)."""
    return passed * (total - passed) / (total * (total - 1))


def _z_sum(tail: float, power: float) -> float:
    return normal_quantile(power) - normal_quantile(tail)

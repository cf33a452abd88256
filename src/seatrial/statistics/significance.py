"""Is a difference between two runs beyond noise? Exact tests, for one scenario and for a suite of them.

Two questions, two tests: did the pass rate change on these scenarios (`stratified_test`, here), and will it be worse on
scenarios like these (`sign_flip_test`, in resampling). Repeats are never reduced to a majority vote before testing.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .discrete_distributions import SMALLEST_P, Law, binomial_law, hypergeometric_law, sum_law
from .intervals import Interval, wilson_interval
from .validation import require_counts

Direction: TypeAlias = Literal["regression", "improvement", "two_sided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioCounts:
    """How often one scenario passed in the baseline and in the candidate run."""

    base_passed: int
    base_total: int
    candidate_passed: int
    candidate_total: int

    def __post_init__(self) -> None:
        require_counts(self.base_passed, self.base_total)
        require_counts(self.candidate_passed, self.candidate_total)

    @property
    def difference(self) -> float | None:
        """The candidate's pass rate minus the baseline's; None when one of them did not run."""
        if not self.base_total or not self.candidate_total:
            return None
        return self.candidate_passed / self.candidate_total - self.base_passed / self.base_total

    def turned(self) -> "ScenarioCounts":
        """The same counts with the two runs in each other's place, so that improvements become regressions."""
        return ScenarioCounts(
            base_passed=self.candidate_passed,
            base_total=self.candidate_total,
            candidate_passed=self.base_passed,
            candidate_total=self.base_total,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedTest:
    """Whether the candidate passed less often than chance allows, over all scenarios together."""

    observed: int
    """Trials that the candidate passed."""
    expected: float
    """Trials it would pass on average if nothing had changed."""
    p_regression: float
    p_improvement: float
    p_two_sided: float
    mid_p_regression: float
    """Counts the observed result half: nearer to the promised error rate than the exact one, which stays below it."""


def fisher_test(counts: ScenarioCounts, *, direction: Direction = "regression") -> float:
    """The exact p-value of one scenario (Fisher); "regression" asks whether the candidate is worse."""
    law = _candidate_law(counts)
    if direction == "regression":
        return law.at_most(counts.candidate_passed)
    if direction == "improvement":
        return law.at_least(counts.candidate_passed)
    return law.as_rare_as(counts.candidate_passed)


def smallest_p_value(counts: ScenarioCounts) -> float:
    """The smallest p-value for a regression that this scenario could show; above 0.05 it could not show any."""
    law = _candidate_law(counts)
    return law.at_most(law.start)


def stratified_test(scenarios: Sequence[ScenarioCounts]) -> StratifiedTest:
    """The exact test over scenarios with repeats.

    If nothing changed, each scenario's passes fall blindly on the two runs; the law of their sum is the product of the
    scenarios' laws. No approximation, no resampling, and unequal numbers of repeats are fine.
    """
    law = sum_law(_candidate_laws(scenarios))
    observed = sum(counts.candidate_passed for counts in scenarios)
    worse_or_equal = law.at_most(observed)
    return StratifiedTest(
        observed=observed,
        expected=law.mean(),
        p_regression=max(SMALLEST_P, worse_or_equal),
        p_improvement=max(SMALLEST_P, law.at_least(observed)),
        p_two_sided=max(SMALLEST_P, law.as_rare_as(observed)),
        mid_p_regression=max(SMALLEST_P, law.at_most(observed - 1) + law.exactly(observed) / 2.0),
    )


def cochran_mantel_haenszel_test(scenarios: Sequence[ScenarioCounts]) -> float:
    """The two-sided p-value of the asymptotic twin of the stratified test, to compare with other tools' numbers."""
    surplus = variance = 0.0
    for counts in scenarios:
        total = counts.base_total + counts.candidate_total
        if total < 2:
            continue
        passed = counts.base_passed + counts.candidate_passed
        surplus += counts.candidate_passed - counts.candidate_total * passed / total
        variance += counts.base_total * counts.candidate_total * passed * (total - passed) / (total**2 * (total - 1))
    # Half a trial is taken off the surplus: the usual correction for counts being whole numbers.
    return math.erfc(max(0.0, abs(surplus) - 0.5) / math.sqrt(2.0 * variance)) if variance else 1.0


def mcnemar_exact(pass_to_fail: int, fail_to_pass: int) -> float:
    """The exact two-sided p-value when each scenario ran once in each run, from the flips alone."""
    law, fewer = _flips(pass_to_fail, fail_to_pass)
    return min(1.0, 2.0 * law.at_most(fewer))


def mcnemar_mid_p(pass_to_fail: int, fail_to_pass: int) -> float:
    """The mid-p version of McNemar's test: the default, since the exact one misses too much."""
    if pass_to_fail == fail_to_pass:
        return 1.0
    law, fewer = _flips(pass_to_fail, fail_to_pass)
    return min(1.0, 2.0 * law.at_most(fewer) - law.exactly(fewer))


def newcombe_interval(counts: ScenarioCounts, *, confidence: float = 0.95) -> Interval:
    """Bounds of the candidate's pass rate minus the baseline's; (-1, 1) when one of them did not run.

    "Not worse than m" holds when the lower bound at confidence 0.9 is above -m.
    """
    if counts.difference is None:
        return -1.0, 1.0
    base = counts.base_passed / counts.base_total
    candidate = counts.candidate_passed / counts.candidate_total
    base_low, base_high = wilson_interval(counts.base_passed, counts.base_total, confidence=confidence)
    low, high = wilson_interval(counts.candidate_passed, counts.candidate_total, confidence=confidence)
    down = math.hypot(candidate - low, base_high - base)
    up = math.hypot(high - candidate, base - base_low)
    return counts.difference - down, counts.difference + up


def _flips(pass_to_fail: int, fail_to_pass: int) -> tuple[Law, int]:
    if pass_to_fail < 0 or fail_to_pass < 0:
        raise ValueError(f"flips: {pass_to_fail!r} and {fail_to_pass!r} must not be negative. Count them again.")
    return binomial_law(pass_to_fail + fail_to_pass, 0.5), min(pass_to_fail, fail_to_pass)


def _candidate_law(counts: ScenarioCounts) -> Law:
    return hypergeometric_law(
        counts.candidate_total,
        passed=counts.base_passed + counts.candidate_passed,
        total=counts.base_total + counts.candidate_total,
    )


def _candidate_laws(scenarios: Iterable[ScenarioCounts]) -> list[tuple[Law, int]]:
    """Each different law with the number of scenarios that follow it."""
    margins = Counter(
        (
            counts.candidate_total,
            counts.base_passed + counts.candidate_passed,
            counts.base_total + counts.candidate_total,
        )
        for counts in scenarios
    )
    return [
        (hypergeometric_law(drawn, passed=passed, total=total), times)
        for (drawn, passed, total), times in margins.items()
    ]

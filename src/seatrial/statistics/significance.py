"""Is a difference between two runs beyond noise? Exact tests, for one scenario and for a suite of them.

Two questions, two tests: did the pass rate change on these scenarios (`stratified_test`, here), and will it be worse on
scenarios like these (`sign_flip_test`, in resampling). Repeats are never reduced to a majority vote before testing.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import getitem
from typing import Literal, TypeAlias

from .distributions import (
    ROUNDING,
    SMALLEST_P,
    Law,
    binomial_law,
    hypergeometric_law,
    reaches,
    require_counts,
    require_open_rate,
    require_positive,
    student_t_quantile,
    sum_law,
)
from .intervals import Interval, wilson_interval

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


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values: flag those at or below q, and on average a share of at most q is flagged wrongly."""
    count = len(p_values)
    adjusted, smallest = [1.0] * count, 1.0
    for rank, index in reversed(list(enumerate(_by_size(p_values), start=1))):
        # The ratio first: it is never below 1, so that rounding cannot lower a p-value.
        smallest = min(smallest, p_values[index] * (count / rank))
        adjusted[index] = smallest
    return tuple(adjusted)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values: flag those at or below alpha, and any false flag at all has at most that chance."""
    count = len(p_values)
    adjusted, largest = [1.0] * count, 0.0
    for rank, index in enumerate(_by_size(p_values)):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def tarone_benjamini_hochberg(
    p_values: Sequence[float], smallest: Sequence[float], *, q: float = 0.05
) -> tuple[bool, ...]:
    """Which scenarios are flagged (Gilbert 2005), given each one's p-value and the smallest it could have had."""
    require_open_rate("q", q)
    if len(p_values) != len(smallest):
        raise ValueError(f"{len(p_values)} p-values but {len(smallest)} smallest ones. Give one for each.")
    limit = _screening_limit(smallest, q)
    kept = [index for index in _by_size(p_values) if reaches(smallest[index], limit)]
    last = 0
    for rank, index in enumerate(kept, start=1):
        if reaches(p_values[index], q * rank / len(kept)):
            last = rank
    flagged = set(kept[:last])
    return tuple(index in flagged for index in range(len(p_values)))


def flag_scenarios(
    scenarios: Sequence[ScenarioCounts],
    *,
    direction: Literal["regression", "improvement"] = "regression",
    q: float = 0.05,
) -> tuple[bool, ...]:
    """Which scenarios got worse (or better) beyond noise, when all of them were looked at."""
    counts = [one.turned() for one in scenarios] if direction == "improvement" else list(scenarios)
    return tarone_benjamini_hochberg(
        [fisher_test(one) for one in counts], [smallest_p_value(one) for one in counts], q=q
    )


def _screening_limit(smallest: Sequence[float], q: float) -> float:
    """q / k for the first k that at most k scenarios could reach."""
    floors = sorted(smallest)
    for k in range(1, len(floors) + 1):
        if bisect_right(floors, q / k * (1.0 + ROUNDING)) <= k:
            return q / k
    return q


def _by_size(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=lambda index: p_values[index])


_EXACT_UP_TO = 18
_BLOCK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFlipTest:
    """Whether the mean difference over scenarios is beyond chance, if each could as well have had the other sign."""

    mean: float | None
    """The mean difference; None when there is none."""
    p_regression: float
    p_two_sided: float
    exact: bool
    """All sign patterns were tried; otherwise the p-values come from random ones and are never 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredMean:
    """A mean over trials whose error takes into account that repeats of one scenario resemble each other."""

    mean: float
    standard_error: float | None
    """None with fewer than two scenarios."""
    naive_standard_error: float | None
    """What it would be if all trials were independent; None with fewer than two trials."""
    design_effect: float | None
    """How many trials are worth one independent trial; None when the naive error is 0."""
    degrees: int
    """Degrees of freedom of the t distribution behind the interval."""
    interval: Interval | None


def sign_flip_test(differences: Sequence[float], *, seed: int = 0, draws: int = 20_000) -> SignFlipTest:
    """The permutation test of the scenarios' differences: all sign patterns of up to 18, else random ones."""
    _require_finite(differences)
    require_positive("draws", draws)
    moved = [value for value in differences if value != 0.0]
    if not moved:
        return SignFlipTest(mean=0.0 if differences else None, p_regression=1.0, p_two_sided=1.0, exact=True)
    exact = len(moved) <= _EXACT_UP_TO
    sums = _all_signed_sums(moved) if exact else _random_signed_sums(moved, seed, draws)
    observed = math.fsum(moved)
    slack = 1e-12 * math.fsum(map(abs, moved))
    lower = further = 0
    for value in sums:
        lower += value <= observed + slack
        further += abs(value) >= abs(observed) - slack
    # The observed pattern counts as one of the random ones, so that a p-value is never 0.
    extra, patterns = (0, 2 ** len(moved)) if exact else (1, draws + 1)
    return SignFlipTest(
        mean=observed / len(differences),
        p_regression=(lower + extra) / patterns,
        p_two_sided=(further + extra) / patterns,
        exact=exact,
    )


def cluster_bootstrap_interval(
    differences: Sequence[float], *, seed: int = 0, confidence: float = 0.95, draws: int = 2_000
) -> Interval | None:
    """Bounds of the mean difference by drawing whole scenarios with replacement; None without scenarios."""
    _require_finite(differences)
    require_open_rate("confidence", confidence)
    require_positive("draws", draws)
    count = len(differences)
    if not count:
        return None
    means = sorted(
        math.fsum([differences[word * count >> 32] for word in memoryview(block).cast("I")]) / count
        for block in _random_blocks(seed, count=draws, size=4 * count)
    )
    tail = (1.0 - confidence) / 2.0 * (draws - 1)
    return means[math.floor(tail)], means[math.ceil(draws - 1 - tail)]


def clustered_mean(groups: Sequence[Sequence[float]], *, confidence: float = 0.95) -> ClusteredMean | None:
    """The mean over all trials, given by scenario, with a cluster-robust error (Miller 2024); None without trials."""
    require_open_rate("confidence", confidence)
    groups = [group for group in groups if group]
    values = list(chain.from_iterable(groups))
    if not values:
        return None
    _require_finite(values)
    total, clusters = len(values), len(groups)
    mean = math.fsum(values) / total
    naive = error = interval = effect = None
    if total > 1:
        naive = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (total - 1) / total)
    if clusters > 1:
        squares = math.fsum(math.fsum(value - mean for value in group) ** 2 for group in groups)
        error = math.sqrt(squares * clusters / (clusters - 1)) / total
        half = error * student_t_quantile(0.5 + confidence / 2.0, clusters - 1)
        interval = mean - half, mean + half
        effect = (error / naive) ** 2 if naive else None
    return ClusteredMean(
        mean=mean,
        standard_error=error,
        naive_standard_error=naive,
        design_effect=effect,
        degrees=clusters - 1,
        interval=interval,
    )


def _all_signed_sums(values: Sequence[float]) -> list[float]:
    sums = [0.0]
    for value in values:
        sums = [total + value for total in sums] + [total - value for total in sums]
    return sums


def _random_signed_sums(values: Sequence[float], seed: int, draws: int) -> Iterator[float]:
    """One random byte picks eight signs at once: 20,000 draws over 1,000 scenarios take 0.15 s instead of seconds."""
    tables = [_all_signed_sums(values[at : at + _BLOCK]) for at in range(0, len(values), _BLOCK)]
    # The last table may be shorter than 256; repeating it keeps its signs equally likely.
    tables[-1] *= 256 // len(tables[-1])
    for block in _random_blocks(seed, count=draws, size=len(tables)):
        yield sum(map(getitem, tables, block))


def _random_blocks(seed: int, *, count: int, size: int) -> Iterator[bytes]:
    """Random bytes that depend on the seed alone."""
    from hashlib import shake_256  # 10 ms to import, and only a comparison needs it

    for number in range(count):
        yield shake_256(f"{seed}:{number}".encode()).digest(size)


def _require_finite(values: Sequence[float]) -> None:
    if not all(map(math.isfinite, values)):
        raise ValueError("differences: some are not finite numbers. Leave out scenarios that have no value.")

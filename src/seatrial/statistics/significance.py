"""Tests of the difference between two runs: exact tests of pass counts, adjustments for many tests, sign flips.

`stratified_test` asks whether the pass rate changed on these scenarios.

`ratio_test` (latency, cost): the mean change of the logarithm, so slow and quick scenarios count alike. From 5
scenarios on it is the paired t-test over scenarios; below, Welch's test of the trials within scenarios. Simulated false
alarms are at most 6 % (benchmarks/gate.py). It cannot tell a slower agent from a slower machine.

`score_test`: the sign-flip test of the mean scores. It needs 5 scenarios with different scores (the smallest p-value of
n is 1/2^n). It assumes that differences are as often above as below zero if nothing changed: skewed differences raise
false alarms from 5 to 9-15 %.
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
    CountDistribution,
    beta_cdf,
    binomial_distribution,
    hypergeometric_distribution,
    reaches,
    require_counts,
    require_open_rate,
    require_positive,
    student_t_quantile,
    sum_distributions,
)
from .intervals import Interval, wilson_interval

Direction: TypeAlias = Literal["regression", "improvement", "two_sided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioCounts:
    """Passes and trials of one scenario in the baseline and in the candidate."""

    base_passed: int
    base_total: int
    candidate_passed: int
    candidate_total: int

    def __post_init__(self) -> None:
        require_counts(self.base_passed, self.base_total)
        require_counts(self.candidate_passed, self.candidate_total)

    @property
    def difference(self) -> float | None:
        """The candidate's pass rate minus the baseline's; None if one did not run."""
        if not self.base_total or not self.candidate_total:
            return None
        return self.candidate_passed / self.candidate_total - self.base_passed / self.base_total

    def swapped(self) -> "ScenarioCounts":
        """The counts with the runs exchanged: improvements become regressions."""
        return ScenarioCounts(
            base_passed=self.candidate_passed,
            base_total=self.candidate_total,
            candidate_passed=self.base_passed,
            candidate_total=self.base_total,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedTest:
    """The exact test of all scenarios together."""

    observed: int
    """Trials that the candidate passed."""
    expected: float
    """The expected number if nothing changed."""
    p_regression: float
    p_improvement: float
    p_two_sided: float
    mid_p_regression: float
    """Counts the probability of the observed result half: less conservative than the exact p-value."""


def fisher_test(counts: ScenarioCounts, *, direction: Direction = "regression") -> float:
    """Fisher's exact p-value of one scenario; "regression": the candidate is worse."""
    distribution = _candidate_distribution(counts)
    if direction == "regression":
        return distribution.at_most(counts.candidate_passed)
    if direction == "improvement":
        return distribution.at_least(counts.candidate_passed)
    return distribution.as_rare_as(counts.candidate_passed)


def fisher_mid_p(counts: ScenarioCounts) -> float:
    """The mid-p value of a regression: the probability of the observed result counts half."""
    distribution, passed = _candidate_distribution(counts), counts.candidate_passed
    return distribution.at_most(passed - 1) + distribution.exactly(passed) / 2.0


def smallest_p_value(counts: ScenarioCounts) -> float:
    """The smallest p-value that a regression could have with these totals and this number of passes."""
    distribution = _candidate_distribution(counts)
    return distribution.at_most(distribution.start)


def stratified_test(scenarios: Sequence[ScenarioCounts]) -> StratifiedTest:
    """The exact test over all scenarios; the numbers of trials may differ.

    If nothing changed, the passes of a scenario are spread at random over the trials of both runs (hypergeometric).
    """
    distribution = sum_distributions(_candidate_distributions(scenarios))
    observed = sum(counts.candidate_passed for counts in scenarios)
    worse_or_equal = distribution.at_most(observed)
    return StratifiedTest(
        observed=observed,
        expected=distribution.mean(),
        p_regression=max(SMALLEST_P, worse_or_equal),
        p_improvement=max(SMALLEST_P, distribution.at_least(observed)),
        p_two_sided=max(SMALLEST_P, distribution.as_rare_as(observed)),
        mid_p_regression=max(SMALLEST_P, distribution.at_most(observed - 1) + distribution.exactly(observed) / 2.0),
    )


def newcombe_interval(counts: ScenarioCounts, *, confidence: float = 0.95) -> Interval:
    """Bounds of the candidate's pass rate minus the baseline's (Newcombe); (-1, 1) if one did not run."""
    if counts.difference is None:
        return -1.0, 1.0
    base = counts.base_passed / counts.base_total
    candidate = counts.candidate_passed / counts.candidate_total
    base_low, base_high = wilson_interval(counts.base_passed, counts.base_total, confidence=confidence)
    low, high = wilson_interval(counts.candidate_passed, counts.candidate_total, confidence=confidence)
    down = math.hypot(candidate - low, base_high - base)
    up = math.hypot(high - candidate, base - base_low)
    return counts.difference - down, counts.difference + up


def _candidate_distribution(counts: ScenarioCounts) -> CountDistribution:
    return hypergeometric_distribution(
        counts.candidate_total,
        passed=counts.base_passed + counts.candidate_passed,
        total=counts.base_total + counts.candidate_total,
    )


def _candidate_distributions(scenarios: Iterable[ScenarioCounts]) -> list[tuple[CountDistribution, int]]:
    """Each different distribution with its number of scenarios."""
    margins = Counter(
        (
            counts.candidate_total,
            counts.base_passed + counts.candidate_passed,
            counts.base_total + counts.candidate_total,
        )
        for counts in scenarios
    )
    return [
        (hypergeometric_distribution(drawn, passed=passed, total=total), times)
        for (drawn, passed, total), times in margins.items()
    ]


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values: flags at alpha have at most the probability alpha of any false flag."""
    count = len(p_values)
    adjusted, largest = [1.0] * count, 0.0
    for rank, index in enumerate(_by_size(p_values)):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def tarone_benjamini_hochberg(
    p_values: Sequence[float], smallest: Sequence[float], *, q: float = 0.05
) -> tuple[bool, ...]:
    """Which tests are flagged (Gilbert 2005), given each p-value and its smallest possible value.

    At most a share q of the flags is false on average.
    """
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


def flag_strongest(p_values: Sequence[float], smallest: Sequence[float], *, q: float = 0.05) -> tuple[bool, ...]:
    """The flags of `tarone_benjamini_hochberg`, and all tests with evidence as strong as that of a flagged one.

    The screening may leave out a test with a smaller p-value: 60/60 against 4/6, but not 59/60 against 4/6. The chance
    of any false flag stays the same, and the share of false flags was below 1 % in simulations.
    """
    flags = tarone_benjamini_hochberg(p_values, smallest, q=q)
    weakest = max((p_value for p_value, flag in zip(p_values, flags, strict=True) if flag), default=-1.0)
    return tuple(p_value <= weakest for p_value in p_values)


def flag_scenarios(
    scenarios: Sequence[ScenarioCounts],
    *,
    direction: Literal["regression", "improvement"] = "regression",
    q: float = 0.05,
) -> tuple[bool, ...]:
    """Which scenarios got worse (or better), adjusted for the number of scenarios."""
    counts = [one.swapped() for one in scenarios] if direction == "improvement" else list(scenarios)
    return flag_strongest([fisher_test(one) for one in counts], [smallest_p_value(one) for one in counts], q=q)


def _screening_limit(smallest: Sequence[float], q: float) -> float:
    """q / k for the first k that at most k tests can reach."""
    reachable = sorted(smallest)
    for k in range(1, len(reachable) + 1):
        if bisect_right(reachable, q / k * (1.0 + ROUNDING)) <= k:
            return q / k
    return q


def _by_size(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=lambda index: p_values[index])


_EXACT_UP_TO = 18
_BLOCK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SignFlipTest:
    """The permutation test of differences: without a change, each sign is equally likely."""

    mean: float | None
    """The mean difference; None without differences."""
    p_regression: float
    p_two_sided: float
    exact: bool
    """True: all sign patterns; False: random ones."""


def sign_flip_test(differences: Sequence[float], *, seed: int = 0, draws: int = 20_000) -> SignFlipTest:
    """The test of the scenarios' differences: all sign patterns of up to 18 differences, else random ones.

    It assumes symmetric differences if nothing changed: skewed ones raise false alarms from 5 to 9-15 %.
    """
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


def _all_signed_sums(values: Sequence[float]) -> list[float]:
    sums = [0.0]
    for value in values:
        sums = [total + value for total in sums] + [total - value for total in sums]
    return sums


def _random_signed_sums(values: Sequence[float], seed: int, draws: int) -> Iterator[float]:
    """Sums with random signs. A random byte sets eight signs: 20,000 draws over 1,000 scenarios take 0.15 s."""
    tables = [_all_signed_sums(values[at : at + _BLOCK]) for at in range(0, len(values), _BLOCK)]
    # The last table may be shorter than 256; repeating it keeps its signs equally likely.
    tables[-1] *= 256 // len(tables[-1])
    for block in _random_blocks(seed, count=draws, size=len(tables)):
        yield sum(map(getitem, tables, block))


def _random_blocks(seed: int, *, count: int, size: int) -> Iterator[bytes]:
    """Random bytes that depend only on the seed."""
    from hashlib import shake_256  # 10 ms to import, and only a comparison needs it

    for number in range(count):
        yield shake_256(f"{seed}:{number}".encode()).digest(size)


def _require_finite(values: Sequence[float]) -> None:
    if not all(map(math.isfinite, values)):
        raise ValueError("differences: some are not finite numbers. Leave out scenarios that have no value.")


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
    distribution, fewer = _flips(pass_to_fail, fail_to_pass)
    return min(1.0, 2.0 * distribution.at_most(fewer))


def mcnemar_mid_p(pass_to_fail: int, fail_to_pass: int) -> float:
    """The mid-p version of McNemar's test: the default, since the exact one misses too much."""
    if pass_to_fail == fail_to_pass:
        return 1.0
    distribution, fewer = _flips(pass_to_fail, fail_to_pass)
    return min(1.0, 2.0 * distribution.at_most(fewer) - distribution.exactly(fewer))


def _flips(pass_to_fail: int, fail_to_pass: int) -> tuple[CountDistribution, int]:
    if pass_to_fail < 0 or fail_to_pass < 0:
        raise ValueError(f"flips: {pass_to_fail!r} and {fail_to_pass!r} must not be negative. Count them again.")
    return binomial_distribution(pass_to_fail + fail_to_pass, 0.5), min(pass_to_fail, fail_to_pass)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values: flag those at or below q, and on average a share of at most q is flagged wrongly."""
    count = len(p_values)
    adjusted, smallest = [1.0] * count, 1.0
    for rank, index in reversed(list(enumerate(_by_size(p_values), start=1))):
        # The ratio first: it is never below 1, so that rounding cannot lower a p-value.
        smallest = min(smallest, p_values[index] * (count / rank))
        adjusted[index] = smallest
    return tuple(adjusted)


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


FEWEST_SCENARIOS = 5
"""For a test over scenarios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedValues:
    """The values of the trials of one scenario in both runs, such as milliseconds."""

    base: tuple[float, ...]
    candidate: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioTest:
    """The change of a positive value as a ratio; None where it cannot be tested."""

    ratio: float | None
    """The geometric mean of candidate / base over scenarios: 1.2 is 20 % more."""
    interval: Interval | None
    """Two-sided at 90 %: its lower bound is above 1 exactly if `p_higher` is below 5 %."""
    p_higher: float | None
    """The probability of a rise this large if nothing changed."""
    scenarios: int
    """Scenarios that count: with positive values in both runs."""
    method: Literal["over scenarios", "within scenarios", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTest:
    """The change of the mean score; None where it cannot be tested."""

    difference: float | None
    p_lower: float | None
    """The probability of a fall this large if nothing changed; None below 5 scenarios with different scores."""
    scenarios: int


def ratio_test(scenarios: Sequence[PairedValues], *, offset: float = 0.0) -> RatioTest:
    """Whether the values rose. `offset` is added to each value, so that tiny ones (below it) hardly count."""
    logs = [(_logs(one.base, offset), _logs(one.candidate, offset)) for one in scenarios]
    pairs = [(base, candidate) for base, candidate in logs if base and candidate]
    changes = [_mean(candidate) - _mean(base) for base, candidate in pairs]
    if not changes:
        return RatioTest(ratio=None, interval=None, p_higher=None, scenarios=0, method="none")
    middle = _mean(changes)
    method: Literal["over scenarios", "within scenarios", "none"] = "over scenarios"
    if len(changes) >= FEWEST_SCENARIOS:
        variance, degrees = _variance(changes) / len(changes), len(changes) - 1.0
    else:
        variance, degrees = _within(pairs)
        method = "within scenarios" if degrees else "none"
    if not degrees:
        return RatioTest(ratio=math.exp(middle), interval=None, p_higher=None, scenarios=len(changes), method=method)
    error = math.sqrt(variance)
    reach = error * student_t_quantile(0.95, degrees)
    return RatioTest(
        ratio=math.exp(middle),
        interval=(math.exp(middle - reach), math.exp(middle + reach)),
        p_higher=_upper_tail(middle, error, degrees),
        scenarios=len(changes),
        method=method,
    )


def _within(pairs: Sequence[tuple[list[float], list[float]]]) -> tuple[float, float]:
    """The variance of the mean change and its degrees of freedom (Welch and Satterthwaite); (0, 0) without repeats."""
    parts = [(_variance(side) / len(side), len(side) - 1) for pair in pairs for side in pair if len(side) > 1]
    if len(parts) < 2 * len(pairs):
        return 0.0, 0.0
    whole = math.fsum(part for part, _ in parts)
    squares = math.fsum(part * part / degrees for part, degrees in parts)
    degrees = whole * whole / squares if squares else float(sum(each for _, each in parts))
    return whole / len(pairs) ** 2, degrees


def _upper_tail(middle: float, error: float, degrees: float) -> float:
    """The probability that Student's t is above middle / error."""
    if error == 0.0:
        return 0.0 if middle > 0.0 else 1.0
    t = middle / error
    tail = beta_cdf(degrees / (degrees + t * t), degrees / 2.0, 0.5) / 2.0
    return tail if t > 0.0 else 1.0 - tail


def score_test(differences: Sequence[float], *, seed: int = 0) -> ScoreTest:
    """Whether the mean score fell, from each scenario's mean score in the candidate minus that in the base."""
    test = sign_flip_test(differences, seed=seed)
    changed = sum(each != 0.0 for each in differences)
    testable = changed >= FEWEST_SCENARIOS or (len(differences) >= FEWEST_SCENARIOS and not changed)
    return ScoreTest(difference=test.mean, p_lower=test.p_regression if testable else None, scenarios=len(differences))


def _logs(values: Sequence[float], offset: float) -> list[float]:
    return [math.log(value + offset) for value in values if value + offset > 0.0]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    middle = _mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)

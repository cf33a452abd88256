"""`trials: auto`: run trials until the pass rate is decided, with exact error rates.

The rule is two numbers for each number of trials: pass at this number of passes or more, fail at this number or fewer.
It is the rule with the fewest expected trials whose errors are at most `alpha` (an agent at the rate `good` fails) and
`beta` (an agent at `bad` passes), found by dynamic programming. It always decides within `max_trials`: with the
defaults after 10 trials that all pass. Expected trials are averaged over agents that always pass (weight 0.5), that are
above good (0.2), between bad and good (0.1) and below bad (0.2).

If `max_trials` is too small for these errors, Wald's sequential probability ratio test decides instead. It may end
inconclusive. It also decides for very long tests (above 20,000 states), where the difference is small, and for stored
runs of earlier versions.

After a sequential test, show `always_valid_interval`: other intervals are wrong then.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import Literal, TypeAlias

from seatrial.errors import UsageError

from .distributions import (
    ROUNDING,
    binomial_at_least,
    binomial_at_most,
    reaches,
    require_open_rate,
    require_positive,
    require_rate,
)
from .intervals import wilson_interval

SequentialVerdict: TypeAlias = Literal["pass", "fail", "inconclusive", "continue"]
_WEIGHTS = (0.5, 0.2, 0.1, 0.2)
_MOST_STATES = 20_000
_MARGIN = 3.0
"""Evidence beyond the limits of Wald's test at which the optimal rule has certainly stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialTest:
    """Settings of the test: two rates to tell apart, two errors to allow, and the most trials."""

    good: float = 0.9
    bad: float = 0.7
    alpha: float = 0.05
    """The largest probability of failing an agent at the rate `good`."""
    beta: float = 0.05
    """The largest probability of passing an agent at the rate `bad`."""
    max_trials: int = 60
    optimal: bool = True
    """False: Wald's test, which decided stored runs of earlier versions."""

    def __post_init__(self) -> None:
        for name in ("good", "bad", "alpha", "beta"):
            require_open_rate(name, getattr(self, name))
        require_positive("max_trials", self.max_trials)
        if self.bad >= self.good:
            raise UsageError(f"bad: {self.bad!r} is not below good: {self.good!r}. Give two rates such as 0.7 and 0.9.")
        if self.alpha + self.beta >= 1.0:
            raise UsageError(f"alpha, beta: {self.alpha!r} and {self.beta!r} add up to 1 or more. Give 0.05 and 0.05.")

    @property
    def upper(self) -> float:
        """The evidence at which Wald's test passes."""
        return math.log((1.0 - self.alpha) / self.beta)

    @property
    def lower(self) -> float:
        """The evidence at which Wald's test fails."""
        return math.log(self.alpha / (1.0 - self.beta))

    def evidence(self, passed: int, failed: int) -> float:
        """The log-likelihood ratio of good against bad."""
        return passed * math.log(self.good / self.bad) + failed * math.log((1.0 - self.good) / (1.0 - self.bad))

    def passes_for(self, evidence: float, total: int) -> float:
        """The number of passes in `total` trials, not rounded, that gives this evidence."""
        each = self.evidence(1, 0) - self.evidence(0, 1)
        return (evidence - self.evidence(0, total)) / each


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingRule:
    """By number of trials, from 0: pass at `pass_at` passes or more, fail at `fail_at` or fewer."""

    pass_at: tuple[int, ...]
    fail_at: tuple[int, ...]

    @property
    def earliest(self) -> int:
        """The fewest trials after which it can decide: these always run."""
        totals = range(1, len(self.pass_at))
        return next((n for n in totals if self.pass_at[n] <= n or self.fail_at[n] >= 0), len(self.pass_at) - 1)

    def verdict(self, passed: int, total: int) -> SequentialVerdict:
        if passed >= self.pass_at[total]:
            return "pass"
        if passed <= self.fail_at[total]:
            return "fail"
        return "inconclusive" if total + 1 >= len(self.pass_at) else "continue"


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialDecision:
    """The state of the test after trials in index order."""

    verdict: SequentialVerdict
    """"continue": it needs more trials. "inconclusive": it has used them all."""
    trials_used: int
    """Answered trials up to the verdict; later ones are ignored."""
    passed: int
    left_out: int
    """Trials with instrument errors. They never fail the test. It passes only if it would also pass with all of them
    failed."""
    would_pass: bool
    """Whether it would pass without the trials with instrument errors."""
    fewest_more: int
    """The fewest further trials that could decide it; 0 once decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """The probability of each verdict, and the expected trials, at one true rate."""

    rate: float
    passes: float
    fails: float
    inconclusive: float
    expected_trials: float


def decide_sequentially(outcomes: Iterable[bool | None], test: SequentialTest) -> SequentialDecision:
    """The verdict after these trials in index order; None is an instrument error.

    Stop before the first trial that still runs: taking finished trials first would favour quick failures.
    """
    rule = stopping_rule(test)
    passed = failed = left_out = 0
    verdict: SequentialVerdict = "continue"
    would_pass = False
    for outcome in outcomes:
        if outcome is None:
            left_out += 1
            continue
        passed, failed = passed + outcome, failed + (not outcome)
        verdict = rule.verdict(passed, passed + failed)
        would_pass = verdict == "pass"
        if would_pass and not _passes_at_worst(test, rule, passed, failed + left_out):
            verdict = "inconclusive" if passed + failed >= test.max_trials else "continue"
        if verdict != "continue":
            break
    more = 0 if verdict in ("pass", "fail") else _fewest_more(test, rule, passed, failed, left_out)
    return SequentialDecision(
        verdict=verdict,
        trials_used=passed + failed,
        passed=passed,
        left_out=left_out,
        would_pass=would_pass,
        fewest_more=more,
    )


def _passes_at_worst(test: SequentialTest, rule: StoppingRule, passed: int, failed: int) -> bool:
    """Whether it passes with every instrument error among the failures; there may be more of them than trials."""
    if passed + failed <= test.max_trials:
        return passed >= rule.pass_at[passed + failed]
    last = rule.pass_at[-1]
    return test.evidence(passed, failed) >= test.evidence(last, test.max_trials - last) - ROUNDING


def _fewest_more(test: SequentialTest, rule: StoppingRule, passed: int, failed: int, left_out: int) -> int:
    total = passed + failed
    for more in range(1, test.max_trials - total + 1):
        if passed <= rule.fail_at[total + more]:
            return more
        if _passes_at_worst(test, rule, passed + more, failed + left_out):
            return more
    return max(1, test.max_trials - total)


def operating_point(test: SequentialTest, rate: float) -> OperatingPoint:
    """What the test does at this true rate, exactly."""
    require_rate("rate", rate)
    return _play_out(stopping_rule(test), rate)


def _play_out(rule: StoppingRule, rate: float) -> OperatingPoint:
    """The exact probabilities, by following every number of passes that is still undecided."""
    most = len(rule.pass_at) - 1
    passes = fails = expected = 0.0
    low, going = 0, [1.0]
    for total in range(1, most + 1):
        arrived = [a * (1.0 - rate) + b * rate for a, b in zip([*going, 0.0], [0.0, *going], strict=True)]
        first, last = max(rule.fail_at[total] + 1 - low, 0), max(rule.pass_at[total] - low, 0)
        failed, passed = math.fsum(arrived[:first]), math.fsum(arrived[max(first, last) :])
        fails, passes, expected = fails + failed, passes + passed, expected + total * (failed + passed)
        low, going = low + first, arrived[first : max(first, last)]
        if not going:
            break
    left = math.fsum(going)
    return OperatingPoint(
        rate=rate, passes=passes, fails=fails, inconclusive=left, expected_trials=expected + most * left
    )


def operating_table(
    test: SequentialTest, *, rates: Sequence[float] = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5, 0.0)
) -> tuple[OperatingPoint, ...]:
    """The exact error table of the test, one row for each true rate."""
    return tuple(operating_point(test, rate) for rate in rates)


def curtailed_gate(rate: float, *, total: int, need: int) -> OperatingPoint:
    """A "need of total" gate that stops as soon as its result is certain: the same verdict with fewer trials."""
    require_positive("total", total)
    fail_at = [need - 1 - total + ran for ran in range(total + 1)]
    return _play_out(StoppingRule(pass_at=(need,) * (total + 1), fail_at=tuple(fail_at)), rate)


def peeking_error(
    rate: float, *, threshold: float, look_from: int, look_to: int, confidence: float = 0.95
) -> OperatingPoint:
    """What "stop when the Wilson interval excludes the threshold" does, if you look after every trial."""
    require_rate("threshold", threshold)
    require_open_rate("confidence", confidence)
    require_positive("look_to", look_to)
    pass_at, fail_at = [], []
    for ran in range(look_to + 1):
        bounds = [wilson_interval(passed, ran, confidence=confidence) for passed in range(ran + 1)]
        looks = ran >= look_from
        pass_at.append(sum(low < threshold for low, _ in bounds) if looks else ran + 1)
        fail_at.append(sum(high < threshold for _, high in bounds) - 1 if looks else -1)
    return _play_out(StoppingRule(pass_at=tuple(pass_at), fail_at=tuple(fail_at)), rate)


@lru_cache(maxsize=64)
def stopping_rule(test: SequentialTest) -> StoppingRule:
    """The rule of the test. Finding the optimal rule takes 0.05 s with the defaults, and up to 2 s for long tests."""
    if not test.optimal:
        return _walds_rule(test)
    return _optimal_rule(test) or _walds_rule(test)


def _walds_rule(test: SequentialTest) -> StoppingRule:
    pass_at, fail_at = [1], [-1]
    for total in range(1, test.max_trials + 1):
        pass_at.append(math.ceil(test.passes_for(test.upper, total) - ROUNDING))
        fail_at.append(math.floor(test.passes_for(test.lower, total) + ROUNDING))
    return StoppingRule(pass_at=tuple(pass_at), fail_at=tuple(fail_at))


def _optimal_rule(test: SequentialTest) -> StoppingRule | None:
    """The optimal rule; None if `max_trials` is too small for the errors, or the test too long."""
    width = test.passes_for(-math.log(test.alpha * test.beta) + 2 * _MARGIN, 0)
    if test.max_trials * width > _MOST_STATES or not _is_possible(test):
        return None
    solver = _Solver(test)
    found: StoppingRule | None = None
    low, high = 1.0, 1e6
    while high > low * 1.02:
        penalty = math.sqrt(low * high)
        rule = solver.rule_for(penalty)
        if rule is not None and reaches(_play_out(rule, test.good).fails, test.alpha):
            found, high = rule, penalty
        else:
            low = penalty
    return found


def _is_possible(test: SequentialTest) -> bool:
    """Whether a test with a fixed number of trials has both errors: no sequential one has smaller ones."""
    return any(_has_errors(test, total) for total in range(test.max_trials, max(test.max_trials - 10, 0), -1))


def _has_errors(test: SequentialTest, total: int) -> bool:
    cut = math.ceil(total * test.bad)
    while not reaches(binomial_at_least(cut, total, test.bad), test.beta):
        cut += 1
    return reaches(binomial_at_most(cut - 1, total, test.good), test.alpha)


class _Solver:
    """Backward induction: the rule with the lowest sum of expected trials and penalties for the two errors.

    A state is (trials, passes). Values are not divided by the probability of the state, so one pass over the states
    serves all rates.
    """

    def __init__(self, test: SequentialTest) -> None:
        self._test = test
        self._between = (test.good + test.bad) / 2
        top, bottom = -math.log(test.beta) + _MARGIN, math.log(test.alpha) - _MARGIN
        self._bands = [
            (max(0, math.floor(test.passes_for(bottom, n))), min(n, math.ceil(test.passes_for(top, n))))
            for n in range(test.max_trials + 1)
        ]
        self._good, self._bad = self._likelihoods(test.good), self._likelihoods(test.bad)
        rates = (1.0, (1.0 + test.good) / 2, self._between, max(2 * test.bad - test.good, test.bad / 2))
        agents = [self._likelihoods(rate) for rate in rates]
        self._trial = [
            [math.fsum(map(mul, _WEIGHTS, each)) for each in zip(*states, strict=True)]
            for states in zip(*agents, strict=True)
        ]

    def _likelihoods(self, rate: float) -> list[list[float]]:
        """The likelihood of each state at this rate, relative to the rate between good and bad (no underflow)."""
        up = math.log(rate / self._between)
        down = math.log((1.0 - rate) / (1.0 - self._between)) if rate < 1.0 else -1e9
        return [
            [math.exp(min(k * up + (n - k) * down, 600.0)) for k in range(first, last + 1)]
            for n, (first, last) in enumerate(self._bands)
        ]

    def rule_for(self, penalty: float) -> StoppingRule | None:
        """The rule for this penalty of failing the good agent, with the smallest sufficient one of passing the bad."""
        found = None
        low, high = 1.0, 1e6
        while high > low * 1.02:
            other = math.sqrt(low * high)
            rule = self._solve(penalty, other)
            if reaches(_play_out(rule, self._test.bad).passes, self._test.beta):
                found, high = rule, other
            else:
                low = other
        return found

    def _solve(self, fail_penalty: float, pass_penalty: float) -> StoppingRule:
        most, share = self._test.max_trials, self._between
        pass_at, fail_at = [0] * (most + 1), [0] * (most + 1)
        later: list[float] = []
        for n in range(most, -1, -1):
            first, last = self._bands[n]
            passes = [pass_penalty * each for each in self._bad[n]]
            fails = [fail_penalty * each for each in self._good[n]]
            values = list(map(min, passes, fails))
            if n < most:
                after = self._padded(n, later, fail_penalty, pass_penalty)
                for place, trial in enumerate(self._trial[n]):
                    go_on = trial + (1.0 - share) * after[place] + share * after[place + 1]
                    values[place] = min(values[place], go_on)
            pass_at[n] = first + next((at for at, each in enumerate(values) if each == passes[at]), last - first + 1)
            failing = [at for at, each in enumerate(values) if each == fails[at] and first + at < pass_at[n]]
            fail_at[n] = first + (failing[-1] if failing else -1)
            later = values
        return StoppingRule(pass_at=tuple(pass_at), fail_at=tuple(fail_at))

    def _padded(self, n: int, later: list[float], fail_penalty: float, pass_penalty: float) -> list[float]:
        """The values after one more trial, for the passes of this band and one more; decided outside the next band."""
        (first, last), (next_first, next_last) = self._bands[n], self._bands[n + 1]
        below = [fail_penalty * self._good[n + 1][0]] * max(next_first - first, 0)
        above = [pass_penalty * self._bad[n + 1][-1]] * max(last + 1 - next_last, 0)
        return [*below, *later[max(first - next_first, 0) :], *above]

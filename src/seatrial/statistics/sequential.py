"""`trials: auto`: run trials until the pass rate is decided, with exact error rates."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from seatrial.errors import UsageError

from .distributions import ROUNDING, require_open_rate, require_positive, require_rate
from .intervals import wilson_interval

SequentialVerdict: TypeAlias = Literal["pass", "fail", "inconclusive", "continue"]
StoppingRule: TypeAlias = Callable[[int, int], SequentialVerdict]
"""From (passed, total) to a verdict; "continue" asks for another trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialTest:
    """Settings of the test: two rates to tell apart, two errors to allow, and where to give up."""

    good: float = 0.9
    bad: float = 0.7
    alpha: float = 0.05
    """The chance allowed for failing an agent that is good."""
    beta: float = 0.05
    """The chance allowed for passing an agent that is bad."""
    max_trials: int = 60

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
        """The evidence at which the test passes."""
        return math.log((1.0 - self.alpha) / self.beta)

    @property
    def lower(self) -> float:
        """The evidence at which the test fails."""
        return math.log(self.alpha / (1.0 - self.beta))

    @property
    def step_passed(self) -> float:
        """What a passed trial adds to the evidence."""
        return math.log(self.good / self.bad)

    @property
    def step_failed(self) -> float:
        """What a failed trial adds to the evidence; negative."""
        return math.log((1.0 - self.good) / (1.0 - self.bad))

    def evidence(self, passed: int, failed: int) -> float:
        """The log-likelihood ratio of good against bad."""
        return passed * self.step_passed + failed * self.step_failed


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialDecision:
    """Where the test stands after trials taken in index order."""

    verdict: SequentialVerdict
    """"continue" while it needs more trials, "inconclusive" once it has used them all."""
    trials_used: int
    """Trials that counted towards the verdict; what came after it is ignored."""
    passed: int
    left_out: int
    """Trials without an answer among those looked at. They never fail the test, and keep it from passing as failures
    would: it passes only where it would also pass if every one of them had failed."""
    would_pass: bool
    """Whether it would have passed without the trials that have no answer."""
    evidence: float
    more_clean_to_pass: int
    """Further trials, all passing, that would pass it from here, even beyond the maximum; 0 once decided."""
    more_failed_to_fail: int
    """Further trials, all failing, that would fail it from here, even beyond the maximum; 0 once decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """The probability of each verdict, and the expected trials, at one true rate."""

    rate: float
    passes: float
    fails: float
    inconclusive: float
    expected_trials: float


def decide_sequentially(outcomes: Iterable[bool | None], test: SequentialTest) -> SequentialDecision:
    """The verdict after these trials in index order; None is a trial without an answer (an instrument's error).

    Stop the list before the first trial that is still running: taking finished ones first would favour quick failures.
    """
    passed = failed = left_out = 0
    verdict: SequentialVerdict = "continue"
    for outcome in outcomes:
        if outcome is None:
            left_out += 1
            continue
        passed, failed = passed + outcome, failed + (not outcome)
        verdict = _verdict(test, passed, passed + failed, left_out=left_out)
        if verdict != "continue":
            break
    evidence = test.evidence(passed, failed)
    at_worst = test.evidence(passed, failed + left_out)
    decided = verdict in ("pass", "fail")
    return SequentialDecision(
        verdict=verdict,
        trials_used=passed + failed,
        passed=passed,
        left_out=left_out,
        would_pass=evidence >= test.upper - ROUNDING,
        evidence=evidence,
        more_clean_to_pass=0 if decided else math.ceil((test.upper - at_worst) / test.step_passed - ROUNDING),
        more_failed_to_fail=0 if decided else math.ceil((test.lower - evidence) / test.step_failed - ROUNDING),
    )


def _verdict(test: SequentialTest, passed: int, total: int, *, left_out: int = 0) -> SequentialVerdict:
    evidence = test.evidence(passed, total - passed)
    if test.evidence(passed, total - passed + left_out) >= test.upper - ROUNDING:
        return "pass"
    if evidence <= test.lower + ROUNDING:
        return "fail"
    return "inconclusive" if total >= test.max_trials else "continue"


def operating_point(test: SequentialTest, rate: float) -> OperatingPoint:
    """What the sequential test does at this true rate, exactly."""
    return _play_out(rate, test.max_trials, lambda passed, total: _verdict(test, passed, total))


def _play_out(rate: float, max_trials: int, rule: StoppingRule) -> OperatingPoint:
    """The exact chances of a stopping rule, by following every (passed, total) that is still undecided."""
    require_rate("rate", rate)
    undecided = {0: 1.0}
    ended: dict[SequentialVerdict, float] = {"pass": 0.0, "fail": 0.0, "inconclusive": 0.0}
    expected = 0.0
    for total in range(1, max_trials + 1):
        arrived: dict[int, float] = {}
        for passed, chance in undecided.items():
            arrived[passed + 1] = arrived.get(passed + 1, 0.0) + chance * rate
            arrived[passed] = arrived.get(passed, 0.0) + chance * (1.0 - rate)
        undecided = {}
        for passed, chance in arrived.items():
            verdict = rule(passed, total)
            if verdict == "continue":
                undecided[passed] = chance
            else:
                ended[verdict] += chance
                expected += total * chance
    left = sum(undecided.values())
    return OperatingPoint(
        rate=rate,
        passes=ended["pass"],
        fails=ended["fail"],
        inconclusive=ended["inconclusive"] + left,
        expected_trials=expected + max_trials * left,
    )


def operating_table(
    test: SequentialTest, *, rates: Sequence[float] = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5, 0.0)
) -> tuple[OperatingPoint, ...]:
    """The exact error table of the sequential test, one row for each true rate."""
    return tuple(operating_point(test, rate) for rate in rates)


def curtailed_gate(rate: float, *, total: int, need: int) -> OperatingPoint:
    """A "need of total" gate stopped as soon as its outcome is certain: the same verdict with fewer trials."""
    require_positive("total", total)

    def rule(passed: int, ran: int) -> SequentialVerdict:
        if passed >= need:
            return "pass"
        return "fail" if passed + total - ran < need else "continue"

    return _play_out(rate, total, rule)


def peeking_error(
    rate: float, *, threshold: float, look_from: int, look_to: int, confidence: float = 0.95
) -> OperatingPoint:
    """What "stop when the Wilson interval leaves the threshold out" does, looking after every trial."""
    require_rate("threshold", threshold)
    require_open_rate("confidence", confidence)
    require_positive("look_to", look_to)

    def rule(passed: int, ran: int) -> SequentialVerdict:
        if ran >= look_from:
            low, high = wilson_interval(passed, ran, confidence=confidence)
            if high < threshold:
                return "fail"
            if low >= threshold:
                return "pass"
        return "continue"

    return _play_out(rate, look_to, rule)

"""The gate on a pass rate (pass, fail or inconclusive, with the trials that would decide), and pass@k, pass^k."""

import math
from collections.abc import Callable, Sequence
from math import comb
from typing import Literal, TypeAlias

from seatrial.model.struct import Struct

from .distributions import (
    ROUNDING,
    binomial_at_least,
    binomial_at_most,
    log_beta,
    reaches,
    require_counts,
    require_open_rate,
    require_positive,
    require_rate,
)
from .intervals import Interval, clopper_pearson_interval, exact_lower_bound, exact_upper_bound

GateDecision: TypeAlias = Literal["pass", "fail", "inconclusive"]

_FOREVER = 2**40


class GateVerdict(Struct, frozen=True, kw_only=True):
    """The decision of a gate on the trials so far, and what would change it."""

    decision: GateDecision
    passed: int
    total: int
    threshold: float
    confidence: float
    lower: float
    """The one-sided exact lower bound: the gate passes when it reaches the threshold."""
    upper: float
    """The one-sided exact upper bound: the gate fails when it is below the threshold."""
    clean_trials_needed: int | None
    """Trials without a failure that pass this gate from the start; None: no number does."""
    more_clean_to_pass: int | None
    """More trials, all passing, that pass the gate; 0: it passed; None: no number does."""
    more_failed_to_fail: int | None
    """More trials, all failing, that fail the gate; 0: it failed; None: no number does."""


def gate_verdict(passed: int, total: int, *, threshold: float, confidence: float = 0.95) -> GateVerdict:
    """The decision and its bounds. Pass and fail are wrong with a probability of at most 1 - confidence each."""
    require_counts(passed, total)
    return GateVerdict(
        decision=gate_decision(passed, total, threshold=threshold, confidence=confidence),
        passed=passed,
        total=total,
        threshold=threshold,
        confidence=confidence,
        lower=exact_lower_bound(passed, total, confidence=confidence),
        upper=exact_upper_bound(passed, total, confidence=confidence),
        clean_trials_needed=clean_trials_needed(threshold, confidence=confidence),
        more_clean_to_pass=_more_clean_to_pass(total - passed, total, threshold, 1.0 - confidence),
        more_failed_to_fail=_more_failed_to_fail(passed, total, threshold, 1.0 - confidence),
    )


def gate_decision(passed: int, total: int, *, threshold: float, confidence: float = 0.95) -> GateDecision:
    """Pass when the exact lower bound reaches the threshold, fail when the upper one is below it."""
    require_counts(passed, total)
    _require(threshold, confidence)
    if _certifies(total - passed, total, threshold, 1.0 - confidence):
        return "pass"
    if _refutes(passed, total, threshold, 1.0 - confidence):
        return "fail"
    return "inconclusive"


def clean_trials_needed(threshold: float, *, confidence: float = 0.95) -> int | None:
    """The fewest trials that, all passing, pass the gate: 29 for 0.9; None for 1.0, since no number does."""
    _require(threshold, confidence)
    if threshold <= 0.0:
        return 1
    if threshold >= 1.0:
        return None
    return max(1, math.ceil(math.log(1.0 - confidence) / math.log(threshold) - ROUNDING))


# The bounds are compared through the tail chances they invert: the same answer, without searching for the bound.
def _certifies(failed: int, total: int, threshold: float, alpha: float) -> bool:
    if threshold <= 0.0:
        return total > 0
    return reaches(binomial_at_least(total - failed, total, threshold), alpha)


def _refutes(passed: int, total: int, threshold: float, alpha: float) -> bool:
    return binomial_at_most(passed, total, threshold) < alpha * (1.0 - ROUNDING)


def _more_clean_to_pass(failed: int, total: int, threshold: float, alpha: float) -> int | None:
    return _first(lambda more: _certifies(failed, total + more, threshold, alpha), start=0)


def _more_failed_to_fail(passed: int, total: int, threshold: float, alpha: float) -> int | None:
    return _first(lambda more: _refutes(passed, total + more, threshold, alpha), start=0)


def _first(holds: Callable[[int], bool], *, start: int) -> int | None:
    """The first number for which a monotone condition holds; None if there is none."""
    if holds(start):
        return start
    reach = 1
    while not holds(start + reach):
        reach *= 2
        if reach > _FOREVER:
            return None
    low, high = start + reach // 2, start + reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _require(threshold: float, confidence: float) -> None:
    require_rate("threshold", threshold)
    require_open_rate("confidence", confidence)


def pass_at_k(passed: int, total: int, *, k: int) -> float | None:
    """The probability that at least one of k trials passes (Chen et al. 2021); None if fewer than k ran."""
    require_counts(passed, total)
    require_positive("k", k)
    if k > total:
        return None
    ways = comb(total, k)
    return (ways - comb(total - passed, k)) / ways


def pass_hat_k(passed: int, total: int, *, k: int) -> float | None:
    """The probability that all of k trials pass (Yao et al. 2024); None if fewer than k ran."""
    require_counts(passed, total)
    require_positive("k", k)
    if k > total:
        return None
    return comb(passed, k) / comb(total, k)


def pass_at_k_interval(passed: int, total: int, *, k: int, confidence: float = 0.95) -> Interval:
    """Bounds of pass@k from the exact bounds of the pass rate; (0, 1) if nothing ran."""
    require_positive("k", k)
    low, high = clopper_pearson_interval(passed, total, confidence=confidence)
    return 1.0 - (1.0 - low) ** k, 1.0 - (1.0 - high) ** k


def pass_hat_k_interval(passed: int, total: int, *, k: int, confidence: float = 0.95) -> Interval:
    """Bounds of pass^k from the exact bounds of the pass rate; (0, 1) if nothing ran."""
    require_positive("k", k)
    low, high = clopper_pearson_interval(passed, total, confidence=confidence)
    return low**k, high**k


def failures_allowed(total: int, *, threshold: float, confidence: float = 0.95) -> int | None:
    """Most failures in this many trials that still certify the threshold; None when even no failure does."""
    require_counts(0, total)
    _require(threshold, confidence)
    alpha = 1.0 - confidence
    if not _certifies(0, total, threshold, alpha):
        return None
    too_many = _first(lambda failed: failed > total or not _certifies(failed, total, threshold, alpha), start=1)
    return None if too_many is None else too_many - 1


def suite_pass_at_k(scenarios: Sequence[tuple[int, int]], *, k: int) -> float | None:
    """The mean pass@k over scenarios given as (passed, total); None when one of them has fewer than k trials."""
    return _mean_over(scenarios, lambda passed, total: pass_at_k(passed, total, k=k))


def suite_pass_hat_k(scenarios: Sequence[tuple[int, int]], *, k: int) -> float | None:
    """The mean pass^k over scenarios given as (passed, total); None when one of them has fewer than k trials."""
    return _mean_over(scenarios, lambda passed, total: pass_hat_k(passed, total, k=k))


def _mean_over(scenarios: Sequence[tuple[int, int]], measure: Callable[[int, int], float | None]) -> float | None:
    values = [measure(passed, total) for passed, total in scenarios]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(known) / len(known)


def majority_rate(rate: float, votes: int, *, correlation: float = 0.0) -> float:
    """How often a majority is right when each vote is right with this rate.

    Repeated calls of one model are correlated, so asking again helps less than it seems; `correlation` is the
    intraclass one, 0 for independent votes.
    """
    require_rate("rate", rate)
    require_rate("correlation", correlation)
    require_positive("votes", votes)
    need = votes // 2 + 1
    if rate in (0.0, 1.0) or correlation == 1.0:
        return rate
    if correlation == 0.0:
        return binomial_at_least(need, votes, rate)
    weight = (1.0 - correlation) / correlation
    a, b = rate * weight, (1.0 - rate) * weight
    return math.fsum(
        math.comb(votes, right) * math.exp(log_beta(right + a, votes - right + b) - log_beta(a, b))
        for right in range(need, votes + 1)
    )

"""The gate decides only with proof, and says what proof it lacks."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

from seatrial.errors import UsageError
from seatrial.statistics.gates import clean_trials_needed, failures_allowed, gate_decision, gate_verdict
from seatrial.statistics.intervals import exact_lower_bound, exact_upper_bound

quick = settings(max_examples=80, deadline=None, derandomize=True, database=None)
thresholds = some.sampled_from([0.05, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99])
counts = some.integers(0, 300).flatmap(lambda total: some.tuples(some.integers(0, total), some.just(total)))


def test_five_clean_trials_of_29_needed_leave_24_to_run() -> None:
    verdict = gate_verdict(5, 5, threshold=0.9)
    assert verdict.decision == "inconclusive"
    assert (verdict.clean_trials_needed, verdict.more_clean_to_pass, verdict.more_failed_to_fail) == (29, 24, 3)


@given(count=counts, threshold=thresholds, confidence=some.sampled_from([0.8, 0.95, 0.99]))
@quick
def test_the_decision_is_that_of_the_exact_bounds(count: tuple[int, int], threshold: float, confidence: float) -> None:
    passed, total = count
    verdict = gate_verdict(passed, total, threshold=threshold, confidence=confidence)
    assert verdict.lower == exact_lower_bound(passed, total, confidence=confidence)
    assert verdict.upper == exact_upper_bound(passed, total, confidence=confidence)
    expected = "inconclusive"
    if verdict.lower >= threshold:
        expected = "pass"
    elif verdict.upper < threshold:
        expected = "fail"
    assert verdict.decision == expected


@given(count=counts, threshold=thresholds)
@quick
def test_the_missing_trials_decide_and_one_fewer_does_not(count: tuple[int, int], threshold: float) -> None:
    passed, total = count
    verdict = gate_verdict(passed, total, threshold=threshold)
    clean, failed = verdict.more_clean_to_pass, verdict.more_failed_to_fail
    assert clean is not None
    assert failed is not None
    assert gate_decision(passed + clean, total + clean, threshold=threshold) == "pass"
    assert gate_decision(passed, total + failed, threshold=threshold) == "fail"
    if clean:
        assert gate_decision(passed + clean - 1, total + clean - 1, threshold=threshold) != "pass"
    if failed:
        assert gate_decision(passed, total + failed - 1, threshold=threshold) != "fail"


@pytest.mark.parametrize("threshold", [0.01, 0.5, 0.7, 0.9, 0.97, 0.999])
@pytest.mark.parametrize("total", [5, 30, 75])
def test_a_wrong_verdict_is_no_likelier_than_promised(threshold: float, total: int) -> None:
    def chance(decision: str, rate: float) -> float:
        return math.fsum(
            stats.binom.pmf(passed, total, rate)
            for passed in range(total + 1)
            if gate_decision(passed, total, threshold=threshold) == decision
        )

    assert chance("pass", threshold - 1e-9) <= 0.05
    assert chance("fail", threshold) <= 0.05


def test_nothing_ran_decides_nothing() -> None:
    for threshold in (0.0, 0.5, 1.0):
        assert gate_decision(0, 0, threshold=threshold) == "inconclusive"
    assert gate_verdict(0, 0, threshold=0.9).more_clean_to_pass == 29


def test_a_threshold_of_one_is_refuted_by_one_failure_and_never_certified() -> None:
    clean = gate_verdict(1000, 1000, threshold=1.0)
    assert (clean.decision, clean.clean_trials_needed, clean.more_clean_to_pass) == ("inconclusive", None, None)
    assert clean.more_failed_to_fail == 1
    assert gate_decision(999, 1000, threshold=1.0) == "fail"
    assert failures_allowed(1000, threshold=1.0) is None


def test_a_threshold_of_zero_is_reached_by_any_trial_and_never_refuted() -> None:
    verdict = gate_verdict(0, 1, threshold=0.0)
    assert (verdict.decision, verdict.clean_trials_needed, verdict.more_failed_to_fail) == ("pass", 1, None)


def test_a_chance_that_meets_the_limit_exactly_passes() -> None:
    assert gate_decision(2, 2, threshold=0.5, confidence=0.75) == "pass"
    assert clean_trials_needed(0.5, confidence=0.75) == 2


@given(threshold=thresholds, confidence=some.sampled_from([0.6, 0.9, 0.95, 0.999]))
@quick
def test_the_clean_trials_needed_pass_and_one_fewer_does_not(threshold: float, confidence: float) -> None:
    needed = clean_trials_needed(threshold, confidence=confidence)
    assert needed is not None
    assert gate_decision(needed, needed, threshold=threshold, confidence=confidence) == "pass"
    fewer = needed - 1
    assert gate_decision(fewer, fewer, threshold=threshold, confidence=confidence) == "inconclusive"


@pytest.mark.parametrize("total", [1, 28, 29, 100, 100_000])
def test_the_failures_allowed_pass_and_one_more_does_not(total: int) -> None:
    allowed = failures_allowed(total, threshold=0.9)
    if allowed is None:
        assert gate_decision(total, total, threshold=0.9) == "inconclusive"
    else:
        assert gate_decision(total - allowed, total, threshold=0.9) == "pass"
        assert gate_decision(total - allowed - 1, total, threshold=0.9) != "pass"


def test_with_no_threshold_every_failure_is_allowed() -> None:
    assert failures_allowed(7, threshold=0.0) == 7


def test_a_percentage_in_place_of_a_share_is_refused_with_an_example() -> None:
    with pytest.raises(UsageError, match=r"threshold: 90 is not between 0 and 1. Give a share such as 0.9"):
        gate_verdict(1, 2, threshold=90)

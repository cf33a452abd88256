"""The calibrated pass rate: right whether labels are drawn at random or by the judge's verdict."""

import math
import random

import pytest

from seatrial.errors import UsageError
from seatrial.statistics.agreement import (
    CalibratedRate,
    ConfusionTable,
    JudgedTrials,
    allocate_labels,
    calibrate_rate,
    decide_calibrated,
    draw_labels,
    judge_agreement,
)


def judged(
    passed: int, failed: int, *, of_passed: tuple[int, int] = (0, 0), of_failed: tuple[int, int] = (0, 0)
) -> JudgedTrials:
    """Labels as (human passed, labelled), of the trials that the judge passed and failed."""
    labels = ConfusionTable(
        seen_passes=of_passed[0],
        missed_failures=of_passed[1] - of_passed[0],
        missed_passes=of_failed[0],
        seen_failures=of_failed[1] - of_failed[0],
    )
    return JudgedTrials(passed=passed, failed=failed, labels=labels)


def test_the_estimate_weighs_each_verdict_by_its_trials() -> None:
    found = calibrate_rate(judged(400, 100, of_passed=(45, 50), of_failed=(10, 50)))
    assert found.usable
    assert found.raw == 0.8
    assert found.estimate == pytest.approx(0.8 * 0.9 + 0.2 * 0.2)
    q1, q0 = 46 / 52, 11 / 52
    variance = 0.64 * q1 * (1 - q1) / 52 + 0.04 * q0 * (1 - q0) / 52 + 0.7**2 * 0.16 / 500
    assert found.standard_error == pytest.approx(math.sqrt(variance))
    assert found.interval == pytest.approx(
        (0.76 - 1.959964 * math.sqrt(variance), 0.76 + 1.959964 * math.sqrt(variance)), abs=1e-6
    )
    assert found.true_pass_rate == pytest.approx(0.72 / 0.76)
    assert found.true_fail_rate == pytest.approx(0.16 / 0.24)
    assert found.warnings == ()


def test_agreement_is_that_of_all_trials_however_many_labels_each_verdict_has() -> None:
    every = judged(434, 66, of_passed=(423, 434), of_failed=(22, 66))
    truth, raw = calibrate_rate(every), judge_agreement(every.labels)
    assert (truth.accuracy, truth.kappa) == (pytest.approx(raw.accuracy), pytest.approx(raw.kappa))
    some_labels = calibrate_rate(judged(434, 66, of_passed=(39, 40), of_failed=(20, 60)))
    assert some_labels.kappa == pytest.approx(truth.kappa, abs=0.01)
    assert some_labels.true_pass_rate == pytest.approx(truth.true_pass_rate, abs=0.01)
    for name in ("true_pass", "true_fail"):
        low, high = getattr(some_labels, f"{name}_interval")
        assert low < getattr(truth, f"{name}_rate") < high
    low, high = some_labels.kappa_interval or (0.0, 0.0)
    assert low < truth.kappa < high


def test_agreement_of_few_labels_is_never_certain() -> None:
    found = calibrate_rate(judged(95, 5, of_passed=(19, 19), of_failed=(0, 1)))
    assert (found.accuracy, found.kappa, found.true_fail_rate) == (1.0, pytest.approx(1.0), 1.0)
    for low, high in (found.kappa_interval, found.true_pass_interval, found.true_fail_interval):
        assert high - low > 0.05
    assert calibrate_rate(judged(95, 5, of_passed=(19, 19))).kappa_interval is None


def test_labels_of_all_trials_leave_no_error_for_these_trials() -> None:
    found = calibrate_rate(judged(40, 10, of_passed=(36, 40), of_failed=(2, 10)), these_trials=True)
    assert (found.estimate, found.standard_error) == (pytest.approx(0.76), 0.0)


def test_a_verdict_without_labels_gives_bounds_and_no_estimate() -> None:
    found = calibrate_rate(judged(80, 20, of_passed=(18, 20)))
    assert (found.usable, found.estimate, found.interval) == (False, None, None)
    assert found.bounds == pytest.approx((0.72, 0.92))
    assert found.warnings == ("only 0 of the 20 trials that the judge failed have a label; label at least 5",)


def test_few_labels_of_a_verdict_warn() -> None:
    found = calibrate_rate(judged(80, 20, of_passed=(18, 20), of_failed=(1, 4)))
    assert found.usable
    assert found.warnings == ("only 4 of the 20 trials that the judge failed have a label; label at least 5",)


def test_a_verdict_that_the_judge_never_gave_needs_no_labels() -> None:
    found = calibrate_rate(judged(50, 0, of_passed=(9, 10)))
    assert (found.usable, found.estimate, found.true_pass_rate) == (True, 0.9, 1.0)
    assert found.true_fail_rate == 0.0
    assert calibrate_rate(judged(50, 0, of_passed=(10, 10))).true_fail_rate is None


def test_nothing_judged_says_nothing() -> None:
    found = calibrate_rate(judged(0, 0))
    assert (found.usable, found.raw, found.bounds) == (False, None, (0.0, 1.0))


def test_more_labels_than_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="5 passed of 4"):
        judged(4, 10, of_passed=(5, 5))


def coverage(by_verdict: bool) -> float:
    """Of 300 simulated runs of 500 trials with 50 labels: how often the interval contains the true rate."""
    rng = random.Random(7)
    covered = 0
    for _ in range(300):
        trials = []
        for _ in range(500):
            human = rng.random() < 0.9
            trials.append((human, rng.random() < (0.95 if human else 0.2)))
        groups = [[human for human, judge in trials if judge is verdict] for verdict in (True, False)]
        if by_verdict:
            labelled = [rng.sample(group, min(25, len(group))) for group in groups]
        else:
            picked = rng.sample(trials, 50)
            labelled = [[human for human, judge in picked if judge is verdict] for verdict in (True, False)]
        found = calibrate_rate(
            judged(
                len(groups[0]),
                len(groups[1]),
                of_passed=(sum(labelled[0]), len(labelled[0])),
                of_failed=(sum(labelled[1]), len(labelled[1])),
            )
        )
        covered += found.interval is not None and found.interval[0] <= 0.9 <= found.interval[1]
    return covered / 300


@pytest.mark.parametrize("by_verdict", [True, False])
def test_the_interval_covers_the_true_rate_however_labels_are_chosen(by_verdict: bool) -> None:
    assert coverage(by_verdict) >= 0.92


def rate(estimate: float, error: float) -> CalibratedRate:
    return CalibratedRate(
        usable=True,
        raw=0.9,
        estimate=estimate,
        standard_error=error,
        interval=None,
        bounds=(0.0, 1.0),
        true_pass_rate=None,
        true_fail_rate=None,
        warnings=(),
    )


@pytest.mark.parametrize(
    ("estimate", "error", "decision"),
    [(0.95, 0.02, "pass"), (0.95, 0.04, "inconclusive"), (0.85, 0.02, "fail"), (0.9, 0.0, "pass")],
)
def test_the_gate_needs_the_bound_and_not_the_estimate(estimate: float, error: float, decision: str) -> None:
    assert decide_calibrated(rate(estimate, error), pass_rate=0.9) == decision


def test_the_gate_never_passes_without_labels() -> None:
    assert decide_calibrated(calibrate_rate(judged(100, 0)), pass_rate=0.1) == "inconclusive"
    assert decide_calibrated(calibrate_rate(judged(0, 0)), pass_rate=0.0) == "inconclusive"
    low = calibrate_rate(judged(50, 50, of_failed=(0, 20)))
    assert decide_calibrated(low, pass_rate=0.9) == "fail"
    with pytest.raises(UsageError, match="pass_rate"):
        decide_calibrated(low, pass_rate=90)


def test_the_next_labels_go_where_they_help_most_and_ten_to_each_verdict() -> None:
    assert allocate_labels(judged(400, 100), 20) == (10, 10)
    passed, failed = allocate_labels(judged(400, 100, of_passed=(10, 10), of_failed=(5, 10)), 20)
    assert passed + failed == 20
    assert passed > 0
    assert failed > 0
    assert allocate_labels(judged(400, 100, of_passed=(30, 60), of_failed=(1, 2)), 8) == (0, 8)


def test_no_more_labels_are_asked_for_than_there_are_trials() -> None:
    assert allocate_labels(judged(3, 2), 20) == (3, 2)
    assert allocate_labels(judged(100, 2, of_failed=(1, 2)), 20) == (20, 0)
    assert allocate_labels(judged(0, 0), 20) == (0, 0)


def test_a_seed_draws_the_same_trials_and_more_of_them_later() -> None:
    ids = [f"scenario-{number} trial-1" for number in range(50)]
    first = draw_labels(ids, 10, seed=4)
    assert draw_labels(list(reversed(ids)), 10, seed=4) == first
    assert draw_labels(ids, 20, seed=4)[:10] == first
    assert draw_labels(ids, 10, seed=5) != first
    assert len(set(draw_labels(ids, 80, seed=1))) == 50

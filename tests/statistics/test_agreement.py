"""Agreement between a judge and a human against statsmodels, and what happens when labels say nothing."""

import random

import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from seatrial.statistics.agreement import ConfusionTable, confusion_table, corrected_rate, judge_agreement


def a_table(tp: int, fn: int, fp: int, tn: int) -> ConfusionTable:
    return ConfusionTable(seen_passes=tp, missed_passes=fn, missed_failures=fp, seen_failures=tn)


def some_tables(count: int, *, seed: int) -> list[tuple[int, int, int, int]]:
    draw = random.Random(seed)
    return [tuple(draw.randint(1, 60) for _ in range(4)) for _ in range(count)]


def test_labels_are_counted_where_they_belong() -> None:
    human = [True, True, True, False, False, False, False, True, True, False]
    judge = [True, True, True, False, False, False, True, False, False, False]
    assert confusion_table(human, judge) == a_table(3, 2, 1, 4)


def test_label_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 human labels but 1 of the judge"):
        confusion_table([True, False], [True])


def test_kappa_and_its_error_are_those_of_statsmodels() -> None:
    for tp, fn, fp, tn in some_tables(30, seed=1):
        expected = cohens_kappa([[tp, fn], [fp, tn]])
        result = judge_agreement(a_table(tp, fn, fp, tn))
        assert result.kappa == pytest.approx(expected.kappa, abs=1e-12)
        assert result.kappa_standard_error == pytest.approx(expected.std_kappa, rel=1e-9)


def test_a_perfect_judge_agrees_fully_in_every_number() -> None:
    result = judge_agreement(a_table(30, 0, 0, 20))
    numbers = (result.accuracy, result.true_pass_rate, result.true_fail_rate, result.balanced_accuracy)
    assert numbers == (1.0, 1.0, 1.0, 1.0)
    assert (result.kappa, result.gwet_ac1, result.correlation) == (1.0, 1.0, 1.0)
    assert result.kappa_interval == pytest.approx((0.8825, 1.0), abs=1e-4)


def test_the_interval_of_kappa_always_has_a_width_and_contains_kappa() -> None:
    for cells in ((19, 0, 0, 1), (1, 0, 0, 1), (0, 5, 5, 0), (20, 1, 0, 4), (3, 0, 2, 0)):
        result = judge_agreement(a_table(*cells))
        assert result.kappa is not None
        assert result.kappa_interval is not None
        low, high = result.kappa_interval
        assert -1.0 <= low <= result.kappa <= high <= 1.0
        assert high - low > 0.1


def test_the_interval_of_kappa_covers_the_true_value() -> None:
    rng = random.Random(1)
    chances = (0.855, 0.045, 0.02, 0.08)  # 90 % pass, TPR 0.95, TNR 0.8: kappa 0.675
    covered = 0
    for _ in range(400):
        drawn = rng.choices(range(4), chances, k=30)
        found = judge_agreement(a_table(*(drawn.count(cell) for cell in range(4)))).kappa_interval
        covered += found is not None and found[0] <= 0.675 <= found[1]
    assert covered >= 360


def test_a_judge_that_says_the_opposite_disagrees_fully() -> None:
    result = judge_agreement(a_table(0, 25, 25, 0))
    assert (result.kappa, result.gwet_ac1, result.correlation) == (-1.0, -1.0, -1.0)


def test_a_coin_agrees_no_more_than_chance() -> None:
    result = judge_agreement(a_table(20, 20, 10, 10))
    assert (result.kappa, result.correlation, result.balanced_accuracy) == (0.0, 0.0, 0.5)


def test_an_interval_of_kappa_stays_within_its_range() -> None:
    low, high = judge_agreement(a_table(10, 1, 0, 3), confidence=0.999).kappa_interval
    assert -1.0 <= low < high == 1.0


def test_labels_of_one_kind_leave_the_other_rate_unknown() -> None:
    result = judge_agreement(a_table(10, 0, 0, 0))
    assert (result.true_pass_rate, result.true_fail_rate, result.balanced_accuracy) == (1.0, None, None)
    assert result.true_fail_interval == (0.0, 1.0)
    assert (result.kappa, result.kappa_standard_error, result.kappa_interval, result.correlation) == (None,) * 4


def test_no_labels_say_nothing() -> None:
    result = judge_agreement(a_table(0, 0, 0, 0))
    assert (result.total, result.accuracy, result.kappa, result.gwet_ac1, result.correlation) == (0, *(None,) * 4)


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="need 0 <= passed <= total"):
        a_table(-1, 5, 0, 0)


def test_a_perfect_judge_needs_no_correction() -> None:
    result = corrected_rate(30, 40, calibration=a_table(500, 0, 0, 500))
    assert (result.estimate, result.raw, result.youden) == (0.75, 0.75, 1.0)
    assert result.interval[0] < 0.75 < result.interval[1]


def test_the_correction_undoes_what_a_flawed_judge_does() -> None:
    for rate in (0.2, 0.5, 0.9):
        judged = round(10_000 * (rate * 0.9 + (1 - rate) * 0.2))
        result = corrected_rate(judged, 10_000, calibration=a_table(90, 10, 20, 80))
        assert result.estimate == pytest.approx(rate, abs=1e-3)


def test_the_interval_of_a_corrected_rate_holds_the_truth_as_often_as_promised() -> None:
    draw = random.Random(4)
    truth, sees_pass, sees_failure = 0.7, 0.9, 0.8
    held = 0
    for _ in range(400):
        judged = sum(draw.random() < truth * sees_pass + (1 - truth) * (1 - sees_failure) for _ in range(150))
        tp = sum(draw.random() < sees_pass for _ in range(50))
        tn = sum(draw.random() < sees_failure for _ in range(50))
        low, high = corrected_rate(judged, 150, calibration=a_table(tp, 50 - tp, 50 - tn, tn)).interval
        held += low <= truth <= high
    assert 0.92 <= held / 400 <= 0.995


@pytest.mark.parametrize("calibration", [a_table(28, 22, 28, 22), a_table(5, 5, 9, 1), a_table(0, 10, 10, 0)])
def test_a_judge_no_better_than_a_coin_corrects_nothing(calibration: ConfusionTable) -> None:
    result = corrected_rate(60, 100, calibration=calibration)
    assert (result.usable, result.raw, result.estimate, result.interval) == (False, 0.6, None, None)
    assert result.youden <= 1e-12


def test_a_judge_barely_better_than_a_coin_by_few_labels_corrects_nothing() -> None:
    result = corrected_rate(60, 100, calibration=a_table(1, 0, 51, 49))
    assert result.youden == pytest.approx(0.49)
    assert result.usable
    weak = corrected_rate(60, 100, calibration=a_table(1, 0, 97, 3))
    assert weak.youden > 0
    assert not weak.usable


@pytest.mark.parametrize("calibration", [a_table(0, 0, 5, 45), a_table(45, 5, 0, 0), a_table(0, 0, 0, 0)])
def test_calibration_without_passes_or_failures_corrects_nothing(calibration: ConfusionTable) -> None:
    result = corrected_rate(60, 100, calibration=calibration)
    assert (result.usable, result.youden, result.estimate) == (False, None, None)


def test_nothing_judged_corrects_to_nothing() -> None:
    result = corrected_rate(0, 0, calibration=a_table(45, 5, 5, 45))
    assert (result.usable, result.raw, result.estimate) == (False, None, None)

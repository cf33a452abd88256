import pytest

from seatrial.errors import UsageError
from seatrial.judges.labels import calibrate
from seatrial.statistics.agreement import JudgedTrials

PAIRS = [(True, True)] * 45 + [(True, False)] * 5 + [(False, True)] * 8 + [(False, False)] * 42


def test_human_labels_give_the_judges_rates_and_kappa() -> None:
    found = calibrate(PAIRS)
    assert found.agreement.true_pass_rate == 0.9
    assert found.agreement.true_fail_rate == 0.84
    assert found.agreement.kappa == pytest.approx(0.74)
    assert found.corrected is None


def test_the_pass_rate_of_other_trials_is_corrected_by_them() -> None:
    table = calibrate(PAIRS).table
    corrected = calibrate(PAIRS, judged=JudgedTrials(passed=160, failed=60, labels=table)).corrected
    assert corrected is not None
    assert corrected.estimate == pytest.approx(160 / 220 * 45 / 53 + 60 / 220 * 5 / 47)


def test_without_labels_nothing_can_be_said() -> None:
    with pytest.raises(UsageError, match="no labelled trial"):
        calibrate([])

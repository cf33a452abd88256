"""Agreement of a judge with human labels, and the pass rate corrected for the judge's errors.

Accuracy hides a judge that never finds a failure. Therefore results give two rates: how often the judge passes what
the human passed, and how often it fails what the human failed.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .distributions import ROUNDING, require_counts, require_open_rate, two_sided_z
from .intervals import Interval, wilson_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfusionTable:
    """Counts of human and judge labels of the same trials; the human label is the truth."""

    seen_passes: int
    """Human passed, judge passed (true positives)."""
    missed_passes: int
    """Human passed, judge failed (false negatives)."""
    missed_failures: int
    """Human failed, judge passed (false positives)."""
    seen_failures: int
    """Human failed, judge failed (true negatives)."""

    def __post_init__(self) -> None:
        require_counts(self.seen_passes, self.passes)
        require_counts(self.seen_failures, self.failures)

    @property
    def passes(self) -> int:
        """Trials that the human passed."""
        return self.seen_passes + self.missed_passes

    @property
    def failures(self) -> int:
        """Trials that the human failed."""
        return self.seen_failures + self.missed_failures

    @property
    def total(self) -> int:
        """All labelled trials."""
        return self.passes + self.failures


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgreement:
    """Agreement of a judge with human labels. Numbers that the labels do not determine are None."""

    total: int
    accuracy: float | None
    true_pass_rate: float | None
    """TPR: how often the judge passes what the human passed."""
    true_pass_interval: Interval
    true_fail_rate: float | None
    """TNR: how often the judge fails what the human failed."""
    true_fail_interval: Interval
    balanced_accuracy: float | None
    kappa: float | None
    """Agreement beyond chance (Cohen)."""
    kappa_standard_error: float | None
    """The large-sample error, which is 0 for perfect agreement. The interval does not use it."""
    kappa_interval: Interval | None
    """With 0.5 added to each count, so that its width is never 0. Simulated coverage 0.94 to 0.98 from 20 labels on."""
    gwet_ac1: float | None
    """Agreement beyond chance (Gwet), stable when nearly all labels are equal."""
    correlation: float | None
    """The Matthews correlation coefficient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedRate:
    """A judge's pass rate corrected for its errors (Rogan and Gladen)."""

    usable: bool
    """False if the judge is no better than chance, or the labels lack passes or failures."""
    raw: float | None
    """The judge's own pass rate; None when it judged nothing."""
    estimate: float | None
    unclipped: float | None
    """The estimate before clipping to 0..1. Far outside: the labels do not represent these trials."""
    youden: float | None
    """TPR + TNR - 1. The judge shrinks every difference by this factor."""
    interval: Interval | None
    """Bounds by Lang and Reiczigel (2014), which include the uncertainty of the labels."""


def confusion_table(human: Sequence[bool], judge: Sequence[bool]) -> ConfusionTable:
    """The counts for two lists of labels of the same trials."""
    if len(human) != len(judge):
        raise ValueError(f"{len(human)} human labels but {len(judge)} of the judge. Give both for the same trials.")
    seen = Counter(zip(map(bool, human), map(bool, judge), strict=True))
    return ConfusionTable(
        seen_passes=seen[True, True],
        missed_passes=seen[True, False],
        missed_failures=seen[False, True],
        seen_failures=seen[False, False],
    )


def judge_agreement(table: ConfusionTable, *, confidence: float = 0.95) -> JudgeAgreement:
    """The usual measures of agreement between a judge and a human, with intervals."""
    require_open_rate("confidence", confidence)
    pass_rate = _share(table.seen_passes, table.passes)
    fail_rate = _share(table.seen_failures, table.failures)
    kappa = _kappa(table)
    error = None if kappa is None else _kappa_error(table, kappa)
    return JudgeAgreement(
        total=table.total,
        accuracy=_share(table.seen_passes + table.seen_failures, table.total),
        true_pass_rate=pass_rate,
        true_pass_interval=wilson_interval(table.seen_passes, table.passes, confidence=confidence),
        true_fail_rate=fail_rate,
        true_fail_interval=wilson_interval(table.seen_failures, table.failures, confidence=confidence),
        balanced_accuracy=None if pass_rate is None or fail_rate is None else (pass_rate + fail_rate) / 2.0,
        kappa=kappa,
        kappa_standard_error=error,
        kappa_interval=None if kappa is None else _kappa_interval(table, kappa, two_sided_z(confidence)),
        gwet_ac1=_gwet_ac1(table),
        correlation=_correlation(table),
    )


def corrected_rate(passed: int, total: int, *, calibration: ConfusionTable, confidence: float = 0.95) -> CorrectedRate:
    """The pass rate corrected for the judge's errors."""
    require_counts(passed, total)
    require_open_rate("confidence", confidence)
    raw = _share(passed, total)
    sees_pass = _share(calibration.seen_passes, calibration.passes)
    sees_failure = _share(calibration.seen_failures, calibration.failures)
    youden = None if sees_pass is None or sees_failure is None else sees_pass + sees_failure - 1.0
    interval = _lang_reiczigel(passed, total, calibration, two_sided_z(confidence))
    if raw is None or sees_failure is None or youden is None or youden <= ROUNDING or interval is None:
        return CorrectedRate(usable=False, raw=raw, estimate=None, unclipped=None, youden=youden, interval=None)
    unclipped = (raw + sees_failure - 1.0) / youden
    return CorrectedRate(
        usable=True,
        raw=raw,
        estimate=_clip(unclipped),
        unclipped=unclipped,
        youden=youden,
        interval=interval,
    )


def _lang_reiczigel(passed: int, total: int, calibration: ConfusionTable, z: float) -> Interval | None:
    """Adjusted rates, then the delta method; None if the adjusted judge is no better than chance."""
    square = z * z
    trials, passes, failures = total + square, calibration.passes + 2, calibration.failures + 2
    rate = (passed + square / 2.0) / trials
    sees_pass, sees_failure = (calibration.seen_passes + 1) / passes, (calibration.seen_failures + 1) / failures
    youden = sees_pass + sees_failure - 1.0
    if youden <= ROUNDING:
        return None
    middle = (rate + sees_failure - 1.0) / youden
    pass_noise = sees_pass * (1.0 - sees_pass) / passes
    fail_noise = sees_failure * (1.0 - sees_failure) / failures
    shift = 2.0 * square * (middle * pass_noise - (1.0 - middle) * fail_noise)
    noise = rate * (1.0 - rate) / trials + middle**2 * pass_noise + (1.0 - middle) ** 2 * fail_noise
    half = z * math.sqrt(noise) / youden
    return _clip(middle + shift - half), _clip(middle + shift + half)


def _kappa(table: ConfusionTable, *, added: float = 0.0) -> float | None:
    """Cohen's kappa with `added` in each cell; in integers until the last division without it."""
    total, passes, failures = table.total + 4 * added, table.passes + 2 * added, table.failures + 2 * added
    judged = table.seen_passes + table.missed_failures + 2 * added
    by_chance = passes * judged + failures * (total - judged)
    agreed = (table.seen_passes + table.seen_failures + 2 * added) * total
    return (agreed - by_chance) / (total**2 - by_chance) if total**2 != by_chance else None


def _kappa_interval(table: ConfusionTable, kappa: float, z: float) -> Interval:
    """Around the kappa of the counts with 0.5 added to each; it contains the kappa of the counts."""
    middle = _kappa(table, added=0.5)
    assert middle is not None
    reach = z * _kappa_error(table, middle, added=0.5)
    return max(-1.0, min(kappa, middle - reach)), min(1.0, max(kappa, middle + reach))


def _kappa_error(table: ConfusionTable, kappa: float, *, added: float = 0.0) -> float:
    """The large-sample standard error (Fleiss, Cohen and Everitt 1969)."""
    total = table.total + 4 * added
    cells = (
        ((table.seen_passes + added) / total, (table.missed_passes + added) / total),
        ((table.missed_failures + added) / total, (table.seen_failures + added) / total),
    )
    human = [sum(row) for row in cells]
    judge = [sum(column) for column in zip(*cells, strict=True)]
    by_chance = human[0] * judge[0] + human[1] * judge[1]
    agreed = sum(cells[i][i] * (1.0 - (human[i] + judge[i]) * (1.0 - kappa)) ** 2 for i in (0, 1))
    differed = sum(cells[i][1 - i] * (judge[i] + human[1 - i]) ** 2 for i in (0, 1)) * (1.0 - kappa) ** 2
    squares = agreed + differed - (kappa - by_chance * (1.0 - kappa)) ** 2
    return math.sqrt(max(0.0, squares) / total) / (1.0 - by_chance)


def _gwet_ac1(table: ConfusionTable) -> float | None:
    if not table.total:
        return None
    share = (table.passes + table.seen_passes + table.missed_failures) / (2 * table.total)
    by_chance = 2.0 * share * (1.0 - share)
    return ((table.seen_passes + table.seen_failures) / table.total - by_chance) / (1.0 - by_chance)


def _correlation(table: ConfusionTable) -> float | None:
    judged = table.seen_passes + table.missed_failures
    scale = judged * (table.total - judged) * table.passes * table.failures
    right = table.seen_passes * table.seen_failures - table.missed_passes * table.missed_failures
    return right / math.sqrt(scale) if scale else None


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))

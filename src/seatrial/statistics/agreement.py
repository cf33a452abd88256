"""How well a judge agrees with human labels, and the pass rate corrected by them.

`judge_agreement`: accuracy hides a judge that never finds a failure, so there are two rates: how often the judge passes
what the human passed, and how often it fails what the human failed.

`calibrate_rate`: the pass rate that humans would give, from the judge's verdicts of all trials and labels of some
(post-stratification; Begg and Greenes 1983). Within each verdict of the judge, the labels estimate the share that a
human passes. Labels must be drawn at random within each verdict; how many each verdict gets does not matter.
`allocate_labels` and `draw_labels` choose the next trials to label. Simulated coverage of the 95 % interval is 0.93 or
more from 50 labels on (benchmarks/gate.py). `corrected_rate` (TPR and TNR) needs two to three times as many labels.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

from .distributions import ROUNDING, normal_quantile, require_counts, require_open_rate, require_rate, two_sided_z
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


FEWEST_LABELS = 5
"""Fewer labels of one verdict give a warning."""
_LABELS_EACH = 10
GateDecision: TypeAlias = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTrials:
    """The trials of one judge: all of them by verdict, and the labelled ones among them."""

    passed: int
    """Trials that the judge passed, labelled or not."""
    failed: int
    labels: ConfusionTable

    def __post_init__(self) -> None:
        for verdict in self.verdicts:
            require_counts(verdict.labelled, verdict.total)

    @property
    def total(self) -> int:
        return self.passed + self.failed

    @property
    def verdicts(self) -> "tuple[Verdict, Verdict]":
        """The trials that the judge passed, and those that it failed."""
        labels = self.labels
        return (
            Verdict(
                total=self.passed,
                labelled=labels.seen_passes + labels.missed_failures,
                human_passed=labels.seen_passes,
                share=self.passed / self.total if self.total else 0.0,
            ),
            Verdict(
                total=self.failed,
                labelled=labels.missed_passes + labels.seen_failures,
                human_passed=labels.missed_passes,
                share=self.failed / self.total if self.total else 0.0,
            ),
        )

    @property
    def cells(self) -> "Cells":
        """The table of all trials: within each verdict, the labels say which share a human passes."""
        passed, failed = self.verdicts
        return Cells(judge_passed=passed.share, right_passes=passed.rate(0.0), wrong_failures=failed.rate(0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """The confusion table as shares of all trials."""

    judge_passed: float
    """The share of trials that the judge passes."""
    right_passes: float
    """The share of these that a human passes."""
    wrong_failures: float
    """The share of the trials that the judge fails and a human passes."""

    @property
    def seen_passes(self) -> float:
        return self.judge_passed * self.right_passes

    @property
    def seen_failures(self) -> float:
        return (1.0 - self.judge_passed) * (1.0 - self.wrong_failures)

    @property
    def human_passed(self) -> float:
        return self.seen_passes + (1.0 - self.judge_passed) * self.wrong_failures

    @property
    def true_pass_rate(self) -> float | None:
        return self.seen_passes / self.human_passed if self.human_passed > 0.0 else None

    @property
    def true_fail_rate(self) -> float | None:
        return self.seen_failures / (1.0 - self.human_passed) if self.human_passed < 1.0 else None

    @property
    def accuracy(self) -> float:
        return self.seen_passes + self.seen_failures

    @property
    def kappa(self) -> float | None:
        by_chance = self.judge_passed * self.human_passed + (1.0 - self.judge_passed) * (1.0 - self.human_passed)
        return (self.accuracy - by_chance) / (1.0 - by_chance) if by_chance < 1.0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The trials with one verdict of the judge."""

    total: int
    labelled: int
    human_passed: int
    """Labelled trials that the human passed."""
    share: float
    """Of all trials."""

    @property
    def smoothed(self) -> float:
        """The share that a human passes, drawn towards one half: never 0 or 1."""
        return (self.human_passed + 1) / (self.labelled + 2)

    def rate(self, unknown: float) -> float:
        """The share of the labelled trials that a human passed; `unknown` without labels."""
        return self.human_passed / self.labelled if self.labelled else unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedRate:
    """The pass rate of the human, estimated; numbers that the labels do not determine are None."""

    usable: bool
    """False if the judge gave a verdict of which no trial is labelled, or judged nothing."""
    raw: float | None
    """The judge's pass rate."""
    estimate: float | None
    standard_error: float | None
    interval: Interval | None
    bounds: Interval
    """The estimate if the human failed, and passed, every trial of a verdict without labels."""
    true_pass_rate: float | None
    """TPR: how often the judge passes what the human passes; also right if labels were chosen by verdict."""
    true_fail_rate: float | None
    """TNR: how often the judge fails what the human fails."""
    warnings: tuple[str, ...]
    true_pass_interval: Interval | None = None
    true_fail_interval: Interval | None = None
    accuracy: float | None = None
    """How often the judge and the human agree, over all trials."""
    kappa: float | None = None
    """Agreement beyond chance (Cohen), over all trials."""
    kappa_interval: Interval | None = None


def calibrate_rate(trials: JudgedTrials, *, confidence: float = 0.95, these_trials: bool = False) -> CalibratedRate:
    """The pass rate that humans would give. `these_trials`: of exactly these trials, not of the agent in general."""
    require_open_rate("confidence", confidence)
    low, high = (math.fsum(each.share * each.rate(unknown) for each in trials.verdicts) for unknown in (0.0, 1.0))
    present = [each for each in trials.verdicts if each.total]
    raw = trials.passed / trials.total if trials.total else None
    if not present or not all(each.labelled for each in present):
        return CalibratedRate(
            usable=False,
            raw=raw,
            estimate=None,
            standard_error=None,
            interval=None,
            bounds=(low, high) if present else (0.0, 1.0),
            true_pass_rate=None,
            true_fail_rate=None,
            warnings=tuple(_warnings(trials)),
        )
    error = math.sqrt(_variance(trials, these_trials))
    reach = two_sided_z(confidence) * error
    cells = trials.cells
    return CalibratedRate(
        usable=True,
        raw=raw,
        estimate=low,
        standard_error=error,
        interval=(max(0.0, low - reach), min(1.0, low + reach)),
        bounds=(low, high),
        true_pass_rate=cells.true_pass_rate,
        true_fail_rate=cells.true_fail_rate,
        warnings=tuple(_warnings(trials)),
        true_pass_interval=_corner_interval(trials, "true_pass_rate", confidence),
        true_fail_interval=_corner_interval(trials, "true_fail_rate", confidence),
        accuracy=cells.accuracy,
        kappa=cells.kappa,
        kappa_interval=_corner_interval(trials, "kappa", confidence),
    )


def _corner_interval(trials: JudgedTrials, name: str, confidence: float) -> Interval | None:
    """Bounds of a measure of agreement: its extremes over the bounds of the three shares that it depends on.

    Each share has a one-sided error of half the usual: simulated coverage is 0.91 to 0.99 from 20 labels on, for labels
    chosen at random and by verdict.
    """
    level = 2.0 * confidence - 1.0
    passed, failed = trials.verdicts
    shares = wilson_interval(passed.total, trials.total, confidence=level)
    seen, missed = (wilson_interval(one.human_passed, one.labelled, confidence=level) for one in (passed, failed))
    corners = (Cells(judge_passed=a, right_passes=b, wrong_failures=c) for a, b, c in product(shares, seen, missed))
    values = [value for each in corners if (value := getattr(each, name)) is not None]
    return (min(values), max(values)) if values else None


def _variance(trials: JudgedTrials, these_trials: bool) -> float:
    passed, failed = trials.verdicts
    total = 0.0
    for each in (passed, failed):
        part = each.share**2 * each.smoothed * (1.0 - each.smoothed) / (each.labelled + 2)
        total += part * (1.0 - each.labelled / each.total) if these_trials and each.total else part
    if these_trials:
        return total
    return total + (passed.rate(0.0) - failed.rate(0.0)) ** 2 * passed.share * failed.share / trials.total


def _warnings(trials: JudgedTrials) -> Iterable[str]:
    for each, word in zip(trials.verdicts, ("passed", "failed"), strict=True):
        if each.total and each.labelled < min(FEWEST_LABELS, each.total):
            some = f"{each.labelled} of the {each.total} trials that the judge {word}"
            yield f"only {some} have a label; label at least {min(FEWEST_LABELS, each.total)}"


def decide_calibrated(rate: CalibratedRate, *, pass_rate: float, confidence: float = 0.95) -> GateDecision:
    """The gate `judge_corrected`: pass if the one-sided lower bound reaches `pass_rate`, fail if the upper is below."""
    require_rate("pass_rate", pass_rate)
    require_open_rate("confidence", confidence)
    if rate.estimate is None or rate.standard_error is None:
        return "fail" if rate.raw is not None and rate.bounds[1] < pass_rate else "inconclusive"
    reach = normal_quantile(confidence) * rate.standard_error
    if rate.estimate - reach >= pass_rate:
        return "pass"
    return "fail" if rate.estimate + reach < pass_rate else "inconclusive"


def allocate_labels(trials: JudgedTrials, count: int) -> tuple[int, int]:
    """How many of the next `count` labels go to trials that the judge passed, and to those that it failed.

    First 10 labels for each verdict, then each label where it lowers the variance most, as far as there are trials.
    """
    require_counts(0, count)
    verdicts = trials.verdicts
    labelled = [each.labelled for each in verdicts]
    for _ in range(count):
        free = [place for place, each in enumerate(verdicts) if labelled[place] < each.total]
        if not free:
            break
        short = [place for place in free if labelled[place] < _LABELS_EACH]
        if short:
            best = min(short, key=labelled.__getitem__)
        else:
            best = max(free, key=lambda place: _gain(verdicts[place], labelled[place]))
        labelled[best] += 1
    return labelled[0] - verdicts[0].labelled, labelled[1] - verdicts[1].labelled


def _gain(verdict: Verdict, labelled: int) -> float:
    """By how much one more label lowers the variance of the estimate."""
    return verdict.share**2 * verdict.smoothed * (1.0 - verdict.smoothed) / ((labelled + 2) * (labelled + 3))


def draw_labels(ids: Sequence[str], count: int, *, seed: int) -> tuple[str, ...]:
    """`count` of the ids, chosen at random by the seed. More labels with the same seed contain the earlier ones."""
    from hashlib import sha256

    ordered = sorted(ids, key=lambda each: sha256(f"{seed}:{each}".encode()).digest())
    return tuple(ordered[:count])

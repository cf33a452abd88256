"""The pass rate that humans would give, from the judge's verdicts of all trials and human labels of some.

The trials are divided by the judge's verdict. Within each verdict, the labelled trials estimate the share that a human
passes; the shares are weighted by how often the judge gave the verdict (post-stratification; Begg and Greenes 1983).

Labels must be drawn at random within each verdict. How many labels each verdict gets does not matter: labels that were
chosen by the judge's verdict are fine, labels of "interesting" trials are not. `allocate_labels` and `draw_labels`
choose the next trials to label.

Simulated coverage of the 95 % interval is 0.93 or more from 50 labels on (benchmarks/gate.py). It needs half to a third
of the labels of the correction by TPR and TNR (`agreement.corrected_rate`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .agreement import ConfusionTable
from .distributions import normal_quantile, require_counts, require_open_rate, require_rate, two_sided_z
from .intervals import Interval

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
    passed, failed = trials.verdicts
    return CalibratedRate(
        usable=True,
        raw=raw,
        estimate=low,
        standard_error=error,
        interval=(max(0.0, low - reach), min(1.0, low + reach)),
        bounds=(low, high),
        true_pass_rate=passed.share * passed.rate(0.0) / low if low > 0.0 else None,
        true_fail_rate=failed.share * (1.0 - failed.rate(0.0)) / (1.0 - low) if low < 1.0 else None,
        warnings=tuple(_warnings(trials)),
    )


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

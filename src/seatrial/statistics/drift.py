"""Slow decay over the runs of the main branch: an e-detector (Shin, Ramdas and Rinaldo 2023).

Each run gives a likelihood ratio: a rate 3, 6 or 12 points below the baseline against the baseline. The detector adds
them up over all possible starts of the decay: M = (M + 1) * L. It alarms at 400.

Guarantee: if the pass rate never falls below the lower bound of the baseline's, alarms come on average at most once in
400 runs, however the rates of the scenarios differ. The lower bound is one-sided at 95 %, so the baseline needs many
trials; 10 runs of a suite are a good start. A sudden drop is found by `compare`, usually earlier.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .distributions import normal_quantile
from .intervals import Count

ALARM = 400.0
DROPS = (0.03, 0.06, 0.12)
_LOWEST = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The state of the detector after the last run."""

    alarm: bool
    """Whether it alarmed at the last run or before."""
    alarm_at: int | None
    """Index of the first run with an alarm."""
    since: int | None
    """Index of the run at which the decay most likely began; None without an alarm."""
    values: tuple[float, ...]
    """The detector after each run; it alarms at 400."""
    expected: float | None
    """The baseline's pass rate with the trials of the last run; None without trials."""
    observed: float | None
    """The pass rate of the last run."""


def detect_drift(baseline: Sequence[Count], runs: Sequence[Sequence[Count]], *, confidence: float = 0.95) -> Drift:
    """Whether the pass rate decays. Each run has (passed, answered) of the baseline's scenarios, in the same order.

    A scenario without trials in the baseline or in a run is left out of that run.
    """
    z = normal_quantile(confidence)
    value, values, steps = 0.0, [], []
    expected = observed = None
    for run in runs:
        known = [(base, one) for base, one in zip(baseline, run, strict=True) if base[1] and one[1]]
        step = 0.0
        if known:
            passed, total = sum(one[0] for _, one in known), sum(one[1] for _, one in known)
            expected, observed = sum(one[1] * base[0] / base[1] for base, one in known) / total, passed / total
            step = _log_ratio(passed, total, expected - z * _standard_error(known, total))
        # Rounding cannot matter above the alarm; the cap keeps the value finite.
        value = min((value + 1.0) * math.exp(min(step, 100.0)), 1e12)
        values.append(value)
        steps.append(step)
    alarm_at = next((place for place, each in enumerate(values) if each >= ALARM), None)
    return Drift(
        alarm=alarm_at is not None,
        alarm_at=alarm_at,
        since=None if alarm_at is None else _likeliest_start(steps[: alarm_at + 1]),
        values=tuple(values),
        expected=expected,
        observed=observed,
    )


def _standard_error(known: Sequence[tuple[Count, Count]], total: int) -> float:
    """Of the baseline's mean rate, weighted by the trials of the run."""
    squares = 0.0
    for (base_passed, base_total), (_, weight) in known:
        rate = (base_passed + 1) / (base_total + 2)
        squares += (weight / total) ** 2 * rate * (1.0 - rate) / (base_total + 2)
    return math.sqrt(squares)


def _log_ratio(passed: int, total: int, bound: float) -> float:
    """The log of the mean likelihood ratio of the drops; 0 if the bound is too low to fall."""
    bound = min(bound, 1.0 - 1e-6)
    ratios = []
    for drop in DROPS:
        lower = max(bound - drop, _LOWEST)
        if lower < bound:
            ratio = passed * math.log(lower / bound) + (total - passed) * math.log((1.0 - lower) / (1.0 - bound))
            ratios.append(math.exp(min(ratio, 300.0)))
    # A drop that the bound leaves no space for counts as "no evidence", so that the mean stays a fair bet.
    return math.log((math.fsum(ratios) + len(DROPS) - len(ratios)) / len(DROPS))


def _likeliest_start(steps: Sequence[float]) -> int:
    sums = [math.fsum(steps[place:]) for place in range(len(steps))]
    return sums.index(max(sums))

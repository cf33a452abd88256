"""Comparisons with a history of runs: the gate for a candidate, and slow decay over time (`detect_drift`).

The gate asks whether the candidate is worse than the accepted runs before it.

For each scenario the history is the passes of its newest answered trials, at most 100. The candidate's trials come in
index order, and each scenario stops on its own trials:

- `worse`: the trials are too low for "same rate as in the history". The evidence is the likelihood ratio of a uniform
  alternative against the beta-binomial prediction from the history.
- `cleared`: the trials contradict a drop of 40 points (likelihood ratio 0.2).
- `undecided`: 48 trials decided neither. `go on`: run another trial.

`decide_suite` tests the first trials of all scenarios together, which finds small drops everywhere.

Guarantee: if nothing changed, the probability of any `worse` is at most 3 %, and that of a suite alarm at most 2 %, so
false alarms are at most 5 %. The boundary of the evidence is the smallest with an exact error of at most 3 % divided by
the number of scenarios, for every true pass rate, averaged over the random history. The guarantee needs independent
trials, the same rate in history and candidate, and histories of trials whose number was fixed in advance. If runs
differ by more than their trials explain, give `between_run_variance` of the history to `decide_suite`.

`detect_drift` is an e-detector over the runs of the main branch (Shin, Ramdas and Rinaldo 2023). Each run gives a
likelihood ratio: a rate 3, 6 or 12 points below the baseline against the baseline. They are added up over all possible
starts of the decay, M = (M + 1) * L, with an alarm at 400. If the pass rate never falls below the lower bound of the
baseline's (one-sided at 95 %), alarms come on average at most once in 400 runs. The baseline needs many trials.

Counts come in; nothing here knows runs or stores. benchmarks/gate.py simulates gate and detector.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, fsum, log
from typing import Literal, TypeAlias

from .distributions import (
    log_beta,
    normal_cdf,
    normal_quantile,
    reaches,
    require_counts,
    require_open_rate,
    require_positive,
)
from .intervals import Count
from .significance import ScenarioCounts, stratified_test

Decision: TypeAlias = Literal["worse", "cleared", "undecided", "go on"]
GateVerdict: TypeAlias = Literal["REGRESSION", "NOT WORSE", "UNDECIDED"]

SHORTEST_HISTORY = 20
LONGEST_HISTORY = 100
LOWEST_RATE = 0.1
"""A scenario that passes less often cannot get worse in a way that trials could show."""
_RATES = (*(step / 100 for step in range(10, 95)), *(step / 1000 for step in range(950, 1000, 5)), 0.998)
_STEP = 100
"""Boundaries are multiples of 1/100."""
_HIGHEST = 30 * _STEP
_TABLE = "history_boundaries.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGate:
    """Settings of the gate. The stored boundaries are for the defaults; others are computed (about 1 s each)."""

    drop: float = 0.4
    """The drop of one scenario that `cleared` excludes."""
    beta: float = 0.2
    """The likelihood ratio at which a scenario is cleared; also the probability of missing that drop."""
    max_trials: int = 48
    """Of one scenario. Few need more than 24, but with 24 a large suite would often stay undecided."""
    alpha: float = 0.03
    """The probability of any false `worse`, over all scenarios."""
    suite_alpha: float = 0.02

    def __post_init__(self) -> None:
        for name in ("drop", "beta", "alpha", "suite_alpha"):
            require_open_rate(name, getattr(self, name))
        require_positive("max_trials", self.max_trials)


DEFAULT_GATE = HistoryGate()


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Passes and answered trials of one scenario in accepted runs: the newest, at most 100."""

    passed: int
    total: int

    def __post_init__(self) -> None:
        require_counts(self.passed, self.total)
        if self.total > LONGEST_HISTORY:
            raise ValueError(f"history: {self.total} trials. Give the newest {LONGEST_HISTORY}.")

    @property
    def prior(self) -> tuple[float, float]:
        """The parameters of the beta distribution of the rate."""
        return 2.0 + self.passed, 0.5 + self.total - self.passed

    @property
    def rate(self) -> float:
        """The expected pass rate."""
        a, b = self.prior
        return a / (a + b)

    @property
    def problem(self) -> Literal["too short", "cannot get worse"] | None:
        """Why the scenario cannot be tested; None if it can."""
        if self.total < SHORTEST_HISTORY:
            return "too short"
        return "cannot get worse" if self.passed < LOWEST_RATE * self.total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """The state of one scenario after its trials so far."""

    decision: Decision
    passed: int
    trials: int
    """Answered trials up to the decision."""
    left_out: int
    """Trials with instrument errors among them. They never clear a scenario: it is cleared only if it would also be
    cleared with all of them failed."""
    fewest_more: int = 0
    """The fewest further answered trials that could decide it; 0 once decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """The test of the first trials of all scenarios."""

    alarm: bool
    p_value: float
    expected: float
    observed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """Exact probabilities of one scenario's decisions at a true rate, and its expected trials."""

    worse: float
    cleared: float
    undecided: float
    expected_trials: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the gate will cost and find, computed exactly from the histories."""

    expected_calls: float
    """Trials of all scenarios if nothing changed."""
    most_calls: int
    power: float
    """The probability that a scenario that drops by 40 points is called worse; mean over the scenarios."""
    weakest_power: float
    """The same for the scenario with the lowest probability."""
    all_cleared: float
    """The probability that every scenario is cleared if nothing changed."""
    false_alarms: float
    """The upper bound of the probability of a false alarm."""


def find_boundary(total: int, scenarios: int, *, gate: HistoryGate = DEFAULT_GATE) -> float:
    """The evidence at which a scenario with a history of `total` trials is worse, if `scenarios` are tested.

    Between the stored numbers of scenarios the next larger one counts, so the error is never above its limit.
    """
    require_positive("scenarios", scenarios)
    alpha = gate.alpha / scenarios
    if gate == DEFAULT_GATE:
        alphas, rows = _read_table()
        place = next((place for place, stored in enumerate(alphas) if stored <= alpha * (1 + 1e-9)), None)
        if place is not None and total in rows:
            return rows[total][place]
    return solve_boundary(total, alpha, gate=gate)


@lru_cache(maxsize=1)
def _read_table() -> tuple[tuple[float, ...], dict[int, tuple[float, ...]]]:
    """The stored alphas, largest first, and the boundaries by length of the history."""
    from importlib.resources import files

    lines = files(__package__).joinpath(_TABLE).read_text("ascii").splitlines()
    head, *rows = [line.split() for line in lines if not line.startswith("#")]
    table = {int(row[0]): tuple(int(value) / _STEP for value in row[1:]) for row in rows}
    return tuple(DEFAULT_GATE.alpha / int(count) for count in head[1:]), table


@lru_cache(maxsize=256)
def solve_boundary(total: int, alpha: float, *, gate: HistoryGate = DEFAULT_GATE) -> float:
    """The smallest multiple of 0.01 whose exact error is at most `alpha` at every true rate."""
    error = ErrorOfBoundary(total, gate)
    low, high = 0, _HIGHEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle) <= alpha else (middle, high)
    return high / _STEP


class ErrorOfBoundary:
    """The exact probability of a false `worse`, as a function of the boundary in hundredths: the maximum over rates."""

    def __init__(self, total: int, gate: HistoryGate = DEFAULT_GATE) -> None:
        self._gate, self._total = gate, total
        self._evidence = [_Evidence(History(passed=passed, total=total), gate) for passed in range(total + 1)]
        self._known: dict[int, float] = {}

    def __call__(self, boundary: int) -> float:
        if boundary not in self._known:
            self._known[boundary] = self._maximum(boundary / _STEP)
        return self._known[boundary]

    def _maximum(self, boundary: float) -> float:
        ends = [_worse_ends(each, boundary) for each in self._evidence]
        errors = [self._at(rate, ends) for rate in _RATES]
        best = max(range(len(errors)), key=errors.__getitem__)
        around = _RATES[max(best - 1, 0)], _RATES[min(best + 1, len(_RATES) - 1)]
        finer = [around[0] + (around[1] - around[0]) * step / 10 for step in range(1, 10)]
        return max(errors[best], *(self._at(rate, ends) for rate in finer))

    def _at(self, rate: float, ends: Sequence[Sequence[tuple[int, int, int]]]) -> float:
        """The error at one true rate, averaged over the histories of that rate."""
        steps = range(max(self._total, self._gate.max_trials) + 1)
        up, down = [rate**step for step in steps], [(1.0 - rate) ** step for step in steps]
        parts = []
        for passed, some in enumerate(ends):
            chance = comb(self._total, passed) * up[passed] * down[self._total - passed]
            if chance > 1e-12 and some:
                parts.append(chance * sum([paths * up[k] * down[failed] for k, failed, paths in some]))
        # Histories rarer than 1e-12 are left out; their sum is below 1e-10.
        return fsum(parts) + 1e-10


class _Evidence:
    """The evidence of one scenario after k passes in n trials: for `worse` and for the drop."""

    def __init__(self, history: History, gate: HistoryGate) -> None:
        self.rate = history.rate
        self.gate = gate
        self._prior = history.prior
        self._base = log_beta(*self._prior)
        dropped = max(self.rate - gate.drop, 0.02)
        self._log_passed, self._log_failed = log(dropped), log(1.0 - dropped)
        self.clear_at = log(gate.beta)
        self._known: dict[tuple[int, int], tuple[float, float]] = {}

    def _same(self, passed: int, failed: int) -> float:
        """The log-likelihood of the trials if the rate is that of the history."""
        a, b = self._prior
        return log_beta(a + passed, b + failed) - self._base

    def worse(self, passed: int, failed: int) -> float:
        """The log-likelihood ratio of a uniform alternative against the history; minus infinity above its rate."""
        if passed >= self.rate * (passed + failed):
            return -math.inf
        return log_beta(1 + passed, 1 + failed) - self._same(passed, failed)

    def drop(self, passed: int, failed: int) -> float:
        """The log-likelihood ratio of the drop against the history."""
        return passed * self._log_passed + failed * self._log_failed - self._same(passed, failed)

    def decide(self, passed: int, failed: int, boundary: float) -> Decision:
        state = passed, failed
        if state not in self._known:
            self._known[state] = self.worse(*state), self.drop(*state)
        worse, drop = self._known[state]
        if worse >= boundary:
            return "worse"
        if drop <= self.clear_at:
            return "cleared"
        return "undecided" if passed + failed >= self.gate.max_trials else "go on"


def _ends(evidence: _Evidence, boundary: float) -> list[tuple[Decision, int, int, int]]:
    """Every way to end: the decision, passes, failures, and the number of orders of trials that lead there."""
    found: list[tuple[Decision, int, int, int]] = []
    going = {0: 1}
    for total in range(1, evidence.gate.max_trials + 1):
        arrived: dict[int, int] = {}
        for passed, paths in going.items():
            arrived[passed + 1] = arrived.get(passed + 1, 0) + paths
            arrived[passed] = arrived.get(passed, 0) + paths
        going = {}
        for passed, paths in arrived.items():
            decision = evidence.decide(passed, total - passed, boundary)
            if decision == "go on":
                going[passed] = paths
            else:
                found.append((decision, passed, total - passed, paths))
    return found


def _worse_ends(evidence: _Evidence, boundary: float) -> list[tuple[int, int, int]]:
    return [
        (passed, failed, paths) for decision, passed, failed, paths in _ends(evidence, boundary) if decision == "worse"
    ]


def decide_scenario(
    answers: Iterable[bool | None], history: History, boundary: float, *, gate: HistoryGate = DEFAULT_GATE
) -> ScenarioResult:
    """The decision after these trials in index order; None is an instrument error.

    Stop before the first trial that still runs: taking finished trials first would favour quick failures.
    """
    evidence = _Evidence(history, gate)
    passed = failed = left_out = 0
    decision: Decision = "go on"
    clear = False
    for answer in answers:
        if answer is None:
            left_out += 1
            continue
        passed, failed = passed + answer, failed + (not answer)
        decision = evidence.decide(passed, failed, boundary)
        # After the point at which it would be cleared, it can only be cleared or stay undecided: the error of the
        # boundary counts on that.
        clear = clear or decision == "cleared"
        if clear:
            decision = "undecided" if passed + failed >= gate.max_trials else "go on"
            if evidence.drop(passed, failed + left_out) <= evidence.clear_at:
                decision = "cleared"
        if decision != "go on":
            break
    more = _fewest_more(evidence, passed, failed, boundary, left_out=left_out, clear=clear)
    return ScenarioResult(
        decision=decision,
        passed=passed,
        trials=passed + failed,
        left_out=left_out,
        fewest_more=more if decision == "go on" else 0,
    )


def _fewest_more(evidence: _Evidence, passed: int, failed: int, boundary: float, *, left_out: int, clear: bool) -> int:
    """All further trials fail, or all pass: nothing else decides sooner."""
    most = evidence.gate.max_trials - passed - failed
    for more in range(1, most + 1):
        if evidence.drop(passed + more, failed + left_out) <= evidence.clear_at:
            return more
        if not clear and evidence.worse(passed, failed + more) >= boundary:
            return more
    return max(1, most)


def first_trials(scenarios: int) -> int:
    """The trials of each scenario that always run, for the test of the suite."""
    return 3 if scenarios <= 30 else 1


def decide_suite(
    scenarios: Sequence[ScenarioCounts], *, variance: float = 1.0, gate: HistoryGate = DEFAULT_GATE
) -> SuiteResult:
    """The test of the first trials of every scenario (the candidate's counts) against the history (the base's).

    Exact for a `variance` of 1. A larger one (`between_run_variance`) widens the normal approximation.
    """
    test = stratified_test(scenarios)
    p_value = test.p_regression
    if variance > 1.0:
        spread = fsum(_variance(one.candidate_total, one) for one in scenarios)
        p_value = normal_cdf((test.observed + 0.5 - test.expected) / math.sqrt(variance * spread)) if spread else 1.0
    alarm = reaches(p_value, gate.suite_alpha)
    return SuiteResult(alarm=alarm, p_value=p_value, expected=test.expected, observed=test.observed)


def _variance(drawn: int, counts: ScenarioCounts) -> float:
    """The variance of the passes among `drawn` trials, chosen at random from both runs."""
    total = counts.base_total + counts.candidate_total
    passed = counts.base_passed + counts.candidate_passed
    if total < 2:
        return 0.0
    return drawn * passed * (total - passed) * (total - drawn) / (total * total * (total - 1))


def between_run_variance(runs: Sequence[Sequence[History]]) -> float:
    """How much more the runs of the history differ than their trials explain; 1: not more, or fewer than 5 runs.

    Each run gives the counts of the same scenarios in the same order; a scenario that did not run has 0 trials.
    """
    if len(runs) < 5:
        return 1.0
    totals = [
        (sum(one.passed for one in scenario), sum(one.total for one in scenario))
        for scenario in zip(*runs, strict=True)
    ]
    excess = 0.0
    for run in runs:
        expected = spread = 0.0
        for one, (passed, total) in zip(run, totals, strict=True):
            if total > one.total > 0:
                expected += one.total * passed / total
                rest = ScenarioCounts(
                    base_passed=passed - one.passed,
                    base_total=total - one.total,
                    candidate_passed=one.passed,
                    candidate_total=one.total,
                )
                spread += _variance(one.total, rest)
        seen = sum(one.passed for one, (_, total) in zip(run, totals, strict=True) if total > one.total > 0)
        excess += (seen - expected) ** 2 / spread if spread else 0.0
    return max(1.0, excess / (len(runs) - 1))


def decide_gate(scenarios: Iterable[ScenarioResult], suite: SuiteResult | None) -> GateVerdict:
    """The verdict of the gate. NOT WORSE needs every scenario cleared and a suite test without an alarm."""
    decisions = {one.decision for one in scenarios}
    if "worse" in decisions or (suite is not None and suite.alarm):
        return "REGRESSION"
    return "NOT WORSE" if decisions == {"cleared"} and suite is not None else "UNDECIDED"


def operating_point(
    history: History, rate: float, boundary: float, *, at_least: int = 1, gate: HistoryGate = DEFAULT_GATE
) -> OperatingPoint:
    """The exact probabilities at a true rate. `at_least`: trials that run even after the decision."""
    chances: dict[Decision, float] = {"worse": 0.0, "cleared": 0.0, "undecided": 0.0}
    expected = 0.0
    for decision, passed, failed, paths in _ends(_Evidence(history, gate), boundary):
        chance = paths * rate**passed * (1.0 - rate) ** failed
        chances[decision] += chance
        expected += chance * max(passed + failed, at_least)
    return OperatingPoint(
        worse=chances["worse"],
        cleared=chances["cleared"],
        undecided=chances["undecided"],
        expected_trials=expected,
    )


def forecast(histories: Sequence[History], *, gate: HistoryGate = DEFAULT_GATE) -> Forecast:
    """The expected calls and the power of the gate. Give only histories without a `problem`."""
    first = first_trials(len(histories))
    same, dropped = [], []
    for history in histories:
        boundary = find_boundary(history.total, len(histories), gate=gate)
        lower = max(history.rate - gate.drop, 0.02)
        same.append(operating_point(history, history.rate, boundary, at_least=first, gate=gate))
        dropped.append(operating_point(history, lower, boundary, gate=gate).worse)
    return Forecast(
        expected_calls=fsum(point.expected_trials for point in same),
        most_calls=gate.max_trials * len(histories),
        power=fsum(dropped) / len(dropped) if dropped else 0.0,
        weakest_power=min(dropped, default=0.0),
        all_cleared=math.prod(point.cleared for point in same),
        false_alarms=gate.alpha + gate.suite_alpha,
    )


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

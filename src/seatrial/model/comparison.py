"""The result of comparing two runs: changes of scenarios and of the suite, and the statistical evidence."""

from enum import StrEnum
from typing import Any, Literal, TypeAlias

from .conversation import ToolCall
from .run import Interval, Run, ScenarioKey, Status
from .struct import Struct


class ChangeKind(StrEnum):
    """How a scenario changed, by the threshold rules."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    UNCHANGED = "unchanged"
    ERROR = "error"
    """One of the runs errored or has no verdict."""
    NEW = "new"
    MISSING = "missing"


Word: TypeAlias = Literal["worse", "cannot tell", "within noise", "better", "same"]
"""What the pass counts of a scenario in both runs say."""


class RegressionReason(StrEnum):
    PASS_RATE = "pass_rate"
    AVG_SCORE = "avg_score"
    AVG_LATENCY = "avg_latency"
    AVG_COST = "avg_cost"


class RegressionLimits(Struct, frozen=True, kw_only=True):
    """How much worse the candidate may be. More is a regression."""

    max_pass_rate_drop: float = 0.0
    """As a share: 0.05 allows five points."""
    max_avg_score_drop: float = 5.0
    """In points of the overall score (0 to 100)."""
    max_latency_increase_pct: float = 20.0
    max_cost_increase_pct: float | None = None
    """Of the mean cost of a trial; None: no limit."""


class SuiteFigures(Struct, frozen=True, kw_only=True):
    """Means over the scenarios of a run; each scenario has the same weight."""

    pass_rate: float | None
    """Mean over the scenarios that have answered trials in both runs; None without any.

    Of scenarios that stop by results (`trials: auto`, `--against`), only the first trials count.
    """
    avg_score: float | None = None
    avg_latency_ms: float | None = None
    """Mean of each trial's median turn."""
    avg_cost_usd: float | None = None
    """Of one trial; None unless every trial reports it."""
    trials: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0
    rated: int = 0
    """The trials behind the pass rate."""
    rated_passed: int = 0


class ScenarioFigures(Struct, frozen=True, kw_only=True):
    """A scenario in one run."""

    status: Status
    passed: int
    failed: int
    errored: int
    answered: int
    """Trials without an instrument error."""
    tested: int | None = None
    """Answered trials that the tests use: those whose number was fixed in advance. None: all."""
    tested_passed: int | None = None
    interval: Interval | None = None
    """Interval of the pass rate of the answered trials."""
    avg_score: float | None = None
    avg_latency_ms: float | None = None
    avg_cost_usd: float | None = None

    @property
    def trials(self) -> int:
        return self.passed + self.failed + self.errored

    @property
    def not_judged(self) -> int:
        """Trials with an instrument error."""
        return self.trials - self.answered

    @property
    def counts(self) -> tuple[int, int]:
        """Passed and all of the trials that a rate may use: the tested ones."""
        if self.tested is None or self.tested_passed is None:
            return self.passed, self.answered
        return self.tested_passed, self.tested


class ScenarioChange(Struct, frozen=True, kw_only=True):
    """The change of one scenario from the baseline to the candidate."""

    key: ScenarioKey
    change: ChangeKind
    base: ScenarioFigures | None = None
    candidate: ScenarioFigures | None = None
    score_delta: float | None = None
    edits: tuple[str, ...] = ()
    """What was edited between the runs: `scenario`, or a gate with both values. It may explain the change."""
    p_worse: float | None = None
    """The probability of this few passes if nothing changed; None if it cannot be tested."""
    p_better: float | None = None
    beyond_noise: Literal["worse", "better"] | None = None
    """Adjusted for the number of scenarios."""
    word: Word | None = None
    """Of the tested trials; None if a run has none, or if nothing can be tested."""
    luck: str = ""
    """How easily noise explains a lower count, in words."""
    pooled: int = 0
    """Answered trials of other runs that were added to the baseline for the test."""
    pooled_passed: int = 0

    @property
    def edited(self) -> bool:
        return bool(self.edits)

    @property
    def stops_by_results(self) -> bool:
        """Whether only its first trials count, because the number of its trials depends on results in one run."""
        return any(side is not None and side.tested is not None for side in (self.base, self.candidate))


class Regression(Struct, frozen=True, kw_only=True):
    """A figure of the suite that is worse by more than its limit."""

    reason: RegressionReason
    base: float
    candidate: float
    limit: float
    text: str
    beyond_noise: bool | None = None
    """Whether the change is larger than noise; None if it cannot be tested."""


class FreshTrials(Struct, frozen=True, kw_only=True):
    """The fresh trials of one suspected scenario."""

    key: ScenarioKey
    base_passed: int
    base_total: int
    passed: int
    total: int
    """Trials with an answer."""
    left_out: int
    p_worse: float
    confirmed: bool
    could_confirm: bool
    """False: even if all fresh trials had failed, the test could not confirm it."""
    answer: Literal["confirmed", "cleared", "not decided"] = "not decided"
    """Cleared: a drop of 40 points or more is excluded."""
    largest_drop: float | None = None
    """The upper bound of the drop (one-sided at 95 %)."""
    more_trials: int | None = None
    """Fresh trials that would decide it at the present rates; None if it is decided, or no number does."""
    baseline_needed: int | None = None
    """Trials that the baseline needs so that fresh trials decide; None if it has enough, or no number does."""


class Confirmation(Struct, frozen=True, kw_only=True):
    """The result of `--confirm`: fresh trials of the suspected scenarios, which alone decide."""

    run_id: str | None
    """The run with the fresh trials; None if nothing was suspected."""
    trials: int
    """Fresh trials of each suspect."""
    suspects: tuple[FreshTrials, ...] = ()
    p_suite: float | None = None
    """The p-value of the suite with the fresh trials added."""


class Evidence(Struct, frozen=True, kw_only=True):
    """The statistical verdict: which changes are larger than noise, and which drop would have been noticed."""

    sentence: str
    """The summary in one or two sentences."""
    details: tuple[str, ...] = ()
    testable: bool = True
    """False if the trials are not independent or none has an answer."""
    dependent: bool = False
    """The trials of the runs are not independent: recordings, or the same conversations judged twice."""
    regression: bool = False
    p_worse: float | None = None
    """The exact p-value of the suite."""
    p_better: float | None = None
    mid_p_worse: float | None = None
    expected: float | None = None
    """The passed trials to expect if nothing changed."""
    observed: int | None = None
    worse: tuple[ScenarioKey, ...] = ()
    """Scenarios that got worse by more than noise."""
    better: tuple[ScenarioKey, ...] = ()
    cannot_tell: tuple[ScenarioKey, ...] = ()
    """Scenarios that passed before and fail now, with too few trials for any test."""
    untested: tuple[ScenarioKey, ...] = ()
    """Scenarios of both runs without an answered trial on one side."""
    left_out: int = 0
    """Trials with an instrument error."""
    unseen_drop: float | None = None
    """The drop, the same in every scenario, that would have been noticed 4 times in 5; None: no drop."""
    pooled_runs: tuple[str, ...] = ()
    confirmation: Confirmation | None = None
    p_score: float | None = None
    """The probability of a fall of the score this large if nothing changed; None if it cannot be tested."""
    p_latency: float | None = None
    p_cost: float | None = None
    numbers: tuple[str, ...] = ()
    """The p-values and expected counts, for `--verbose`."""


class ConfigDifference(Struct, frozen=True, kw_only=True):
    """A setting that differs between the runs."""

    what: str
    base: Any
    candidate: Any


class Comparison(Struct, frozen=True, kw_only=True):
    """The comparison of two runs."""

    base: Run
    candidate: Run
    limits: RegressionLimits
    scenarios: tuple[ScenarioChange, ...]
    base_figures: SuiteFigures
    """Over the scenarios that both runs have."""
    candidate_figures: SuiteFigures
    regressions: tuple[Regression, ...]
    evidence: Evidence
    config_differences: tuple[ConfigDifference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def regression_detected(self) -> bool:
        """Whether a figure of the suite is worse by more than its limit."""
        return bool(self.regressions)

    def __bool__(self) -> bool:
        """Raises TypeError: `assert compare(...)` would always hold."""
        raise TypeError("a comparison is neither true nor false; ask seatrial.comparison.find_objections")

    def differing(self) -> tuple[ScenarioChange, ...]:
        """The scenarios whose counts differ, strongest evidence first."""
        moved = [one for one in self.scenarios if one.word not in (None, "same")]
        return tuple(sorted(moved, key=lambda one: min(one.p_worse or 0.0, one.p_better or 0.0)))

    def keys(self, change: ChangeKind) -> tuple[ScenarioKey, ...]:
        """The scenarios with this change."""
        return tuple(scenario.key for scenario in self.scenarios if scenario.change is change)

    def count(self, change: ChangeKind) -> int:
        return len(self.keys(change))


class GateDecision(Struct, frozen=True, kw_only=True):
    """The decision of a gate. The candidate passes only without objections."""

    regressions: tuple[str, ...] = ()
    """What got worse, or is missing."""
    doubts: tuple[str, ...] = ()
    """Why the gate cannot decide."""

    @property
    def objections(self) -> tuple[str, ...]:
        return (*self.regressions, *self.doubts)

    @property
    def verdict(self) -> Literal["REGRESSION", "UNDECIDED", "NO REGRESSION"]:
        return "REGRESSION" if self.regressions else "UNDECIDED" if self.doubts else "NO REGRESSION"


class DifferenceKind(StrEnum):
    """The kind of the first difference between two conversations."""

    CALL = "call"
    ARGUMENTS = "arguments"
    ERROR = "error"
    """The same call succeeded in one and failed in the other."""
    REPLY = "reply"
    """All calls are the same; the replies differ."""


class AlignedStep(Struct, frozen=True, kw_only=True):
    """A tool call of one conversation next to its counterpart in the other."""

    turn: int
    passing: ToolCall | None
    failing: ToolCall | None
    differences: tuple[str, ...] = ()
    """Differences of the arguments, one line each."""


class Alignment(Struct, frozen=True, kw_only=True):
    """A passing and a failing conversation of one scenario, aligned by their tool calls."""

    key: ScenarioKey
    passing: str
    """The trial: `trial-2 of run 20250501-120000-abc`."""
    failing: str
    steps: tuple[AlignedStep, ...]
    parting: DifferenceKind
    step: int | None
    """Index of the first different step; None if all calls are the same."""
    text: str
    """The first difference in one sentence."""

"""The result of comparing two runs: changes of scenarios and of the suite, and the statistical evidence."""

from enum import StrEnum
from typing import Any, Literal

from .conversation import ToolCall
from .run import Interval, Run, ScenarioKey, Status
from .struct import Struct


class Change(StrEnum):
    """How a scenario changed, by the threshold rules."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    UNCHANGED = "unchanged"
    ERROR = "error"
    """One of the runs errored or has no verdict."""
    NEW = "new"
    MISSING = "missing"


class RegressionReason(StrEnum):
    PASS_RATE = "pass_rate"
    AVG_SCORE = "avg_score"
    AVG_LATENCY = "avg_latency"


class RegressionLimits(Struct, frozen=True, kw_only=True):
    """How much worse the candidate may be. More is a regression."""

    max_pass_rate_drop: float = 0.0
    """As a share: 0.05 allows five points."""
    max_avg_score_drop: float = 5.0
    """In points of the overall score (0 to 100)."""
    max_latency_increase_pct: float = 20.0


class SuiteFigures(Struct, frozen=True, kw_only=True):
    """Means over the scenarios of a run; each scenario has the same weight."""

    pass_rate: float | None
    """Mean over the scenarios that have answered trials in both runs; None without any."""
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


class ScenarioChange(Struct, frozen=True, kw_only=True):
    """The change of one scenario from the baseline to the candidate."""

    key: ScenarioKey
    change: Change
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
    pooled: int = 0
    """Answered trials of other runs that were added to the baseline for the test."""
    pooled_passed: int = 0

    @property
    def edited(self) -> bool:
        return bool(self.edits)


class Regression(Struct, frozen=True, kw_only=True):
    """A figure of the suite that is worse by more than its limit."""

    reason: RegressionReason
    base: float
    candidate: float
    limit: float
    text: str


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
    untested: tuple[ScenarioKey, ...] = ()
    """Scenarios of both runs without an answered trial on one side."""
    left_out: int = 0
    """Trials with an instrument error."""
    unseen_drop: float | None = None
    """The drop, the same in every scenario, that would have been noticed 4 times in 5; None: no drop."""
    pooled_runs: tuple[str, ...] = ()
    confirmation: Confirmation | None = None


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

    def keys(self, change: Change) -> tuple[ScenarioKey, ...]:
        """The scenarios with this change."""
        return tuple(scenario.key for scenario in self.scenarios if scenario.change is change)

    def count(self, change: Change) -> int:
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

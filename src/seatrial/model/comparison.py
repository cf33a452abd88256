"""What changed from one run to another: scenario by scenario, in the figures of the suite, and beyond noise or not."""

from enum import StrEnum
from typing import Any, Literal

from .conversation import ToolCall
from .run import Interval, Run, ScenarioKey, Status
from .struct import Struct


class Change(StrEnum):
    """What became of a scenario, by the rule of thresholds."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    UNCHANGED = "unchanged"
    ERROR = "error"
    """One of the runs has no answer: it errored, or did not come to a verdict."""
    NEW = "new"
    MISSING = "missing"


class RegressionReason(StrEnum):
    PASS_RATE = "pass_rate"
    AVG_SCORE = "avg_score"
    AVG_LATENCY = "avg_latency"


class RegressionLimits(Struct, frozen=True, kw_only=True):
    """How much worse the candidate may be before it counts as a regression; only more than that does."""

    max_pass_rate_drop: float = 0.0
    """As a share: 0.05 tolerates five points."""
    max_avg_score_drop: float = 5.0
    """In points of the overall score, 0 to 100."""
    max_latency_increase_pct: float = 20.0


class SuiteFigures(Struct, frozen=True, kw_only=True):
    """A run in four numbers, each a mean over scenarios: one with many trials weighs no more than one with few."""

    pass_rate: float | None
    """Of the trials with an answer, in scenarios that have one in both runs; None where there is none."""
    avg_score: float | None = None
    avg_latency_ms: float | None = None
    """Of the median turn of each trial."""
    avg_cost_usd: float | None = None
    """Of one trial; None unless every trial says."""
    trials: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0
    rated: int = 0
    """The trials that the pass rate counts."""
    rated_passed: int = 0


class ScenarioFigures(Struct, frozen=True, kw_only=True):
    """A scenario in one run."""

    status: Status
    passed: int
    failed: int
    errored: int
    answered: int
    """Trials that say something of the agent: without those that an instrument spoiled."""
    interval: Interval | None = None
    """Of the pass rate, over the answered trials."""
    avg_score: float | None = None
    avg_latency_ms: float | None = None
    avg_cost_usd: float | None = None

    @property
    def trials(self) -> int:
        return self.passed + self.failed + self.errored

    @property
    def not_judged(self) -> int:
        """Trials that an instrument spoiled."""
        return self.trials - self.answered


class ScenarioChange(Struct, frozen=True, kw_only=True):
    """What became of one scenario from the baseline to the candidate."""

    key: ScenarioKey
    change: Change
    base: ScenarioFigures | None = None
    candidate: ScenarioFigures | None = None
    score_delta: float | None = None
    edits: tuple[str, ...] = ()
    """What was edited in between: `scenario`, or a gate with both values. A change may then be the edit's doing."""
    p_worse: float | None = None
    """The chance of so few passes if the agent were as good as before; None where nothing can be tested."""
    p_better: float | None = None
    beyond_noise: Literal["worse", "better"] | None = None
    """After correction for having looked at all scenarios."""
    pooled: int = 0
    """Answered trials of earlier runs that were added to the baseline's own for the test."""
    pooled_passed: int = 0

    @property
    def edited(self) -> bool:
        return bool(self.edits)


class Regression(Struct, frozen=True, kw_only=True):
    """A figure of the suite that fell further than its limit allows."""

    reason: RegressionReason
    base: float
    candidate: float
    limit: float
    text: str


class FreshTrials(Struct, frozen=True, kw_only=True):
    """What fresh trials say of a scenario that was suspected."""

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
    """False when not even failures throughout would have been enough."""


class Confirmation(Struct, frozen=True, kw_only=True):
    """The second look: only the suspects, on fresh trials, and only these decide."""

    run_id: str | None
    """The run of the fresh trials; None when there was no suspect."""
    trials: int
    """Of each suspect."""
    suspects: tuple[FreshTrials, ...] = ()
    p_suite: float | None = None
    """Of the whole suite with the fresh trials added."""


class Evidence(Struct, frozen=True, kw_only=True):
    """The statistical verdict: what is beyond noise, and what could not have been seen."""

    sentence: str
    """The whole of it for people in a hurry."""
    details: tuple[str, ...] = ()
    testable: bool = True
    """False where the trials are not independent, or none has an answer; then nothing is shown either way."""
    regression: bool = False
    p_worse: float | None = None
    """Of the whole suite, exact."""
    p_better: float | None = None
    mid_p_worse: float | None = None
    expected: float | None = None
    """Trials that the candidate would have passed on average if nothing had changed."""
    observed: int | None = None
    worse: tuple[ScenarioKey, ...] = ()
    """Scenarios that got worse beyond noise."""
    better: tuple[ScenarioKey, ...] = ()
    untested: tuple[ScenarioKey, ...] = ()
    """Scenarios of both runs without a single answer on one side."""
    left_out: int = 0
    """Trials without an answer, because an instrument failed."""
    unseen_drop: float | None = None
    """A fall of the suite's pass rate by less than this would mostly have gone unnoticed; None: so would any."""
    pooled_runs: tuple[str, ...] = ()
    confirmation: Confirmation | None = None


class ConfigDifference(Struct, frozen=True, kw_only=True):
    """Something that was set differently in the two runs."""

    what: str
    base: Any
    candidate: Any


class Comparison(Struct, frozen=True, kw_only=True):
    """Two runs side by side."""

    base: Run
    candidate: Run
    limits: RegressionLimits
    scenarios: tuple[ScenarioChange, ...]
    base_figures: SuiteFigures
    """Over the scenarios that both runs have, as all that follows."""
    candidate_figures: SuiteFigures
    regressions: tuple[Regression, ...]
    evidence: Evidence
    config_differences: tuple[ConfigDifference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def regression_detected(self) -> bool:
        """Whether a figure of the suite fell further than its limit allows."""
        return bool(self.regressions)

    def __bool__(self) -> bool:
        """Refused: `assert compare(...)` would hold for every comparison, and its contrary for none."""
        raise TypeError("a comparison is neither true nor false; ask seatrial.comparison.find_objections")

    def keys(self, change: Change) -> tuple[ScenarioKey, ...]:
        """The scenarios of which that became."""
        return tuple(scenario.key for scenario in self.scenarios if scenario.change is change)

    def count(self, change: Change) -> int:
        return len(self.keys(change))


class GateDecision(Struct, frozen=True, kw_only=True):
    """What a gate says of the candidate. Only one without objections passes."""

    regressions: tuple[str, ...] = ()
    """What got worse, or is missing."""
    doubts: tuple[str, ...] = ()
    """Why it cannot be told whether something got worse."""

    @property
    def objections(self) -> tuple[str, ...]:
        return (*self.regressions, *self.doubts)

    @property
    def verdict(self) -> Literal["REGRESSION", "UNDECIDED", "NO REGRESSION"]:
        return "REGRESSION" if self.regressions else "UNDECIDED" if self.doubts else "NO REGRESSION"


class DifferenceKind(StrEnum):
    """In what two conversations first differ."""

    CALL = "call"
    ARGUMENTS = "arguments"
    ERROR = "error"
    """The same call went well in one and failed in the other."""
    REPLY = "reply"
    """All calls are the same, so it must lie in the texts."""


class AlignedStep(Struct, frozen=True, kw_only=True):
    """A tool call of one conversation beside its counterpart in the other."""

    turn: int
    passing: ToolCall | None
    failing: ToolCall | None
    differences: tuple[str, ...] = ()
    """Of the arguments, one line each."""


class Alignment(Struct, frozen=True, kw_only=True):
    """A passing and a failing conversation of one scenario, laid side by side by their tool calls."""

    key: ScenarioKey
    passing: str
    """Which trial, for people: `trial-2 of run 20250501-120000-abc`."""
    failing: str
    steps: tuple[AlignedStep, ...]
    parting: DifferenceKind
    step: int | None
    """Index of the step where they part; None when all calls are the same."""
    text: str
    """Where they part and in what, in a sentence."""

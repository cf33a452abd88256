"""Results of evaluators and judges, their model calls, and the errors that end a trial early."""

from collections.abc import Iterable
from enum import StrEnum
from math import fsum
from typing import Any

from seatrial.errors import SeatrialError

from .conversation import ErrorInfo, ErrorKind, ToolCall, Usage, sum_usage
from .struct import Struct, set_field


class TrialError(SeatrialError):
    """The trial must end; its transcript so far is kept."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        hint: str | None = None,
        traceback: str | None = None,
        counts_as_failed: bool = False,
    ) -> None:
        super().__init__(message)
        self.info = ErrorInfo(
            kind=kind, message=message, hint=hint, traceback=traceback, counts_as_failed=counts_as_failed
        )
        self.use: ModelUse | None = None
        """Model calls before the error."""


class AgentFailure(TrialError):
    """The agent failed: it raised, gave an invalid answer or could not be reached (`infra`). It may be retried."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        traceback: str | None = None,
        retry_after: float | None = None,
        final: bool = False,
        kind: ErrorKind = ErrorKind.AGENT,
    ) -> None:
        super().__init__(kind, message, hint=hint, traceback=traceback)
        self.retry_after = retry_after
        """Seconds to wait, as requested by the agent."""
        self.final = final
        """A retry would not help."""


def error_from(info: ErrorInfo, *, final: bool = False) -> TrialError:
    """The error that was stored as `info`, or sent by another process. `final`: asking an agent again is useless."""
    if info.kind is ErrorKind.AGENT:
        return AgentFailure(info.message, hint=info.hint, traceback=info.traceback, final=final)
    counts = info.counts_as_failed
    return TrialError(info.kind, info.message, hint=info.hint, traceback=info.traceback, counts_as_failed=counts)


def agent_timed_out(seconds: float) -> TrialError:
    return TrialError(
        ErrorKind.LIMIT,
        f"the agent did not answer within {seconds:g} s",
        hint="raise timeout_seconds (default_timeout in suite.config) if it needs longer",
    )


def mock_timed_out(tool: str) -> TrialError:
    """The agent's time was up while it waited for a mock: this is not the agent's fault."""
    return TrialError(
        ErrorKind.TOOL,
        f"the mock of {tool!r} did not answer in time",
        hint="let the mock answer sooner, or raise timeout_seconds (default_timeout in suite.config)",
    )


class RepeatTrial(SeatrialError):
    """Another trial disturbed this one, so it must run again."""


class Severity(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Check(Struct, frozen=True, kw_only=True):
    """One step of an evaluator with several."""

    name: str
    passed: bool
    detail: str = ""

    def __bool__(self) -> bool:
        """So that `all(result.checks)` means what it says."""
        return self.passed is True


class TrajectoryMatch(Struct, frozen=True, kw_only=True):
    """The comparison of actual and expected calls."""

    mode: str
    matched: bool
    missing_calls: tuple[str, ...] = ()
    extra_calls: tuple[str, ...] = ()
    """Calls that the mode does not allow."""
    ordering_issues: tuple[str, ...] = ()
    forbidden_calls: tuple[str, ...] = ()
    other_calls: tuple[str, ...] = ()
    """Unexpected calls, in modes that allow them."""
    expected: tuple[str, ...] = ()
    """The expected calls in words."""
    actual: tuple[str, ...] = ()
    """The names of the actual calls."""
    diff: tuple[str, ...] = ()
    """A diff: lines that begin with "  ", "- " (missing), "+ " (extra) or "! " (forbidden)."""

    def __bool__(self) -> bool:
        """So that `assert result.trajectory` means what it says."""
        return self.matched


class InvariantCheck(Struct, frozen=True, kw_only=True):
    """How often a rule for every scenario was triggered in a trial, and how often it was violated."""

    name: str
    triggered: int | None = None
    """The number of events that the rule is about; None: the rule forbids them, so each one is a violation."""
    violations: int = 0


class AttackFact(Struct, frozen=True, kw_only=True):
    """What an attack did in a trial."""

    received: bool
    """The agent got the whole payload in a tool result."""
    succeeded: bool | None
    """None: not known, because calls of the agent are not recorded."""
    how: str = ""
    """What shows the success: the call, or how the canary left."""
    turn: int | None = None
    """Where it shows: index of the turn."""
    call: int | None = None
    """Index of the call in the turn; None: the reply."""


class EvalResult(Struct, frozen=True):
    """The result of an evaluator. `EvalResult(passed=…, reasoning=…)` is enough."""

    passed: bool
    reasoning: str = ""
    score: float | None = None
    """0 to 1; the default is 1.0 or 0.0 by `passed`."""
    checks: tuple[Check, ...] = ()
    error: ErrorInfo | None = None
    """Set if there is no answer; then `passed` is False and the trial is errored, not failed."""
    evaluator: str = ""
    """The name of the evaluator; set by the engine."""
    turn: int | None = None
    """Index of the turn; None: the whole trial. Set by the engine."""
    trajectory: TrajectoryMatch | None = None
    invariant: InvariantCheck | None = None
    gold_calls: tuple[ToolCall, ...] | None = None
    """If the end state differs from `end_state.as_after`: those of its calls that change the world; else None."""
    attack: AttackFact | None = None
    use: "ModelUse | None" = None
    """Model calls of the evaluator."""
    exchange: "JudgeExchange | None" = None
    """What a judge was asked and what it answered."""

    def __post_init__(self) -> None:
        if self.score is None:
            set_field(self, "score", 1.0 if self.passed else 0.0)
        elif not 0.0 <= self.score <= 1.0:
            raise ValueError(f"score must be between 0 and 1, got {self.score!r}")
        if self.error is not None and self.passed:
            raise ValueError("a result with an error cannot have passed")

    def __bool__(self) -> bool:
        """So that `if result:` means passed."""
        return self.passed is True

    @property
    def details(self) -> str:
        """The reasoning, by its name in AgenticAssure."""
        return self.reasoning


class MetricScore(Struct, frozen=True, kw_only=True):
    """A judge's score of one metric, for a turn or the trial."""

    metric: str
    value: float
    """On the metric's own scale."""
    reason: str = ""
    turn: int | None = None
    label: str | None = None
    """critical_fail … excellent, pass or fail."""
    weight: float | None = None
    """The share in the overall score; None: not part of it."""


FULL_MARKS = 5.0
"""The highest value of a metric."""


def weighted_score(scores: Iterable[MetricScore]) -> float | None:
    """The weighted mean of the scores, 0 to 100; None without weights."""
    weighted = [(score.value, score.weight) for score in scores if score.weight is not None]
    total = fsum(weight for _, weight in weighted)
    return 100.0 * fsum(value / FULL_MARKS * weight / total for value, weight in weighted) if total > 0 else None


class OutcomeResult(Struct, frozen=True, kw_only=True):
    """Whether one statement of `expected_outcomes` is true of the trial."""

    id: str
    statement: str
    passed: bool
    justification: str = ""

    def __bool__(self) -> bool:
        """So that `all(trial.judgement.outcomes)` means what it says."""
        return self.passed is True


class BehaviourFailure(Struct, frozen=True, kw_only=True):
    """A mistake of the agent that the judge found."""

    category: str
    severity: Severity
    label: str
    explanation: str = ""
    turn: int | None = None


class UniqueError(Struct, frozen=True, kw_only=True):
    """A behaviour failure, merged over the trials of a scenario."""

    severity: Severity
    label: str
    explanation: str
    examples: tuple[tuple[int, int | None], ...]
    """(trial index, turn index) of each occurrence, both from 0."""

    @property
    def occurrences(self) -> int:
        return len(self.examples)


class ModelUse(Struct, frozen=True, kw_only=True):
    """Model calls of Seatrial's own users and judges."""

    calls: int = 0
    cached: int = 0
    """Answers from the cache, which cost nothing."""
    usage: Usage | None = None
    cost_usd: float | None = None
    """None if the price of a call is not known."""


def sum_model_use(uses: Iterable[ModelUse | None]) -> ModelUse:
    """The sum; the cost is None if one is not known."""
    known = [use for use in uses if use is not None]
    spent = [use.cost_usd for use in known if use.calls or use.cached]
    priced = [cost for cost in spent if cost is not None]
    return ModelUse(
        calls=sum(use.calls for use in known),
        cached=sum(use.cached for use in known),
        usage=sum_usage(use.usage for use in known),
        cost_usd=sum(priced) if spent and len(priced) == len(spent) else None,
    )


class JudgeExchange(Struct, frozen=True, kw_only=True):
    """What a judge was sent and what it answered, word for word."""

    system: str
    message: str
    answers: tuple[str, ...] = ()
    """One for each vote that has an answer."""


class Judgement(Struct, frozen=True, kw_only=True):
    """The judge's answer about one trial."""

    scores: tuple[MetricScore, ...] = ()
    outcomes: tuple[OutcomeResult, ...] = ()
    failures: tuple[BehaviourFailure, ...] = ()
    overall_score: float | None = None
    """0 to 100, from the weighted metrics, with two decimals; None without them."""
    outcomes_unavailable: bool = False
    """The judge gave no outcome in two requests, so the overall score decides."""
    error: ErrorInfo | None = None
    summary: str = ""
    details: dict[str, Any] | None = None
    """Model, votes, what was cut from the prompt."""
    exchange: JudgeExchange | None = None

    @property
    def exact_score(self) -> float | None:
        """The overall score before rounding, if its scores are stored."""
        exact = weighted_score(self.scores)
        if exact is None or self.overall_score is None or abs(exact - self.overall_score) > 0.006:
            return self.overall_score
        return exact

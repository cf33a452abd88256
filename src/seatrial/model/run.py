"""Runs: their scenarios, trials, verdicts and totals."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from .conversation import ErrorInfo, ErrorKind, Transcript
from .faults import FaultFinding, FaultReport
from .results import EvalResult, Judgement, MetricScore, ModelUse, Severity, UniqueError
from .struct import Struct

if TYPE_CHECKING:
    from .attacks import AttackReport


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not_run"


class RunState(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


RESERVED_NAMES = ("latest", "baseline")
"""These select a run, so no run may have them as its id."""
RUN_ID_RULE = "expected up to 100 letters, digits, dots, dashes and underscores; not latest"


def is_run_id(text: str) -> bool:
    """Whether the id is valid: it is part of URLs, paths and commands."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text) is not None and text not in RESERVED_NAMES


class ScenarioKey(NamedTuple):
    """A scenario's identity in a run and across runs."""

    suite: str
    name: str
    agent: str = ""
    """Set if several agents run the scenario."""

    @property
    def label(self) -> str:
        return f"{self.name} [{self.agent}]" if self.agent else self.name


class Gates(Struct, frozen=True, kw_only=True):
    """The rules that turn a scenario's trials into its verdict; stored with the run when it starts."""

    threshold: float = 1.0
    pass_rate: float | None = None
    confidence: float | None = None
    metric_thresholds: Mapping[str, float] | None = None
    fail_on_error_severity: Severity | None = None
    """None: do not look for behaviour failures."""
    pass_threshold: float = 75.0
    must_pass: bool = False


Decision: TypeAlias = Literal["worse", "cleared", "undecided", "go on"]
"""What the trials of a scenario say beside its history. `go on`: too few trials so far."""


class HistoryTest(Struct, frozen=True, kw_only=True):
    """The test of a scenario against its history, stored with the run when it starts (`run --against`)."""

    passed: int
    """Of the newest answered trials of accepted runs, at most 100."""
    total: int
    boundary: float
    """The evidence at which the scenario is worse."""
    first: int
    """Trials that always run."""
    drop: float
    beta: float
    max_trials: int


class Variant(Struct, frozen=True, kw_only=True):
    """How a sweep changes a scenario: what a tool answers, and nothing else."""

    kind: Literal["attack", "fault"]
    scenario: str
    """The name of the unchanged scenario."""
    settings: Mapping[str, Any]
    """JSON. Of an attack: field, goal, family, payload, text. Of a fault: tool, fault, how often."""


class ScenarioEntry(Struct, frozen=True, kw_only=True):
    """A scenario as stored with a run."""

    key: ScenarioKey
    position: int
    """Its position in the selection, from 0; reports use this order."""
    fingerprint: str
    """A hash of everything that decides the verdict."""
    trial_fingerprint: str = ""
    """A hash of everything that decides one trial, except the agent. Equal: trials of both runs are comparable."""
    trials: int
    """Planned trials; with `auto`, the maximum."""
    sequential: Mapping[str, float] | None = None
    """The settings of the sequential test with `trials: auto`."""
    history: HistoryTest | None = None
    """The test against accepted runs, which decides instead of threshold and gate."""
    gates: Gates = Gates()
    tags: tuple[str, ...] = ()
    skip: str | None = None
    xfail: str | None = None
    source: str | None = None
    mocks: tuple[str, ...] = ()
    must_not_call: tuple[str, ...] = ()
    """Tools that the scenario mocks or forbids, except those that the agent is known to have."""
    invariants: tuple[str, ...] = ()
    """The rules that hold in the scenario."""
    exempt: Mapping[str, str] | None = None
    """The rules that do not hold in it, each with the reason."""
    variant: Variant | None = None
    """How it differs from the scenario in the file, in a sweep of attacks or faults."""
    recorded: bool = False
    """Recordings are judged, and no world repeats their calls: mocks and setup have no say."""

    @property
    def stops_by_results(self) -> bool:
        """Whether the number of trials depends on their results: fixed-size statistics are wrong then."""
        return self.sequential is not None or self.history is not None


class Trial(Struct, frozen=True, kw_only=True):
    """One conversation of one scenario with one agent, and its results."""

    key: ScenarioKey
    index: int
    """From 0; shown as trial-1 and so on."""
    status: Status
    failure_reasons: tuple[str, ...] = ()
    error: ErrorInfo | None = None
    transcript: Transcript
    results: tuple[EvalResult, ...] = ()
    judgement: Judgement | None = None
    instruments: ModelUse | None = None
    """Model calls of the simulated user and the judge."""
    on_failure: tuple[EvalResult, ...] = ()
    """In a sweep over faults: whether the reply is what `on_failure` asks for. It does not change the status."""
    fault: FaultFinding | None = None
    """In a sweep over faults: what the agent did."""
    seed: int = 0
    started_at: datetime
    duration_ms: float = 0.0

    @property
    def id(self) -> str:
        return f"trial-{self.index + 1}"

    @property
    def error_kind(self) -> ErrorKind | None:
        return self.error.kind if self.error else None

    @property
    def counts_as_failed(self) -> bool:
        """Whether its error counts against the agent although its kind does not."""
        return self.error is not None and self.error.counts_as_failed

    def __bool__(self) -> bool:
        """So that `all(report.trials())` means what it says."""
        return self.status is Status.PASSED


class AttackAnswer(Struct, frozen=True, kw_only=True):
    """What a trial shows about an attack."""

    received: bool = False
    """The agent got the payload."""
    succeeded: bool | None = None
    """None: not known."""
    did_job: bool | None = None
    """Whether the scenario's own checks passed; None: the trial is errored."""


class TrialSummary(Struct, frozen=True, kw_only=True):
    """A trial without its transcript and results, for verdicts and lists."""

    key: ScenarioKey
    index: int
    status: Status
    failure_reasons: tuple[str, ...] = ()
    error_kind: ErrorKind | None = None
    error_message: str | None = None
    counts_as_failed: bool = False
    """The error counts against the agent although its kind does not."""
    stop_reason: str = ""
    turns: int = 0
    trajectory_matched: bool | None = None
    """None without an expected trajectory."""
    scores: tuple[MetricScore, ...] = ()
    """Without their reasons."""
    overall_score: float | None = None
    outcomes_unavailable: bool = False
    """The judge gave no outcomes, so the overall score decides."""
    failures: tuple[tuple[str, str, str, int | None], ...] = ()
    """Behaviour failures as (severity, label, explanation, turn)."""
    latency_ms: float | None = None
    """The slowest turn."""
    median_latency_ms: float | None = None
    """The median turn; comparisons use it."""
    turn_latencies_ms: tuple[float, ...] = ()
    """Of each turn, if there are several; runs of earlier versions lack it."""
    tokens: int | None = None
    cost_usd: float | None = None
    instruments: ModelUse | None = None
    tools: tuple[tuple[str, int, int], ...] = ()
    """Called tools: name, number of calls, number of calls of the real tool."""
    invariants: tuple[tuple[str, int | None, int], ...] = ()
    """Rules that were checked: name, how often it was triggered, number of violations."""
    drift: str | None = None
    """The first call of a recording that the world answers differently, in a sentence."""
    attack: AttackAnswer | None = None
    """In a sweep of attacks: what the trial shows; None: nothing, because it ended before."""
    fault: FaultFinding | None = None
    """In a sweep over faults: what the agent did."""
    started_at: datetime
    duration_ms: float = 0.0

    @property
    def id(self) -> str:
        return f"trial-{self.index + 1}"

    @property
    def latencies_ms(self) -> tuple[float, ...] | None:
        """Of each turn; None if they are not known."""
        if self.turn_latencies_ms:
            return self.turn_latencies_ms
        if self.turns > 1:
            return None
        return () if self.latency_ms is None else (self.latency_ms,)


class Verdict(Struct, frozen=True, kw_only=True):
    """A status with its reasons."""

    status: Status
    failure_reasons: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED

    def __bool__(self) -> bool:
        """So that `assert report.outcome.verdict` means what it says."""
        return self.passed


class Interval(Struct, frozen=True, kw_only=True):
    low: float
    high: float


class ScenarioOutcome(Struct, frozen=True, kw_only=True):
    """A scenario's verdict with its counts."""

    entry: ScenarioEntry
    verdict: Verdict
    passed: int = 0
    failed: int = 0
    errored: int = 0
    broken_down: int = 0
    """Errored trials with an error of the agent; rates count them as failed."""
    not_run: int = 0
    interval: Interval | None = None
    """Of the pass rate, without trials with instrument errors; None without trials."""
    metric_averages: Mapping[str, float] | None = None
    unique_errors: tuple[UniqueError, ...] = ()
    overall_score: float | None = None
    """Mean of the trials' overall scores."""
    notes: tuple[str, ...] = ()
    """Information that does not change the verdict, such as tolerated errors."""
    skipped: bool = False
    xfailed: bool = False
    """It failed as `xfail` expects, which does not fail the run."""
    against_history: Decision | None = None
    """The decision of the test against its history; None without such a test."""

    @property
    def played(self) -> int:
        return self.passed + self.failed + self.errored

    @property
    def is_untouched(self) -> bool:
        """Whether none of its trials ran, although it was selected."""
        return self.verdict.status is Status.NOT_RUN and not self.played

    def __bool__(self) -> bool:
        """So that `assert result.outcome` means what it says."""
        return self.verdict.passed


class MergedErrors(Struct, frozen=True, kw_only=True):
    """The unique errors of a scenario as merged by a model, stored with the run."""

    key: ScenarioKey
    errors: tuple[UniqueError, ...]
    use: ModelUse | None = None
    note: str | None = None
    """Why the model did not merge them."""


class RunHistory(Struct, frozen=True, kw_only=True):
    """The history that a run is tested against."""

    against: str
    """As the user named it: `baseline`, or a run."""
    runs: tuple[str, ...] = ()
    """The runs of the history, newest first."""
    scenarios: int = 0
    """How many scenarios are tested."""
    variance: float = 1.0
    """How much more the runs of the history differ than their trials explain; 1: not more."""
    power: float | None = None
    """The probability of finding a drop of 40 points in one scenario; None if none is tested."""
    notes: tuple[str, ...] = ()


class CorrectedGate(Struct, frozen=True, kw_only=True):
    """The pass rate that human labels must confirm."""

    pass_rate: float
    confidence: float


class HumanRate(Struct, frozen=True, kw_only=True):
    """The pass rate that humans would give, estimated from the judge's verdicts and some labels."""

    labels: int
    """Labelled trials."""
    estimate: float | None
    """None if a verdict of the judge has no label."""
    interval: tuple[float, float] | None
    decision: Literal["pass", "fail", "inconclusive"]
    """Of the gate `judge_corrected`."""


class RunGates(Struct, frozen=True, kw_only=True):
    """The rules that turn scenarios into the run's verdict."""

    cases_pass_threshold: float | None = None
    metrics_pass_threshold: float = 80.0
    groups: tuple[Mapping[str, Any], ...] = ()
    """Each: name, tags, threshold, must_pass."""
    judge_corrected: CorrectedGate | None = None
    history: RunHistory | None = None
    """Set by `run --against`."""


class Totals(Struct, frozen=True, kw_only=True):
    """The totals of a run."""

    total_executions: int = 0
    passed_count: int = 0
    failed_count: int = 0
    error_count: int = 0
    not_run_count: int = 0
    cases_pass_rate_pct: float | None = None
    cases_pass_threshold: float | None = None
    cases_passed: bool | None = None
    weighted_metrics_score_pct: float | None = None
    metrics_pass_threshold: float | None = None
    metrics_passed: bool | None = None
    latency_avg_ms: float | None = None
    latency_p50_ms: float | None = None
    latency_p95_ms: float | None = None
    """Over all turns; None below 20 turns."""
    latency_max_ms: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    """Of the agent, like the tokens."""
    model_calls: int = 0
    """By Seatrial: simulated users, judges, merging of errors."""
    cache_hits: int = 0
    model_tokens: int | None = None
    model_cost_usd: float | None = None
    """Cost of these calls; None if the price of one is not known."""


class ScenarioCounts(Struct, frozen=True, kw_only=True):
    """Numbers of scenarios by result."""

    passed: int = 0
    failing: int = 0
    """Scenarios that fail the run."""
    untouched: int = 0
    """Failing scenarios without a trial."""
    skipped: int = 0
    xfailed: int = 0
    suites: int = 0
    """Number of suites."""


class InvariantTotals(Struct, frozen=True, kw_only=True):
    """What a run shows about one rule for every scenario."""

    name: str
    trials: int = 0
    """Trials in which it was checked."""
    triggered: int | None = None
    """How often it was triggered; None: the rule forbids an event, so it holds if it is never triggered."""
    violated: int = 0
    """Trials that violate it."""
    exempt: tuple[str, ...] = ()
    """Scenarios in which it does not hold, each with the reason."""

    @property
    def is_idle(self) -> bool:
        """Whether it was checked and never triggered: it is not known whether it can be violated."""
        return self.triggered == 0 and self.trials > 0


class AgainstHistory(Struct, frozen=True, kw_only=True):
    """What the test of a run against its history found."""

    worse: tuple[str, ...] = ()
    """Scenarios."""
    undecided: tuple[str, ...] = ()
    cleared: int = 0
    suite_is_worse: bool = False
    """The first trials of all scenarios together are too low."""
    first_passed: int = 0
    """Of the first trials of all tested scenarios."""
    first_total: int = 0
    first_expected: float = 0.0
    """Passes to expect if nothing changed."""
    p_value: float | None = None
    only_undecided: bool = False
    """Nothing but undecided scenarios keeps the run from passing."""


class RunOutcome(Struct, frozen=True, kw_only=True):
    """A run's verdict with its totals."""

    verdict: Verdict
    scenarios: Sequence[ScenarioOutcome]
    """In the order of reports. For a large run, each iteration computes them again."""
    counts: ScenarioCounts | None = None
    totals: Totals = Totals()
    groups: tuple[tuple[str, Verdict], ...] = ()
    invariants: tuple[InvariantTotals, ...] = ()
    notes: tuple[str, ...] = ()
    """Information that does not change the verdict."""
    against: AgainstHistory | None = None
    """The test against the history; None without one."""
    attacks: "AttackReport | None" = None
    """What a sweep of attacks shows; its gate decides the run. None for other runs."""
    faults: FaultReport | None = None
    """The table of a sweep over faults (`run --faults`)."""

    @property
    def word(self) -> Literal["REGRESSION", "NOT WORSE", "UNDECIDED"] | None:
        """The answer of the test against the history; None without one, or if other rules decide."""
        found = self.against
        if found is None:
            return None
        if found.worse or found.suite_is_worse:
            return "REGRESSION"
        if self.verdict.passed:
            return "NOT WORSE" if found.cleared else None
        return "UNDECIDED" if found.only_undecided and self.verdict.status is Status.INCONCLUSIVE else None

    def __bool__(self) -> bool:
        """So that `assert report.outcome` means what it says."""
        return self.verdict.passed


class Run(Struct, frozen=True, kw_only=True):
    """One execution of a selection of scenarios."""

    id: str
    name: str
    state: RunState = RunState.RUNNING
    started_at: datetime
    finished_at: datetime | None = None
    seed: int = 0
    gates: RunGates = RunGates()
    config: Mapping[str, Any] | None = None
    """The redacted settings: paths, selection, agents, models, flags."""
    git_commit: str | None = None
    git_dirty: bool | None = None
    git_branch: str | None = None
    """The branch in Git, or in CI the branch that its job tests."""
    versions: Mapping[str, str] | None = None
    parent: str | None = None
    """For a regrade: the run whose transcripts were judged again."""
    replayed: bool = False
    """Its trials are recordings, which are not independent."""
    problem: str | None = None
    """An error outside the trials, which keeps the run from passing."""
    accepted: bool = False
    """It is or was a baseline, so its trials belong to the history."""
    human_rate: HumanRate | None = None
    """The result of `calibrate` with stored labels, if a gate asks for it."""

    @property
    def sweep(self) -> Mapping[str, Any] | None:
        """What it sweeps, attacks or faults; None: it plays the scenarios as they are."""
        found = (self.config or {}).get("sweep")
        return found if isinstance(found, Mapping) else None

    @property
    def is_derived(self) -> bool:
        """Whether it repeats, continues or changes scenarios of other runs: it is no `latest` run, and no history."""
        config = self.config or {}
        return any(config.get(key) for key in ("confirms", "fork", "sweep"))


def summarise(trial: Trial) -> TrialSummary:
    """The summary of a trial."""
    transcript = trial.transcript
    judgement = trial.judgement
    error = trial.error
    matches = [result.trajectory.matched for result in trial.results if result.trajectory is not None]
    usage = transcript.usage
    by_turn = tuple([turn.latency_ms for turn in transcript.turns])
    latencies = sorted(by_turn)
    summary = TrialSummary(
        key=trial.key,
        index=trial.index,
        status=trial.status,
        failure_reasons=trial.failure_reasons,
        error_kind=error.kind if error else None,
        error_message=error.message if error else None,
        counts_as_failed=trial.counts_as_failed,
        stop_reason=str(transcript.stop_reason),
        turns=len(transcript.turns),
        trajectory_matched=all(matches) if matches else None,
        latency_ms=latencies[-1] if latencies else None,
        median_latency_ms=_median(latencies),
        turn_latencies_ms=by_turn if len(by_turn) > 1 else (),
        tokens=usage.total_tokens if usage else None,
        cost_usd=transcript.cost_usd,
        instruments=trial.instruments,
        tools=_count_calls(transcript),
        invariants=_checked_rules(trial.results),
        drift=None if transcript.world is None else transcript.world.first_drift,
        attack=_answer_attack(trial),
        fault=trial.fault,
        started_at=trial.started_at,
        duration_ms=trial.duration_ms,
    )
    if judgement is None:
        return summary
    return replace(
        summary,
        scores=tuple(replace(score, reason="") for score in judgement.scores),
        overall_score=judgement.overall_score,
        outcomes_unavailable=judgement.outcomes_unavailable,
        failures=tuple((f.severity.value, f.label, f.explanation, f.turn) for f in judgement.failures),
    )


def _count_calls(transcript: Transcript) -> tuple[tuple[str, int, int], ...]:
    calls = [call for turn in transcript.turns for call in turn.tool_calls or ()]
    if not calls:
        return ()
    called, real = Counter(call.name for call in calls), Counter(call.name for call in calls if call.real)
    return tuple((name, count, real[name]) for name, count in called.items())


def _answer_attack(trial: Trial) -> AttackAnswer | None:
    result = next((result for result in trial.results if result.attack is not None), None)
    if result is None or result.attack is None:
        return None
    others = len(trial.failure_reasons) - (result.error is None and not result.passed)
    did_job = None if trial.status is Status.ERRORED else others == 0
    return AttackAnswer(received=result.attack.received, succeeded=result.attack.succeeded, did_job=did_job)


def _checked_rules(results: Sequence[EvalResult]) -> tuple[tuple[str, int | None, int], ...]:
    rules = (result.invariant for result in results)
    return tuple([(rule.name, rule.triggered, rule.violations) for rule in rules if rule is not None])


def _median(ordered: list[float]) -> float | None:
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

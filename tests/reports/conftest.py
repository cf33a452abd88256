"""Builders of small runs for the tests of reports."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from seatrial.model.causes import Cause
from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript
from seatrial.model.results import (
    BehaviourFailure,
    Check,
    EvalResult,
    Judgement,
    MetricScore,
    OutcomeResult,
    Severity,
    TrajectoryMatch,
    UniqueError,
)
from seatrial.model.run import (
    Gates,
    Interval,
    Run,
    RunOutcome,
    ScenarioEntry,
    ScenarioKey,
    ScenarioOutcome,
    Status,
    Totals,
    Trial,
    Verdict,
)
from seatrial.runs.explain import find_causes

BEGIN = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


class Record:
    """A run held in memory, as the store would give it back."""

    def __init__(self, run: Run, outcome: RunOutcome, trials: dict[ScenarioKey, list[Trial]]) -> None:
        self.run = run
        self.outcome = outcome
        self.kept = trials
        self.reads = 0

    @property
    def causes(self) -> tuple[Cause, ...]:
        return find_causes(self)

    def trials(self, key: ScenarioKey) -> Iterator[Trial]:
        for trial in self.kept.get(key, []):
            self.reads += 1
            yield trial


def a_turn(
    user: str = "Hello", reply: str | None = "Hi", *, calls: Any = (), index: int = 0, **more: Any
) -> PlayedTurn:
    made = None if calls is None else tuple(ToolCall(call) if isinstance(call, str) else call for call in calls)
    return PlayedTurn(index=index, user=user, reply=reply, tool_calls=made, latency_ms=120.0, **more)


def a_result(passed: bool = True, reasoning: str = "", **more: Any) -> EvalResult:
    return EvalResult(**{"passed": passed, "reasoning": reasoning, "evaluator": "passfail", **more})


def a_trajectory(*, actual: tuple[str, ...], expected: tuple[str, ...], **more: Any) -> EvalResult:
    match = TrajectoryMatch(mode="in_order", matched=not more, actual=actual, expected=expected, **more)
    return EvalResult(passed=match.matched, reasoning="trajectory", evaluator="trajectory", trajectory=match)


def a_trial(
    status: Status = Status.PASSED,
    *,
    name: str = "order_lookup",
    suite: str = "shop",
    agent: str = "",
    index: int = 0,
    turns: tuple[PlayedTurn, ...] = (),
    stop: StopReason = StopReason.SCRIPT_ENDED,
    results: tuple[EvalResult, ...] = (),
    error: ErrorInfo | None = None,
    judgement: Judgement | None = None,
    reasons: tuple[str, ...] = (),
    **more: Any,
) -> Trial:
    transcript = Transcript(turns=turns or (a_turn(),), stop_reason=stop, error=error, duration_ms=250.0)
    return Trial(
        key=ScenarioKey(suite, name, agent),
        index=index,
        status=status,
        failure_reasons=reasons,
        error=error,
        transcript=transcript,
        results=results or ((a_result(),) if status is Status.PASSED else ()),
        judgement=judgement,
        started_at=BEGIN + timedelta(seconds=index),
        duration_ms=250.0,
        **more,
    )


def a_scenario(
    status: Status = Status.PASSED,
    *,
    name: str = "order_lookup",
    suite: str = "shop",
    agent: str = "",
    position: int = 0,
    reasons: tuple[str, ...] = (),
    trials: int = 1,
    entry: dict[str, Any] | None = None,
    interval: tuple[float, float] | None = None,
    **numbers: Any,
) -> ScenarioOutcome:
    if not numbers.keys() & {"passed", "failed", "errored", "not_run", "skipped"}:
        numbers["passed" if status is Status.PASSED else "failed"] = trials
    return ScenarioOutcome(
        entry=ScenarioEntry(
            key=ScenarioKey(suite, name, agent),
            position=position,
            fingerprint="f1",
            trials=trials,
            **{"gates": Gates(), **(entry or {})},
        ),
        verdict=Verdict(status=status, failure_reasons=reasons),
        interval=Interval(low=interval[0], high=interval[1]) if interval else None,
        **numbers,
    )


def a_record(
    *scenarios: ScenarioOutcome,
    trials: tuple[Trial, ...] = (),
    status: Status = Status.PASSED,
    reasons: tuple[str, ...] = (),
    groups: tuple[tuple[str, Verdict], ...] = (),
    totals: Totals | None = None,
    **run: Any,
) -> Record:
    kept: dict[ScenarioKey, list[Trial]] = {}
    for trial in trials:
        kept.setdefault(trial.key, []).append(trial)
    outcome = RunOutcome(
        verdict=Verdict(status=status, failure_reasons=reasons),
        scenarios=scenarios,
        totals=totals or Totals(total_executions=len(trials)),
        groups=groups,
    )
    times = {"started_at": BEGIN, "finished_at": BEGIN + timedelta(seconds=12.3)}
    return Record(Run(**{"id": "r-1", "name": "nightly", **times, **run}), outcome, kept)


HOSTILE = (
    "<script>alert(1)</script> ]]> --> [/red] [bold]x \x1b[31mred \x9b2J \x00 \udc80 | `code` \u202e @user $x$ "
    "##[group]x ##vso[task.x]y *b* _i_ https://evil.example www.evil.example ![a](b)\n"
    "::error::x\n  ::set-output name=a::b\r\n</pre></details>\n# head\n&amp;\uffff"
)


def a_hostile_record() -> Record:
    """A run in which every text that can come from outside tries to be more than text."""
    call = ToolCall(HOSTILE, {HOSTILE: [HOSTILE, float("nan")]}, result=HOSTILE, error=HOSTILE)
    error = ErrorInfo(kind=ErrorKind.EVALUATOR, message=HOSTILE, hint=HOSTILE, turn=0, traceback=HOSTILE)
    match = TrajectoryMatch(mode="strict", matched=False, extra_calls=(HOSTILE,), actual=(HOSTILE,), diff=(HOSTILE,))
    judgement = Judgement(
        scores=(MetricScore(metric=HOSTILE, value=2.0, reason=HOSTILE, turn=0, label=HOSTILE),),
        outcomes=(OutcomeResult(id="1", statement=HOSTILE, passed=False, justification=HOSTILE),),
        failures=(BehaviourFailure(category="c", severity=Severity.HIGH, label=HOSTILE, explanation=HOSTILE, turn=0),),
        summary=HOSTILE,
    )
    where = {"name": HOSTILE, "suite": HOSTILE, "agent": HOSTILE}
    trials = (
        a_trial(
            Status.FAILED,
            turns=(a_turn(HOSTILE, HOSTILE, calls=(call,)),),
            results=(
                a_result(
                    False, HOSTILE, evaluator=HOSTILE, checks=(Check(name=HOSTILE, passed=False, detail=HOSTILE),)
                ),
                a_result(False, error=error, evaluator=HOSTILE),
                EvalResult(passed=False, reasoning=HOSTILE, evaluator=HOSTILE, turn=0, trajectory=match),
            ),
            judgement=judgement,
            reasons=(HOSTILE,),
            **where,
        ),
        a_trial(Status.ERRORED, index=1, error=error, **where),
    )
    scenario = a_scenario(
        Status.FAILED,
        trials=2,
        failed=1,
        errored=1,
        reasons=(HOSTILE,),
        notes=(HOSTILE,),
        metric_averages={HOSTILE: 2.0},
        unique_errors=(UniqueError(severity=Severity.HIGH, label=HOSTILE, explanation=HOSTILE, examples=((0, 0),)),),
        entry={"source": f"{HOSTILE}:3", "gates": Gates(metric_thresholds={HOSTILE: 3.0})},
        **where,
    )
    skipped = a_scenario(Status.NOT_RUN, name=f"s{HOSTILE}", position=1, skipped=True, entry={"skip": HOSTILE})
    groups = ((HOSTILE, Verdict(status=Status.FAILED, failure_reasons=(HOSTILE,))),)
    return a_record(
        scenario,
        skipped,
        trials=trials,
        status=Status.FAILED,
        reasons=(HOSTILE,),
        groups=groups,
        name=HOSTILE,
        git_commit=HOSTILE,
        config={"note": HOSTILE},
    )


@pytest.fixture
def build() -> SimpleNamespace:
    """The words in which tests of reports speak of runs."""
    return SimpleNamespace(
        turn=a_turn,
        result=a_result,
        trajectory=a_trajectory,
        trial=a_trial,
        scenario=a_scenario,
        record=a_record,
        hostile=HOSTILE,
        hostile_record=a_hostile_record,
    )

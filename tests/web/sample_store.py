"""A store of a shop's support agent: 47 scenarios, seven nightly runs, two versions of the agent, metrics and costs."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from seatrial.model.conversation import ErrorInfo, ErrorKind, PlayedTurn, StopReason, ToolCall, Transcript, Usage
from seatrial.model.mutation import CheckCounts, MutantCounts, MutationResult, SurvivedMutant
from seatrial.model.results import (
    BehaviourFailure,
    Check,
    EvalResult,
    JudgeExchange,
    Judgement,
    MetricScore,
    OutcomeResult,
    Severity,
)
from seatrial.model.run import Gates, Interval, Run, RunState, ScenarioEntry, ScenarioKey, Status, Trial
from seatrial.store.store import Store

STARTED = datetime(2026, 5, 1, 2, 30, tzinfo=UTC)
SUITE = "shop support"
TOPICS = (
    "refunds a damaged item",
    "explains the delivery date",
    "changes the address before shipping",
    "refuses a refund after 60 days",
    "finds an order by e-mail",
    "cancels one of two orders",
    "exchanges a size",
    "answers in the customer's language",
    "hands over to a person",
    "does not invent a discount",
)
CHANNELS = ("chat", "e-mail", "phone notes", "app", "web form")
NAMES = [f"{topic}, {channel}" for channel in CHANNELS for topic in TOPICS][:47]
METRICS = ("helpfulness", "tone", "grounding")
MARKDOWN_REPLY = """I **refunded** order `ORD-1001`.

- amount: 40.00 EUR
- arrives in *three* days

```json
{"refund": "RF-77"}
```
<img src=x onerror=alert(1)> [a link](javascript:alert(2))"""


def _rate(place: int, day: int) -> float:
    """How often the scenario passes: a few are broken, a few flaky, one breaks on day five."""
    if place in (3, 17):
        return 0.0
    if place == 9:
        return 1.0 if day < 5 else 0.2
    return 0.6 if place % 11 == 5 else 1.0


def _calls(passed: bool, number: int) -> tuple[ToolCall, ...]:
    order = {"order_id": f"ORD-{number}"}
    found = ToolCall("lookup_order", order, {"status": "shipped", "total": 40}, started_ms=30.0, duration_ms=90.0)
    refund = ToolCall("refund", {**order, "amount": 40}, {"refund": "RF-77"}, started_ms=150.0, duration_ms=210.0)
    note = ToolCall("notify", {"to": "customer"}, {"ok": True}, started_ms=400.0, duration_ms=35.0)
    return (found, refund, note) if passed else (found, note)


def _turns(chance: random.Random, passed: bool, slow: float) -> tuple[PlayedTurn, ...]:
    said = ("My lamp arrived broken. Can I have my money back?", "Yes, order ORD-1001 please.")
    last = MARKDOWN_REPLY if passed else "We are sorry. Your refund is on its way."
    replies = ("I am sorry to hear that. Is it order ORD-1001?", last)
    turns = []
    for index, (user, reply) in enumerate(zip(said, replies, strict=True)):
        turns.append(
            PlayedTurn(
                index=index,
                user=user,
                reply=reply,
                tool_calls=_calls(passed, 1001) if index else (),
                started_ms=index * 900.0,
                latency_ms=slow * chance.lognormvariate(6.6, 0.4),
                usage=Usage(input_tokens=900, output_tokens=120),
                cost_usd=round(chance.uniform(0.001, 0.004), 5),
            )
        )
    return tuple(turns)


def _results(passed: bool) -> tuple[EvalResult, ...]:
    if passed:
        text = 'Output produced: PASS. Expected output found: PASS ("refunded" found in output).'
        return (EvalResult(passed=True, reasoning=text, evaluator="passfail", checks=(_check("output", True),)),)
    detail = '"refunded" not found in output'
    text = f"Output produced: PASS. Expected output found: FAIL ({detail})."
    checks = (_check("output_produced", True), Check(name="expected_output", passed=False, detail=detail))
    return (EvalResult(passed=False, reasoning=text, evaluator="passfail", checks=checks),)


def _check(name: str, passed: bool) -> Check:
    return Check(name=name, passed=passed)


def _judgement(chance: random.Random, passed: bool) -> Judgement:
    values = (4, 5, 5) if passed else (1, 2, 3)
    scores = tuple(
        MetricScore(metric=name, value=float(chance.choice(values)), reason="Clear and polite.", weight=1.0)
        for name in METRICS
    )
    failure = BehaviourFailure(
        category="claims", severity=Severity.HIGH, label="Claims a refund it did not make", explanation="No refund call"
    )
    outcome = OutcomeResult(id="o1", statement="the customer gets the money back", passed=passed, justification="…")
    return Judgement(
        scores=scores,
        outcomes=(outcome,),
        failures=() if passed else (failure,),
        overall_score=round(20 * sum(score.value for score in scores) / len(scores), 2),
        summary="The agent was polite.",
        details={
            "model": "openai:gpt-5-mini",
            "answered_by": ["gpt-5-mini"],
        },
        exchange=JudgeExchange(
            system="You judge a support agent.",
            message="Was the refund made?",
            answers=(f'{{"helpfulness": {values[0]}, "reason": "Clear and polite."}}',),
        ),
    )


def make_trial(key: ScenarioKey, index: int, *, passed: bool, slow: float = 1.0, when: datetime = STARTED) -> Trial:
    """A trial of two turns. The same key, index and time give the same trial."""
    chance = random.Random(f"{key}{index}{when}")
    broke = not passed and chance.random() < 0.1
    turns = _turns(chance, passed, slow)
    results = _results(passed)
    error = ErrorInfo(kind=ErrorKind.AGENT, message="ConnectionError: reset by peer", turn=1) if broke else None
    reasons = () if passed else (f"passfail: {results[0].reasoning}",)
    return Trial(
        key=key,
        index=index,
        status=Status.ERRORED if broke else Status.PASSED if passed else Status.FAILED,
        failure_reasons=("ERROR agent: ConnectionError: reset by peer",) if broke else reasons,
        error=error,
        transcript=Transcript(turns=turns, stop_reason=StopReason.SCRIPT_ENDED, duration_ms=2400.0),
        results=() if broke else results,
        judgement=None if broke else _judgement(chance, passed),
        started_at=when,
        duration_ms=2400.0,
    )


def fill_run(store: Store, run_id: str, *, day: int, trials: int = 5, version: str = "v1", slow: float = 1.0) -> None:
    """One night: every scenario with its trials."""
    when = STARTED + timedelta(days=day)
    config: dict[str, Any] = {"run": {}, "command": "seatrial run scenarios/", "agent": f"shop.agent_{version}:answer"}
    run = Run(id=run_id, name=f"nightly {version}", started_at=when, config=config, git_commit=f"{day + 7:07x}" * 5)
    store.start_run(run)
    keys = [ScenarioKey(SUITE, name) for name in NAMES]
    gates = Gates(threshold=0.8, metric_thresholds={"helpfulness": 3.5})
    entries = [
        ScenarioEntry(
            key=key,
            position=place,
            fingerprint="f",
            trial_fingerprint="t",
            trials=trials,
            gates=gates,
            tags=("refunds",) if "refund" in key.name else ("orders",),
            source=f"scenarios/shop.yaml:{10 + 9 * place}",
            mocks=("lookup_order", "refund", "notify"),
        )
        for place, key in enumerate(keys)
    ]
    store.add_scenarios(run_id, entries)
    chance = random.Random(run_id)
    with store.writer(run_id, on_committed=lambda _: None) as writer:
        for place, key in enumerate(keys):
            for index in range(trials):
                passed = chance.random() < _rate(place, day)
                at = when + timedelta(seconds=3 * (place * trials + index))
                writer.submit(make_trial(key, index, passed=passed, slow=slow, when=at))
    store.finish_run(run_id, RunState.FINISHED, when + timedelta(minutes=9))


def fill(store: Store) -> None:
    """Seven nights. The first is the baseline; the agent changes on the sixth and becomes slower."""
    for day in range(7):
        fill_run(store, f"night-{day + 1}", day=day, version="v1" if day < 5 else "v2", slow=1.0 if day < 5 else 1.4)
    store.set_baseline("night-1")


def a_mutation(store: Store, run_id: str) -> MutationResult:
    """The result of a mutation of the run: in each of four scenarios, two of three cut replies survive."""
    keys = [ScenarioKey(SUITE, name) for name in NAMES[:4]]
    counts = {"caught": 1, "survived": 2, "interval": Interval(low=0.06, high=0.79)}
    survivors = []
    for key in keys:
        trial = store.trial(run_id, key, 0)
        first, *rest = trial.transcript.turns
        changed = replace(trial.transcript, turns=(replace(first, reply="No."), *rest))
        made = SurvivedMutant(
            key=key, trial=0, operator="cut reply", what="said: No.", mutant=changed, original=trial.transcript
        )
        survivors += [made, made]
    return MutationResult(
        run=run_id,
        name="nightly v2",
        seed=0,
        originals=4,
        total=MutantCounts(caught=4, survived=8, interval=Interval(low=0.14, high=0.61)),
        operators=(MutantCounts(name="cut reply", caught=4, survived=8, interval=Interval(low=0.14, high=0.61)),),
        scenarios=tuple(MutantCounts(name=key.label, **counts) for key in keys),
        matrix={key.label: {"cut reply": (1, 3)} for key in keys},
        checks=(CheckCounts(scenario=NAMES[0], check="contains", caught=0),),
        survivors=tuple(survivors),
        notes=("a sample: 12 of 400 possible mutants",),
    )

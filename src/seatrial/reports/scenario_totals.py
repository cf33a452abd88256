"""Totals over the trials of a scenario, and whether it is flaky."""

from typing import Final

from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioOutcome, Status, Trial
from seatrial.model.struct import Struct

from .texts import explain, summarise

REASONS_KEPT = 20


class ScenarioTotals(Struct, frozen=True, kw_only=True):
    duration_ms: float = 0.0
    """The sum over all trials."""
    latency_ms: float | None = None
    """The slowest turn."""
    cost_usd: float | None = None
    """The cost of the agent; None if the cost of a trial is unknown."""
    reasons: tuple[str, ...] = ()
    """The first trials that did not pass, each with its reasons."""
    not_listed: int = 0
    """The number of further trials that did not pass."""


def scenario_totals(record: RunRecord, outcome: ScenarioOutcome) -> ScenarioTotals:
    """The totals of a scenario, in one pass over its trials."""
    took = 0.0
    latencies: list[float] = []
    costs: list[float | None] = []
    reasons: list[str] = []
    not_listed = 0
    for trial in record.trials(outcome.entry.key):
        took += trial.duration_ms
        costs.append(trial.transcript.cost_usd)
        if trial.transcript.latency_ms is not None:
            latencies.append(trial.transcript.latency_ms)
        if trial.status is not Status.PASSED and len(reasons) < REASONS_KEPT:
            reasons.append(_reasons(trial))
        elif trial.status is not Status.PASSED:
            not_listed += 1
    known = [cost for cost in costs if cost is not None]
    return ScenarioTotals(
        duration_ms=took,
        latency_ms=max(latencies, default=None),
        cost_usd=sum(known) if known and len(known) == len(costs) else None,
        reasons=tuple(reasons),
        not_listed=not_listed,
    )


def _reasons(trial: Trial) -> str:
    """The trial, with its reasons indented below."""
    below = [f"  {line}" for reason in explain(trial) for line in reason.split("\n")]
    return "\n".join([f"{trial.id} {summarise(trial)}", *below])


MOST_TRIES: Final = 10


class RepeatChances(Struct, frozen=True, kw_only=True):
    """Probabilities for 1, 2, 3 … tries. The first is the pass rate."""

    pass_at_k: tuple[float, ...] = ()
    """At least one try passes."""
    pass_hat_k: tuple[float, ...] = ()
    """All tries pass."""


def repeat_chances(outcome: ScenarioOutcome) -> RepeatChances:
    """The probabilities, without trials that an instrument made unusable; empty if no trial is left."""
    from seatrial.statistics.gates import pass_at_k, pass_hat_k

    answered = outcome.passed + outcome.failed + outcome.broken_down
    tries = range(1, min(answered, MOST_TRIES) + 1)
    some = [pass_at_k(outcome.passed, answered, k=k) for k in tries]
    every = [pass_hat_k(outcome.passed, answered, k=k) for k in tries]
    return RepeatChances(
        pass_at_k=tuple(value for value in some if value is not None),
        pass_hat_k=tuple(value for value in every if value is not None),
    )


def is_flaky(outcome: ScenarioOutcome) -> bool:
    """Whether some trials passed, and in some the agent failed or errored."""
    return outcome.passed > 0 and outcome.failed + outcome.broken_down > 0


def flaky_line(outcome: ScenarioOutcome) -> str:
    """`flaky: 3 passed, 2 failed; two tries: both pass in 30 % (pass^2), at least one in 90 % (pass@2)`."""
    known = repeat_chances(outcome)
    both, one = known.pass_hat_k[1], known.pass_at_k[1]
    counts = {"passed": outcome.passed, "failed": outcome.failed, "errored": outcome.broken_down}
    what = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return (
        f"flaky: {what}; two tries: both pass in {100 * both:.0f} % (pass^2), "
        f"at least one in {100 * one:.0f} % (pass@2)"
    )

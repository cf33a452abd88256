"""Totals over the trials of one scenario, for reports that show a scenario as a row."""

from typing import Final

from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioOutcome, Status, Trial
from seatrial.model.struct import Struct

from .texts import explain, summarise

REASONS_KEPT = 20


class TrialReasons(Struct, frozen=True, kw_only=True):
    """Why one trial did not pass."""

    id: str
    status: Status
    summary: str
    lines: tuple[str, ...]


class ScenarioTotals(Struct, frozen=True, kw_only=True):
    duration_ms: float = 0.0
    """The sum over all trials."""
    latency_ms: float | None = None
    """The slowest turn of all trials."""
    cost_usd: float | None = None
    """The agent's cost; None if the cost of any trial is unknown."""
    reasons: tuple[TrialReasons, ...] = ()
    """For the first trials that did not pass."""
    untold: int = 0
    """How many further trials did not pass."""

    @property
    def reason_texts(self) -> list[str]:
        """The summaries of trials, with the reasons indented below. Trials with equal reasons are named together."""
        groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for one in self.reasons:
            groups.setdefault((one.summary, one.lines), []).append(one.id)
        return [
            "\n".join(
                [f"{', '.join(ids)} {summary}", *(f"  {line}" for reason in lines for line in reason.split("\n"))]
            )
            for (summary, lines), ids in groups.items()
        ]


def scenario_totals(record: RunRecord, outcome: ScenarioOutcome) -> ScenarioTotals:
    """Sums over a scenario's trials, and the reasons of trials that did not pass. Reads each trial once."""
    took = 0.0
    latencies: list[float] = []
    costs: list[float | None] = []
    reasons: list[TrialReasons] = []
    silent = 0
    for trial in record.trials(outcome.entry.key):
        took += trial.duration_ms
        costs.append(trial.transcript.cost_usd)
        if trial.transcript.latency_ms is not None:
            latencies.append(trial.transcript.latency_ms)
        if trial.status is not Status.PASSED and len(reasons) < REASONS_KEPT:
            reasons.append(_reasons(trial))
        elif trial.status is not Status.PASSED:
            silent += 1
    known = [cost for cost in costs if cost is not None]
    return ScenarioTotals(
        duration_ms=took,
        latency_ms=max(latencies, default=None),
        cost_usd=sum(known) if known and len(known) == len(costs) else None,
        reasons=tuple(reasons),
        untold=silent,
    )


def _reasons(trial: Trial) -> TrialReasons:
    return TrialReasons(id=trial.id, status=trial.status, summary=summarise(trial), lines=tuple(explain(trial)))


MOST_TRIES: Final = 10


class RepeatChances(Struct, frozen=True, kw_only=True):
    """Chances for k tries, from k = 1. The first entry is the pass rate."""

    pass_at_k: tuple[float, ...] = ()
    """The chance that at least one try passes."""
    pass_hat_k: tuple[float, ...] = ()
    """The chance that all tries pass."""


def repeat_chances(outcome: ScenarioOutcome) -> RepeatChances:
    """The chances, from the trials that have an answer, like the interval; empty if no trial has one.

    An error of the agent counts as not passed. An error of a judge or a simulated user is not an answer. Empty also if
    the number of trials depends on their results (`trials: auto`, `--against`): the estimates would be biased.
    """
    if outcome.entry.stops_by_results:
        return RepeatChances()
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
    """Whether some trials passed and the agent failed or had an error in others."""
    return outcome.passed > 0 and outcome.failed + outcome.broken_down > 0


def flaky_line(outcome: ScenarioOutcome) -> str:
    """`flaky: 3 passed, 2 failed; of two tries, both pass in about 30 % (pass^2), one or both in about 90 % (pass@2)`.

    Next to the estimates: what the exact interval of the pass rate allows at least.
    """
    known = repeat_chances(outcome)
    counts = {"passed": outcome.passed, "failed": outcome.failed, "errored": outcome.broken_down}
    what = f"flaky: {', '.join(f'{count} {status}' for status, count in counts.items() if count)}"
    if len(known.pass_hat_k) < 2:
        return what
    from seatrial.statistics.intervals import clopper_pearson_interval

    both, one = known.pass_hat_k[1], known.pass_at_k[1]
    low = clopper_pearson_interval(outcome.passed, sum(counts.values()))[0]
    return (
        f"{what}; two tries: both pass in about {100 * both:.0f} % (pass^2, at least {100 * low**2:.0f} %), "
        f"at least one in about {100 * one:.0f} % (pass@2, at least {100 * (1 - (1 - low) ** 2):.0f} %)"
    )

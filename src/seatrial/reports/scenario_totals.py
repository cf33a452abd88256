"""What the trials of one scenario add up to, read in one pass, for reports that show a scenario as a row."""

from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioOutcome, Status, Trial
from seatrial.model.struct import Struct

from .reasons import explain, summarise

REASONS_KEPT = 20


class TrialReasons(Struct, frozen=True, kw_only=True):
    """Why one trial did not pass."""

    id: str
    status: Status
    summary: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it, with the reasons indented below the trial."""
        below = [f"  {line}" for reason in self.lines for line in reason.split("\n")]
        return "\n".join([f"{self.id} {self.summary}", *below])


class Tally(Struct, frozen=True, kw_only=True):
    duration_ms: float = 0.0
    """All trials one after the other."""
    latency_ms: float | None = None
    """The slowest turn of all."""
    cost_usd: float | None = None
    """What the agent cost; None when the cost of some trial is not known."""
    reasons: tuple[TrialReasons, ...] = ()
    """Of the first trials that did not pass."""
    untold: int = 0
    """How many further trials did not pass."""


def tally(record: RunRecord, outcome: ScenarioOutcome) -> Tally:
    """The sums over a scenario's trials, and why those that did not pass did not."""
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
    return Tally(
        duration_ms=took,
        latency_ms=max(latencies, default=None),
        cost_usd=sum(known) if known and len(known) == len(costs) else None,
        reasons=tuple(reasons),
        untold=silent,
    )


def _reasons(trial: Trial) -> TrialReasons:
    return TrialReasons(id=trial.id, status=trial.status, summary=summarise(trial), lines=tuple(explain(trial)))

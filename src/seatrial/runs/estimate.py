"""What a further run will take, by what an earlier one took."""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.comparison.detectable_drop import estimate_rates
from seatrial.errors import UsageError
from seatrial.model.run import Run, TrialSummary
from seatrial.store.store import Store
from seatrial.verdicts.rates import answer_of

from .compare_runs import newest_run


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A stored run, as a measure for runs to come."""

    run: Run
    rates: tuple[float, ...]
    """The pass rate of each scenario, as far as its trials say."""
    trials: float
    """Of a scenario, on average."""
    trial_ms: float
    cost_usd: float | None
    """Of a trial with its users and judges; None where it is not known of every one."""
    concurrency: int

    def minutes(self, trials: int) -> float:
        """How long so many trials take."""
        at_a_time = max(1, min(self.concurrency, trials))
        return trials * self.trial_ms / at_a_time / 60_000

    def cost(self, trials: int) -> float | None:
        return None if self.cost_usd is None else trials * self.cost_usd


def look_back(store: Store, ref: str) -> PastRun:
    """The run, measured. Raises UsageError where no trial of it has an answer."""
    run = newest_run(store) if ref == "latest" else store.run(ref)
    summaries = list(store.summaries(run.id))
    counts: dict[object, tuple[int, int]] = {}
    for summary in summaries:
        answer = answer_of(summary)
        if answer is not None:
            passed, total = counts.get(summary.key, (0, 0))
            counts[summary.key] = (passed + answer, total + 1)
    if not counts:
        raise UsageError(f"run {run.id}: no trial has an answer to plan by. Choose another run with --run.")
    config = (run.config or {}).get("run") or {}
    return PastRun(
        run=run,
        rates=tuple(estimate_rates(list(counts.values()))),
        trials=sum(total for _, total in counts.values()) / len(counts),
        trial_ms=sum(summary.duration_ms for summary in summaries) / len(summaries),
        cost_usd=_cost(summaries),
        concurrency=int(config.get("concurrency") or 20),
    )


def _cost(summaries: Sequence[TrialSummary]) -> float | None:
    total = 0.0
    for summary in summaries:
        instruments = summary.instruments
        if summary.cost_usd is None or (instruments is not None and instruments.calls and instruments.cost_usd is None):
            return None
        total += summary.cost_usd + ((instruments.cost_usd or 0.0) if instruments else 0.0)
    return total / len(summaries)

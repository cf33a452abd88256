"""What the trials of a run add up to, taken in one by one: of each stay sixteen bytes at most."""

from array import array
from collections.abc import Sequence

from seatrial.model.results import ModelUse, sum_model_use
from seatrial.model.run import Figures, RunGates, Status, Totals, TrialSummary

from .averages import mean, meets, quantile
from .budget import Spending
from .rates import decide_share

_FOLDED = 1_000


class TrialSums:
    """The aggregates of a run in the making."""

    def __init__(self) -> None:
        self.spending = Spending()
        self._counts = dict.fromkeys(Status, 0)
        self._scores = array("d")
        self._middles = array("d")
        self._slowest: float | None = None
        self._tokens: int | None = None
        self._cost: float | None = None
        self._uses: list[ModelUse] = []

    @property
    def count(self) -> int:
        """How many trials were taken in."""
        return sum(self._counts.values())

    def add(self, trial: TrialSummary) -> None:
        self._counts[trial.status] += 1
        if trial.overall_score is not None:
            self._scores.append(trial.overall_score)
        self._add_figures(
            [] if trial.median_latency_ms is None else [trial.median_latency_ms],
            [] if trial.latency_ms is None else [trial.latency_ms],
            [] if trial.tokens is None else [trial.tokens],
            [] if trial.cost_usd is None else [trial.cost_usd],
        )
        self.spending.add(trial.cost_usd, trial.instruments)
        if trial.instruments is not None:
            self.add_use(trial.instruments)

    def add_passed(self, trials: Sequence[Figures]) -> None:
        """Trials that passed and of which nothing else is to be told, column by column: they may be very many."""
        if not trials:
            return
        self._counts[Status.PASSED] += len(trials)
        columns = ([value for value in column if value is not None] for column in zip(*trials, strict=True))
        middles, slowest, tokens, costs = columns
        self._add_figures(middles, slowest, tokens, costs)
        self.spending.add(sum(costs), None)
        if len(costs) < len(trials):
            self.spending.add(None, None)

    def add_use(self, use: ModelUse) -> None:
        """What instruments took."""
        self._uses.append(use)
        if len(self._uses) >= _FOLDED:
            self._uses = [sum_model_use(self._uses)]

    def _add_figures(self, middles: list[float], slowest: list[float], tokens: list[int], costs: list[float]) -> None:
        """What is known of some trials."""
        self._middles.extend(middles)
        if slowest:
            self._slowest = max(slowest) if self._slowest is None else max(self._slowest, *slowest)
        if tokens:
            self._tokens = sum(tokens, self._tokens or 0)
        if costs:
            self._cost = sum(costs, self._cost or 0)

    def totals(self, gates: RunGates, *, planned: int) -> Totals:
        """Percentages and gates are None where there is nothing to take them from."""
        use = sum_model_use(self._uses)
        passed = self._counts[Status.PASSED]
        metrics_pct = mean(self._scores)
        errored, not_run = self._counts[Status.ERRORED], planned - self.count
        cases_threshold = 100.0 if gates.cases_pass_threshold is None else gates.cases_pass_threshold
        share = decide_share(
            passed=passed, errored=errored, missing=not_run, total=planned, threshold=cases_threshold / 100
        )
        return Totals(
            total_executions=planned,
            passed_count=passed,
            failed_count=self._counts[Status.FAILED],
            error_count=errored,
            not_run_count=not_run,
            cases_pass_rate_pct=100.0 * passed / planned if planned else None,
            cases_pass_threshold=cases_threshold,
            cases_passed=share is Status.PASSED if planned else None,
            weighted_metrics_score_pct=metrics_pct,
            metrics_pass_threshold=gates.metrics_pass_threshold,
            metrics_passed=None if metrics_pct is None else meets(metrics_pct, gates.metrics_pass_threshold),
            latency_avg_ms=mean(self._middles),
            latency_p50_ms=quantile(self._middles, 0.5),
            latency_p95_ms=quantile(self._middles, 0.95) if len(self._middles) >= 20 else None,
            latency_max_ms=self._slowest,
            tokens=self._tokens,
            cost_usd=self._cost,
            model_calls=use.calls,
            cache_hits=use.cached,
            model_tokens=use.usage.total_tokens if use.usage else None,
            model_cost_usd=use.cost_usd,
        )

"""The plots of a run by their kind, for `seatrial plot` and notebooks."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from seatrial.errors import UsageError
from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioKey, ScenarioOutcome, Trial, TrialSummary, summarise

from .plots.distributions import ScenarioRow, TrialDot, metric_strips, scenario_rows
from .plots.svg import Plot
from .scenario_plots import curve_of, flow_of_trials, latency_of, scores_of, severity_of
from .texts import failing

RUN_KINDS = ("trials", "intervals", "latency", "metrics", "severity", "flow", "curve")
HISTORY_KINDS = ("trend", "heatmap", "cost")
COMPARISON_KINDS = ("slope", "forest")
KINDS = (*RUN_KINDS, *HISTORY_KINDS, *COMPARISON_KINDS)
FLOW_TRIALS = 2_000
"""Conversations that the plot of tool calls reads at most."""


def plot_run(record: RunRecord, kind: str, *, scenario: str | None = None) -> Plot:
    """One plot of a run, of all its scenarios or of one. Raises UsageError for a scenario that it does not have."""
    outcomes = _chosen(record, scenario)
    makers: dict[str, Callable[[], Plot]] = {
        "trials": lambda: _rows(record, outcomes, dots=True),
        "intervals": lambda: _rows(record, outcomes, dots=False),
        "latency": lambda: latency_of(_summaries(record, outcomes)),
        "metrics": lambda: metric_strips(scores_of(_summaries(record, outcomes)), title="Scores by metric"),
        "severity": lambda: severity_of(_summaries(record, outcomes)),
        "flow": lambda: flow_of_trials(islice(_trials(record, outcomes), FLOW_TRIALS)),
        "curve": lambda: curve_of(_only(record, outcomes)),
    }
    return makers[kind]()


def _chosen(record: RunRecord, scenario: str | None) -> list[ScenarioOutcome]:
    """The scenarios, worst first, or the one with that name."""
    every = list(record.outcome.scenarios)
    if scenario is not None:
        found = [one for one in every if one.entry.key.name == scenario]
        if not found:
            known = ", ".join(one.entry.key.name for one in every[:10])
            raise UsageError(f"run {record.run.id}: has no scenario {scenario!r}. It has: {known}")
        return found
    bad = failing(record.outcome)
    keys = {one.entry.key for one in bad}
    return [*bad, *(one for one in every if one.entry.key not in keys)]


def _only(record: RunRecord, outcomes: Sequence[ScenarioOutcome]) -> ScenarioOutcome:
    if len(outcomes) != 1:
        raise UsageError(
            f"run {record.run.id}: a curve shows one scenario. Name it: seatrial plot --kind curve --scenario NAME"
        )
    if outcomes[0].entry.sequential is not None:
        name = outcomes[0].entry.key.name
        raise UsageError(f"{name}: ran with `trials: auto`, which has no pass^k: its number of trials was not fixed")
    return outcomes[0]


def _trials(record: RunRecord, outcomes: Sequence[ScenarioOutcome]) -> Iterator[Trial]:
    for one in outcomes:
        yield from record.trials(one.entry.key)


def _summaries(record: RunRecord, outcomes: Sequence[ScenarioOutcome]) -> list[TrialSummary]:
    return [summarise(trial) for one in outcomes for trial in record.trials(one.entry.key)]


def _rows(record: RunRecord, outcomes: Sequence[ScenarioOutcome], *, dots: bool) -> Plot:
    rows = []
    for one in outcomes:
        if one.skipped:
            continue
        answered = one.passed + one.failed + one.broken_down
        rows.append(
            ScenarioRow(
                name=one.entry.key.label,
                status=one.verdict.status.value,
                counts=f"{one.passed}/{one.played + one.not_run}",
                dots=tuple(_dots(record, one.entry.key)) if dots else (),
                rate=one.passed / answered if answered else None,
                low=None if one.interval is None else one.interval.low,
                high=None if one.interval is None else one.interval.high,
            )
        )
    return scenario_rows(rows, title="Trials of each scenario" if dots else "Pass rates with intervals")


def _dots(record: RunRecord, key: ScenarioKey) -> Iterator[TrialDot]:
    for trial in record.trials(key):
        yield TrialDot(id=trial.id, status=trial.status.value)

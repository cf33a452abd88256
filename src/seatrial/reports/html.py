"""The HTML report: one page without scripts or external files. All agent text is escaped."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TextIO

from seatrial.model.causes import Cause
from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioKey, ScenarioOutcome, Status, Trial, TrialSummary, summarise

from .failing_checks import FailureGroup, first_check, group_failures
from .pages.environment import make_environment, style_sheet
from .plots.svg import Plot
from .scenario_plots import dots_of, latency_of, scores_of, severity_of
from .sweep_matrix import SweepSummary, sweep_of
from .texts import failing, not_counted_reason
from .tiles import Tile, tiles_of

BODIES_OF_ALL = 300
"""A run with more trials shows only the conversations of trials that did not pass."""
BODIES_AT_MOST = 300
CAUSES_SHOWN = 50


def write_html(record: RunRecord, stream: TextIO) -> None:
    """Write the page, piece by piece."""
    page = _Page(record)
    template = make_environment().get_template("report.html.jinja")
    for piece in template.generate(page=page, run=record.run, outcome=record.outcome):
        stream.write(piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A scenario's row in the table."""

    anchor: str
    outcome: ScenarioOutcome
    trials: tuple[TrialSummary, ...]
    aside: str | None

    @property
    def status(self) -> str:
        return "skipped" if self.aside is not None else self.outcome.verdict.status.value

    @property
    def dots(self) -> Plot:
        return dots_of(self.outcome, self.trials)

    @property
    def why(self) -> str:
        """The failing check of the first trial that did not pass; else the verdict's reasons."""
        if self.aside is not None:
            return self.aside
        bad = next((one for one in self.trials if one.status is not Status.PASSED or one.fault is not None), None)
        return first_check(bad) if bad is not None else "; ".join(self.outcome.verdict.failure_reasons)

    @property
    def latency_ms(self) -> float | None:
        """The slowest turn of all trials."""
        return max((one.latency_ms for one in self.trials if one.latency_ms is not None), default=None)

    @property
    def cost_usd(self) -> float | None:
        """None if the cost of a trial is unknown."""
        known = [one.cost_usd for one in self.trials if one.cost_usd is not None]
        return sum(known) if known and len(known) == len(self.trials) else None

    @property
    def scores(self) -> dict[str, list[float]]:
        return scores_of(self.trials)


class _Page:
    """The data for the template. Conversations are read only when the template needs them."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._all_bodies = record.outcome.totals.total_executions <= BODIES_OF_ALL
        self._bodies = 0
        self.rows = tuple(self._read_rows())
        """Worst first: the scenarios that count against the run, then the others in the order of the run."""
        self._anchors = {row.outcome.entry.key: row.anchor for row in self.rows if not row.outcome.skipped}

    def _read_rows(self) -> Iterator[_Row]:
        outcome = self._record.outcome
        bad = failing(outcome)
        keys = {one.entry.key for one in bad}
        for place, one in enumerate((*bad, *(one for one in outcome.scenarios if one.entry.key not in keys))):
            trials = tuple(summarise(trial) for trial in self._record.trials(one.entry.key))
            yield _Row(anchor=f"scenario-{place + 1}", outcome=one, trials=trials, aside=not_counted_reason(one))

    @property
    def tiles(self) -> list[Tile]:
        return tiles_of(self._record.outcome)

    @property
    def groups(self) -> list[FailureGroup]:
        return group_failures(trial for row in self.rows for trial in row.trials)

    @property
    def causes(self) -> list[Cause]:
        """The causes of failures that count, the first ones."""
        return [cause for cause in self._record.causes if cause.counts][:CAUSES_SHOWN]

    @property
    def plots(self) -> list[Plot]:
        """Latencies, and behaviour failures if the judge found any. A plot of one trial says nothing."""
        trials = [trial for row in self.rows for trial in row.trials]
        latency = [latency_of(trials)] if len(trials) > 1 else []
        return latency + ([severity_of(trials)] if any(trial.failures for trial in trials) else [])

    @property
    def sweep(self) -> SweepSummary | None:
        return sweep_of(self._record.outcome)

    def address(self, key: ScenarioKey, index: int) -> str | None:
        """The scenario's part of the page; None if it has none."""
        return f"#{self._anchors[key]}" if key in self._anchors else None

    def trials(self, outcome: ScenarioOutcome) -> Iterator[tuple[Trial, bool]]:
        """Each trial, and whether the page shows its conversation."""
        for trial in self._record.trials(outcome.entry.key):
            wanted = self._all_bodies or trial.status is not Status.PASSED
            self._bodies += wanted
            yield trial, wanted and self._bodies <= BODIES_AT_MOST

    @property
    def style(self) -> Any:
        return page_style()[0]

    @property
    def style_hash(self) -> str:
        return page_style()[1]


def page_style() -> tuple[Any, str]:
    """The style sheet, and its hash: the page's content security policy allows no other style."""
    from markupsafe import Markup

    return Markup(style_sheet()), f"sha256-{b64encode(sha256(style_sheet().encode()).digest()).decode()}"

"""The HTML report: one page without scripts or external files. All agent text is escaped."""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TextIO

from seatrial.model.protocols import RunRecord
from seatrial.model.run import ScenarioOutcome, Status, Trial

from .pages.environment import make_environment, style_sheet
from .scenario_totals import ScenarioTotals, scenario_totals
from .texts import not_counted_reason

BODIES_OF_ALL = 300
"""A run with more trials shows only the conversations of trials that did not pass."""
BODIES_AT_MOST = 300


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
    sums: ScenarioTotals
    aside: str | None

    @property
    def status(self) -> str:
        return "skipped" if self.aside is not None else self.outcome.verdict.status.value


class _Page:
    """The data for the template. Trials are read only when the template needs them."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._all_bodies = record.outcome.totals.total_executions <= BODIES_OF_ALL
        self._bodies = 0

    def rows(self) -> Iterator[_Row]:
        for place, outcome in enumerate(self._record.outcome.scenarios):
            sums = scenario_totals(self._record, outcome)
            yield _Row(anchor=f"scenario-{place + 1}", outcome=outcome, sums=sums, aside=not_counted_reason(outcome))

    def sections(self) -> Iterator[tuple[str, ScenarioOutcome]]:
        for place, outcome in enumerate(self._record.outcome.scenarios):
            if not outcome.skipped:
                yield f"scenario-{place + 1}", outcome

    def trials(self, outcome: ScenarioOutcome) -> Iterator[tuple[Trial, bool]]:
        """Each trial, and whether the page shows its conversation."""
        for trial in self._record.trials(outcome.entry.key):
            wanted = self._all_bodies or trial.status is not Status.PASSED
            self._bodies += wanted
            yield trial, wanted and self._bodies <= BODIES_AT_MOST

    @property
    def style(self) -> Any:
        from markupsafe import Markup

        return Markup(style_sheet())

    @property
    def style_hash(self) -> str:
        """The hash of the only style that the page's content security policy allows."""
        return f"sha256-{b64encode(sha256(style_sheet().encode()).digest()).decode()}"

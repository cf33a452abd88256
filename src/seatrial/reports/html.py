"""One self-contained HTML page: no scripts, nothing loaded from elsewhere, everything an agent said as plain text."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from seatrial.vocabulary.roles import RunRecord
from seatrial.vocabulary.run import Run, RunOutcome, ScenarioOutcome, Status, Trial

from .conversation import compact
from .explain import explain, explain_error, measures_of, summarise
from .phrases import aside, duration, gates_of, interval, money, number, run_facts, tally_line, trials_of, verdict_line
from .tally import Tally, tally
from .visible import cut, visible

BODIES_OF_ALL = 300
"""In a run of more trials only those that did not pass are shown with their conversation."""
BODIES_AT_MOST = 300
TEXT_LIMIT = 20_000
_TEMPLATE = Path(__file__).with_name("report.html.jinja")


def write_html(record: RunRecord, stream: TextIO) -> None:
    """The whole page, piece by piece."""
    page = _Page(record)
    for piece in _template().generate(page=page, run=record.run, outcome=record.outcome):
        stream.write(piece)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A scenario as the table shows it."""

    anchor: str
    outcome: ScenarioOutcome
    sums: Tally
    aside: str | None

    @property
    def status(self) -> str:
        return "skipped" if self.aside is not None else self.outcome.verdict.status.value


class _Page:
    """What the template asks for; trials are read when it comes to them."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._all_bodies = record.outcome.totals.total_executions <= BODIES_OF_ALL
        self._bodies = 0

    def rows(self) -> Iterator[_Row]:
        for place, outcome in enumerate(self._record.outcome.scenarios):
            sums = tally(self._record, outcome)
            yield _Row(anchor=f"scenario-{place + 1}", outcome=outcome, sums=sums, aside=aside(outcome))

    def sections(self) -> Iterator[tuple[str, ScenarioOutcome]]:
        for place, outcome in enumerate(self._record.outcome.scenarios):
            if not outcome.skipped:
                yield f"scenario-{place + 1}", outcome

    def trials(self, outcome: ScenarioOutcome) -> Iterator[tuple[Trial, bool]]:
        """Each trial, and whether there is room for its conversation."""
        for trial in self._record.trials(outcome.entry.key):
            wanted = self._all_bodies or trial.status is not Status.PASSED
            self._bodies += wanted
            yield trial, wanted and self._bodies <= BODIES_AT_MOST

    def verdict(self, outcome: RunOutcome) -> str:
        return verdict_line(outcome)

    def facts(self, run: Run, outcome: RunOutcome) -> tuple[str, str]:
        return tally_line(outcome), run_facts(run, outcome.totals)


def _template() -> Any:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        """What stands in the page for a value: text made visible and cut, nothing for None."""
        if value is None:
            return ""
        return value if isinstance(value, Markup) else visible(cut(str(value), TEXT_LIMIT))

    environment = Environment(
        autoescape=True, finalize=shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {
        "aside": aside,
        "compact": compact,
        "duration": duration,
        "explain": explain,
        "explain_error": explain_error,
        "gates_of": gates_of,
        "interval": interval,
        "measures_of": measures_of,
        "money": money,
        "number": number,
        "summarise": summarise,
        "trials_of": trials_of,
    }
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))

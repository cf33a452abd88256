"""The template environment of the HTML pages, and what their templates ask about a trial."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.model.conversation import PlayedTurn
from seatrial.model.results import TrajectoryMatch
from seatrial.model.run import Status, Trial
from seatrial.reports.causes import cause_details, causes_title, headline
from seatrial.reports.conversation import FAULT_WORDS, describe_alteration, describe_change, find_fact, one_line_json
from seatrial.reports.failing_checks import failing_check, first_check
from seatrial.reports.faults import fault_status
from seatrial.reports.json_report import to_json
from seatrial.reports.prose import has_markdown, prose
from seatrial.reports.scenario_plots import history_of, interval_of, strip_of
from seatrial.reports.terminal import escape_controls, shorten
from seatrial.reports.texts import (
    VERDICT_WORDS,
    counted,
    duration,
    explain,
    explain_error,
    gates_of,
    interval,
    measures_of,
    money,
    not_counted_reason,
    percent,
    run_facts,
    scenario_counts_line,
    summarise,
    trials_of,
    verdict_line,
)
from seatrial.verdicts.reasons import number

if TYPE_CHECKING:
    from jinja2 import Environment


_THINNEST = 0.4
"""The least width of a bar in per cent, so that very short spans stay visible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line of a waterfall, in per cent of its width."""

    label: str
    kind: str
    left: float
    width: float
    text: str


def waterfall(trial: Trial) -> list[Bar]:
    """The start and duration of each turn and each timed tool call, relative to the whole trial."""
    spans = [span for turn in trial.transcript.turns for span in _spans(turn)]
    whole = max((start + length for _, _, start, length in spans), default=0.0)
    if whole <= 0:
        return []
    return [
        Bar(
            label=label,
            kind=kind,
            left=round(min(100 * start / whole, 100 - _THINNEST), 2),
            width=round(max(100 * length / whole, _THINNEST), 2),
            text=duration(length) or "",
        )
        for kind, label, start, length in spans
    ]


def _spans(turn: PlayedTurn) -> Iterator[tuple[str, str, float, float]]:
    yield "turn", f"turn {turn.index + 1}", max(turn.started_ms, 0.0), max(turn.latency_ms, 0.0)
    for call in turn.tool_calls or ():
        if call.started_ms is not None:
            yield "call", call.name, max(call.started_ms, 0.0), max(call.duration_ms or 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The turn that a page shows first."""

    turn: int | None
    """None: the problem concerns the whole trial."""


def find_focus(trial: Trial) -> Focus | None:
    """The first turn with a problem; None if the trial passed."""
    if trial.status is Status.PASSED:
        return None
    turns = sorted(turn for turn in _wrong_turns(trial) if turn is not None)
    known = {turn.index for turn in trial.transcript.turns}
    return Focus(turn=next((turn for turn in turns if turn in known), None))


def _wrong_turns(trial: Trial) -> Iterator[int | None]:
    if trial.error is not None:
        yield trial.error.turn
    for turn in trial.transcript.turns:
        if turn.error is not None:
            yield turn.index
    for result in trial.results:
        if result.passed:
            continue
        yield result.turn
        if result.turn is None and result.trajectory is not None:
            yield from _turns_of_calls(trial, result.trajectory)
    for failure in trial.judgement.failures if trial.judgement else ():
        yield failure.turn


def _turns_of_calls(trial: Trial, match: TrajectoryMatch) -> Iterator[int]:
    """The turns with forbidden or extra calls."""
    unwanted = {text.partition("(")[0] for text in (*match.forbidden_calls, *match.extra_calls)}
    for turn in trial.transcript.turns:
        if any(call.name in unwanted for call in turn.tool_calls or ()):
            yield turn.index


TEXT_LIMIT = 20_000
_ON_ONE_LINE = 100
_HERE = Path(__file__).parent


@lru_cache(maxsize=1)
def style_sheet() -> str:
    """The style of the report and the pages: tokens, components, plots."""
    names = ("tokens", "components", "plots")
    return "".join((_HERE / "styles" / f"{name}.css").read_text(encoding="utf-8") for name in names)


def make_environment(*folders: Path) -> "Environment":
    """A Jinja environment with templates from the given folders and the shared ones."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        """The value's text for the page, escaped and shortened; empty for None."""
        if value is None:
            return ""
        return value if isinstance(value, Markup) else escape_controls(shorten(str(value), TEXT_LIMIT))

    environment = Environment(
        loader=FileSystemLoader([*folders, _HERE / "templates"]),
        autoescape=True,
        auto_reload=False,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = (
        not_counted_reason,
        describe_alteration,
        describe_change,
        find_fact,
        one_line_json,
        counted,
        duration,
        explain,
        explain_error,
        failing_check,
        fault_status,
        find_focus,
        first_check,
        gates_of,
        has_markdown,
        interval,
        cause_details,
        causes_title,
        headline,
        measures_of,
        money,
        number,
        percent,
        interval_of,
        pretty_json,
        prose,
        run_facts,
        history_of,
        strip_of,
        summarise,
        scenario_counts_line,
        trials_of,
        verdict_line,
        waterfall,
    )
    environment.globals |= {word.__name__: word for word in words}
    environment.globals["FAULT_WORDS"] = FAULT_WORDS
    environment.globals["VERDICT_WORDS"] = {status.value: word for status, word in VERDICT_WORDS.items()}
    return environment


def pretty_json(value: Any) -> str:
    """The value as JSON: on one line if it is short, else on several."""
    text = one_line_json(value)
    if len(text) <= _ON_ONE_LINE or not isinstance(value, dict | list | tuple):
        return text
    return json.dumps(to_json(value), ensure_ascii=False, indent=2)

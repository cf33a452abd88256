"""The template environment, and the numbers of charts that templates draw as inline SVG."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from seatrial.model.conversation import PlayedTurn
from seatrial.model.results import TrajectoryMatch
from seatrial.model.run import Status, Trial
from seatrial.reports import texts
from seatrial.reports.conversation import one_line_json
from seatrial.reports.json_report import to_json
from seatrial.reports.terminal import escape_controls, shorten
from seatrial.reports.texts import VERDICT_WORDS, duration
from seatrial.verdicts.reasons import number

if TYPE_CHECKING:
    from jinja2 import Environment


TREND_WIDTH, TREND_HEIGHT = 1_100, 120
_MARGIN = 8
_LABELS = 44
"""Space on the left for the labels of the scale."""
_THINNEST = 0.4
"""The minimum width of a bar, in percent."""


UNKNOWN = "unknown"
"""The kind of a dot whose verdict is not decided yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar of a waterfall or histogram, in percent of the width."""

    label: str
    kind: str
    left: float
    width: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A run in a trend: its pass rate and, if known, the interval."""

    rate: float
    title: str
    href: str
    kind: str
    """The status, for the colour, or UNKNOWN."""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedDot:
    dot: Dot
    x: float
    y: float
    y_low: float | None
    y_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Dots from left to right, and the line through them."""

    width: int
    height: int
    dots: tuple[PlacedDot, ...]
    path: str


def waterfall(trial: Trial) -> list[Bar]:
    """Start and duration of each turn and timed tool call, on the time scale of the trial."""
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


def trend(dots: Sequence[Dot]) -> Trend:
    """The dots, oldest first, distributed over the width."""
    step = (TREND_WIDTH - _LABELS - 2 * _MARGIN) / max(len(dots) - 1, 1)
    begin = _LABELS + _MARGIN if len(dots) > 1 else TREND_WIDTH / 2
    placed = tuple(
        PlacedDot(
            dot=dot,
            x=round(begin + place * step, 1),
            y=_height(dot.rate),
            y_low=None if dot.low is None else _height(dot.low),
            y_high=None if dot.high is None else _height(dot.high),
        )
        for place, dot in enumerate(dots)
    )
    path = " ".join(f"{'L' if place else 'M'}{one.x} {one.y}" for place, one in enumerate(placed))
    return Trend(width=TREND_WIDTH, height=TREND_HEIGHT, dots=placed, path=path)


def _height(rate: float) -> float:
    return round(_MARGIN + (1 - rate) * (TREND_HEIGHT - 2 * _MARGIN), 1)


def histogram(values: Iterable[float]) -> list[Bar]:
    """The number of each value, rounded to halves, largest first."""
    counts = Counter(round(2 * value) / 2 for value in values)
    most = max(counts.values(), default=1)
    return [
        Bar(label=number(value), kind="score", left=0, width=round(100 * count / most, 2), text=f"{count:,}")
        for value, count in sorted(counts.items(), reverse=True)
    ]


def first_failed_turn(trial: Trial) -> int | None:
    """The index of the first turn with a failure; None if the trial passed or the failure is not in a turn."""
    if trial.status is Status.PASSED:
        return None
    known = {turn.index for turn in trial.transcript.turns}
    return min((turn for turn in _failed_turns(trial) if turn in known), default=None)


def _failed_turns(trial: Trial) -> Iterator[int | None]:
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
    """The style sheet of the report and the pages."""
    return (_HERE / "style.css").read_text(encoding="utf-8")


def make_environment(*folders: Path) -> "Environment":
    """The templates of the given folders, and the shared ones."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        """The text for a value: escaped and cut; empty for None."""
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
    environment.globals |= {name: value for name, value in vars(texts).items() if isinstance(value, FunctionType)}
    functions = (one_line_json, first_failed_turn, number, pretty_json, waterfall)
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals["VERDICT_WORDS"] = {status.value: word for status, word in VERDICT_WORDS.items()}
    return environment


def pretty_json(value: Any) -> str:
    """The value as JSON, on one line if it is short."""
    text = one_line_json(value)
    if len(text) <= _ON_ONE_LINE or not isinstance(value, dict | list | tuple):
        return text
    return json.dumps(to_json(value), ensure_ascii=False, indent=2)

"""The parts of every plot: elements, axes, and the plot with its title and its text alternative."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.model.struct import Struct
from seatrial.reports.terminal import escape_controls, shorten

if TYPE_CHECKING:
    from markupsafe import Markup

_HEAD = 42
"""The height of title and summary in a file."""
LABEL_LENGTH = 60
"""Characters of a scenario's name in a plot. Its tooltip shows all of it."""
_STYLES = Path(__file__).parent.parent / "pages" / "styles"


class Plot(Struct, frozen=True, kw_only=True):
    """A plot. `inline()` is for pages, `file()` stands alone."""

    kind: str
    title: str
    summary: str
    """The plot in one sentence, for people who cannot see it."""
    width: float
    height: float
    body: str
    has_links: bool = False

    def inline(self) -> "Markup":
        """SVG for a page. The style sheet of the page gives it its colours."""
        from markupsafe import Markup

        return Markup(f"<svg {self._head()}>{self.body}</svg>")

    def file(self) -> str:
        """A whole SVG document with its own colours, light and dark, headed by title and summary."""
        texts = f"<title>{text_of(self.title)}</title><desc>{text_of(self.summary)}</desc>"
        backdrop = f'<rect class="backdrop" width="{self.width:g}" height="{self.height + _HEAD:g}"/>'
        head = label(10, 18, self.title, kind="head") + label(
            10, 33, self.summary, kind="summary", room=self.width - 20
        )
        inside = f'<g transform="translate(0 {_HEAD})">{self.body}</g>'
        start = f'<svg xmlns="http://www.w3.org/2000/svg" {self._head(above=_HEAD)}>'
        return f"{start}{texts}<style>{_own_style()}</style>{backdrop}{head}{inside}</svg>"

    def _head(self, *, above: int = 0) -> str:
        # A picture that has links in it is a group: assistive technology would hide the links of an image.
        role = "group" if self.has_links else "img"
        tall = self.height + above
        box = f'width="{self.width:g}" height="{tall:g}" viewBox="0 0 {self.width:g} {tall:g}"'
        label = text_of(f"{self.title}. {self.summary}")
        return f'class="plot {self.kind}" {box} role="{role}" aria-label="{label}"'


@lru_cache(maxsize=1)
def _own_style() -> str:
    """Colours and rules of plots, for a file. The variables belong to the plot: a notebook has variables of its own."""
    tokens = (_STYLES / "tokens.css").read_text(encoding="utf-8").replace(":root", "svg.plot")
    return tokens + (_STYLES / "plots.css").read_text(encoding="utf-8")


def text_of(text: str) -> str:
    """The text for SVG and for attributes: escaped, without control characters."""
    shown = escape_controls(shorten(text, 2_000))
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def cut(text: str, length: int = LABEL_LENGTH) -> str:
    """The text with "…" in its middle if it is longer: names often differ only at their ends."""
    if len(text) <= length:
        return text
    tail = length * 2 // 5
    return f"{text[: length - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


def label(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "", room: float | None = None) -> str:
    """A text in the plot, cut to a readable length; with `room`, a sentence that ends where the room ends."""
    fits = LABEL_LENGTH if room is None else int(room / LETTER)
    shown = cut(text) if room is None else text if len(text) <= fits else f"{text[: fits - 1]}…"
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text{of_kind} x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}">{text_of(shown)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"/>'


def rect(x: float, y: float, width: float, height: float, kind: str, *, tip: str = "") -> str:
    """A rectangle, with a tooltip if there is one."""
    place = f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'
    return f"{place}><title>{text_of(tip)}</title></rect>" if tip else f"{place}/>"


def circle(x: float, y: float, radius: float, kind: str, *, tip: str = "") -> str:
    place = f'<circle class="{kind}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"'
    return f"{place}><title>{text_of(tip)}</title></circle>" if tip else f"{place}/>"


def path(points: Sequence[tuple[float, float]], kind: str) -> str:
    """A line through the points."""
    steps = "".join(f"{'L' if place else 'M'}{_n(x)} {_n(y)}" for place, (x, y) in enumerate(points))
    return f'<path class="{kind}" d="{steps}"/>'


def link(href: str | None, tip: str, inside: str, *, kind: str = "") -> str:
    """The part as a link with a tooltip. Without an address only the tooltip stays."""
    of_kind = f' class="{kind}"' if kind else ""
    told = f"<title>{text_of(tip)}</title>{inside}"
    if href is None:
        return f"<g{of_kind}>{told}</g>"
    # A link that shows text is named by it, and the tooltip follows; a mark has only its tooltip.
    named = "" if "<text" in inside else f' aria-label="{text_of(tip)}"'
    return f'<a href="{text_of(href)}"{of_kind}{named}>{told}</a>'


def _n(value: float) -> str:
    """The number with at most one decimal: pages stay small."""
    return f"{value:.1f}".removesuffix(".0")


def spread(count: int, left: float, right: float) -> list[float]:
    """`count` places from left to right; a single one is in the middle."""
    if count == 1:
        return [(left + right) / 2]
    return [left + place * (right - left) / max(count - 1, 1) for place in range(count)]


def rate_axis(left: float, right: float, top: float, bottom: float, *, lowest: float = 0.0) -> str:
    """Lines and labels of rates, from the lowest to 100 per cent."""
    parts = []
    for share in (1.0, 0.5, 0.0):
        y = bottom - share * (bottom - top)
        text = f"{100 * (lowest + share * (1 - lowest)):.0f} %"
        parts.append(line(left, y, right, y, "grid") + label(left - 6, y + 4, text, anchor="end"))
    return "".join(parts)


LETTER = 6.2
"""The width of a letter of a label, at most on average."""


def date_axis(dates: Sequence[datetime], places: Sequence[float], y: float, *, right: float) -> str:
    """The dates below a plot, as many as fit until `right`; with the time if a day occurs twice."""
    day = "%Y-%m-%d" if len({date.year for date in dates}) > 1 else "%b %d"
    shown = _dates_that_fit(dates, places, day)
    if len({text for _, text in shown}) < len(shown):
        shown = _dates_that_fit(dates, places, f"{day} %H:%M")
    parts = []
    for x, text in shown:
        half = LETTER * len(text) / 2
        parts.append(label(max(min(x, right - half), half), y, text, anchor="middle"))
    return "".join(parts)


def _dates_that_fit(dates: Sequence[datetime], places: Sequence[float], pattern: str) -> list[tuple[float, str]]:
    """The first date always, the last if it fits, and as many between them as there is room for."""
    every = [(x, f"{date:{pattern}}") for date, x in zip(dates, places, strict=True)]
    room = LETTER * max((len(text) for _, text in every), default=0) + 24
    shown = every[:1]
    for x, text in every[1:-1]:
        if x - shown[-1][0] >= room and places[-1] - x >= room:
            shown.append((x, text))
    return [*shown, *(one for one in every[1:][-1:] if one[0] - shown[-1][0] >= room)]


def nice_steps(highest: float, *, most: int = 4) -> list[float]:
    """Round numbers from 0 to at least the highest value."""
    if highest <= 0:
        return [0.0, 1.0]
    power = 1.0
    while power * 10 <= highest / most:
        power *= 10
    while power > highest / most:
        power /= 10
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= highest / most)
    count = 0
    while count * step < highest * (1 - 1e-9):
        count += 1
    return [place * step for place in range(count + 1)]


def join(parts: Iterable[str]) -> str:
    return "".join(parts)

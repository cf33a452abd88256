"""Progress on a terminal: a bar with rate and remaining time, and failures as they happen. Uses rich.

Only `progress.py` imports this module, and only for a terminal: importing rich takes as long as a small run.
"""

import sys
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .terminal import one_line, shorten

if TYPE_CHECKING:
    from .progress import Counts

KINDS_SHOWN = 5
NARROW = 80
"""With fewer columns there is no bar, only numbers."""
_BAR = 30


class LiveDisplay:
    """Draws the counts again and again at the end of the terminal, until it is closed."""

    def __init__(self, stream: TextIO, counts: "Counts", *, width: int | None = None) -> None:
        self._counts = counts
        # No markup, no emoji, no highlighting: agent text is text. NO_COLOR is respected by rich.
        self._console = Console(
            file=stream, force_terminal=True, markup=False, emoji=False, highlight=False, width=width
        )
        self._live = Live(
            console=self._console,
            get_renderable=self.draw,
            refresh_per_second=8,
            transient=True,
            # What the agent prints appears above the bar. A stream that is not a terminal stays as it is.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        self._live.start()

    def refresh(self) -> None:
        self._live.refresh()

    def close(self) -> None:
        """Remove the bar and the list of failures; the report follows."""
        self._live.stop()

    def draw(self) -> RenderableType:
        """The kinds of failures, most frequent first, then the bar."""
        return Group(*self._failures(), self._bar())

    def _failures(self) -> list[Text]:
        kinds = sorted(self._counts.failures.values(), key=lambda kind: -kind.trials)
        shown = kinds[: min(KINDS_SHOWN, max(self._console.height - 4, 1))]
        lines = []
        for kind in shown:
            times = f" {kind.trials}×" if kind.trials > 1 else ""
            line = Text(f"✗{times} ", style="red", no_wrap=True, overflow="ellipsis")
            line.append(f"{shorten(one_line(kind.check), 300)}", style="default")
            line.append(f"  {one_line(kind.scenario)}", style="dim")
            lines.append(line)
        if len(kinds) > len(shown):
            lines.append(Text(f"  {len(kinds) - len(shown)} more kinds of failures", style="dim"))
        return lines

    def _bar(self) -> RenderableType:
        counts = self._counts
        told = Text(no_wrap=True, overflow="ellipsis")
        told.append(f"{counts.played:,}/{counts.trials:,} trials")
        if counts.failed:
            told.append(f"  {counts.failed:,} not passed", style="red")
        elif counts.played:
            told.append("  all passed", style="green")
        # A narrow terminal cuts the end of the line, so the time left comes first.
        for text in (counts.left_text, counts.rate_text, counts.cost_text):
            if text:
                told.append(f"  {text}", style="dim")
        if self._console.width < NARROW:
            return told
        row: Any = Table.grid(padding=(0, 1))
        row.add_row(ProgressBar(total=max(counts.trials, 1), completed=counts.played, width=_BAR), told)
        return row  # type: ignore[no-any-return]

"""Columns of text for lists, every cell on one line and harmless to look at."""

from collections.abc import Sequence

from seatrial.reports.escaping import defused, one_line

_WIDEST = 60


def lay_out(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; the last column is never cut."""
    shown = [[one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [min(max(len(row[column]) for row in shown), _WIDEST) for column in range(len(head))]
    return [defused("  ".join(_cells(row, widths)).rstrip()) for row in shown]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    *first, last = row
    cut = [cell if len(cell) <= width else f"{cell[: width - 1]}…" for cell, width in zip(first, widths, strict=False)]
    return [*(cell.ljust(width) for cell, width in zip(cut, widths, strict=False)), last]

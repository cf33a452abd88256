"""The table of a sweep, rows x columns, whose cells lead to conversations: on the terminal, in Markdown, on pages."""

from collections.abc import Iterator

from seatrial.model.run import RunOutcome, ScenarioKey, Status
from seatrial.model.struct import Struct

from .markdown import escaped
from .terminal import one_line

_MARKS = {Status.PASSED: "", Status.FAILED: " ✗", Status.ERRORED: " !", Status.INCONCLUSIVE: " ?", Status.NOT_RUN: ""}


class MatrixCell(Struct, frozen=True, kw_only=True):
    """One cell."""

    text: str
    status: Status
    title: str = ""
    """More words, for a page."""
    keys: tuple[ScenarioKey, ...] = ()
    """The variants of the cell, the most important first."""
    trial: int = 0
    """The trial to look at in the first of them."""


class SweepMatrix(Struct, frozen=True, kw_only=True):
    """Rows x columns."""

    corner: str
    """What rows and columns are."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MatrixCell | None, ...]], ...]
    """The name of each row, and its cells; None: there is none."""


class SweepExample(Struct, frozen=True, kw_only=True):
    """A trial of a sweep that a reader should look at."""

    text: str
    why: str
    key: ScenarioKey
    trial: int


class SweepSummary(Struct, frozen=True, kw_only=True):
    """What pages show of a sweep."""

    title: str
    matrix: SweepMatrix
    lines: tuple[str, ...]
    """The counts and rates."""
    examples: tuple[SweepExample, ...] = ()
    notes: tuple[str, ...] = ()
    limits: str
    """What a passed sweep does not show."""


def sweep_of(outcome: RunOutcome) -> SweepSummary | None:
    """What pages show of a sweep; None for other runs."""
    if outcome.faults is not None:
        from .faults import fault_summary

        return fault_summary(outcome.faults)
    if outcome.attacks is not None:
        from .attacks import attack_summary

        return attack_summary(outcome.attacks)
    return None


def matrix_lines(matrix: SweepMatrix) -> Iterator[str]:
    """The table as text, in columns."""
    rows = [[matrix.corner, *matrix.columns], *([name, *map(_shown, cells)] for name, cells in matrix.rows)]
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def matrix_markdown(matrix: SweepMatrix) -> Iterator[str]:
    """The table in Markdown, line by line."""
    yield f"| {' | '.join(map(escaped, (matrix.corner, *matrix.columns)))} |\n"
    yield "|---" * (len(matrix.columns) + 1) + "|\n"
    for name, cells in matrix.rows:
        yield f"| {' | '.join(map(escaped, (name, *map(_shown, cells))))} |\n"


def _shown(cell: MatrixCell | None) -> str:
    return "" if cell is None else f"{cell.text}{_MARKS[cell.status]}"

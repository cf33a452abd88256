"""Columns of text for lists, every cell on one line and harmless to look at."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from seatrial.errors import UsageError
from seatrial.reports.console import print_run
from seatrial.reports.registry import parse_report_option, write_report
from seatrial.reports.terminal import escape_ci_commands, one_line
from seatrial.runs.report import Report
from seatrial.scenarios.loaded_suite import LoadedSuite

_WIDEST = 60


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; the last column is never cut."""
    shown = [[one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [min(max(len(row[column]) for row in shown), _WIDEST) for column in range(len(head))]
    return [escape_ci_commands("  ".join(_cells(row, widths)).rstrip()) for row in shown]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    *first, last = row
    cut = [cell if len(cell) <= width else f"{cell[: width - 1]}…" for cell, width in zip(first, widths, strict=False)]
    return [*(cell.ljust(width) for cell, width in zip(cut, widths, strict=False)), last]


ReportTarget = tuple[str, Path | None]


def show_and_write(
    report: Report, reports: Sequence[ReportTarget], *, folder: Path, verbose: bool, environ: Mapping[str, str]
) -> None:
    """The console always, files as asked, from the `folder` that the command began in: everything is in the store."""
    print_run(report.record, sys.stdout, verbose=verbose)
    for kind, path in reports:
        if kind != "console":
            write_report(kind, report.record, path or environ.get("GITHUB_STEP_SUMMARY") or "-", folder=folder)
            if path is not None and str(path) != "-":
                click.echo(f"wrote {path}", err=True)


def reports_of(suite: LoadedSuite) -> list[ReportTarget]:
    """What the suite's own `reports` ask for. Raises UsageError."""
    try:
        return [parse_report_option(text) for text in suite.suite.reports]
    except UsageError as problem:
        raise UsageError(f"{suite.path}: suite.reports: {str(problem).removeprefix('--report: ')}") from None

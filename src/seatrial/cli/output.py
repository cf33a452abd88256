"""What commands print: tables, and the reports of a run."""

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

ReportTarget = tuple[str, Path | None]
"""A report format and the file to write."""
_MAX_WIDTH = 60


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, with all text escaped. Only the last column is never cut."""
    shown = [[one_line(cell) for cell in row] for row in (head, *rows)]
    widths = [min(max(map(len, column)), _MAX_WIDTH) for column in zip(*shown, strict=True)]
    return [escape_ci_commands("  ".join(_cells(row, widths)).rstrip()) for row in shown]


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    *first, last = row
    cut = [cell if len(cell) <= width else f"{cell[: width - 1]}…" for cell, width in zip(first, widths, strict=False)]
    return [*(cell.ljust(width) for cell, width in zip(cut, widths, strict=False)), last]


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "", err: bool = False) -> None:
    for line in format_table(head, rows):
        click.echo(indent + line, err=err)


def show_and_write(
    report: Report, targets: Sequence[ReportTarget], *, folder: Path, verbose: bool, environ: Mapping[str, str]
) -> None:
    """Print the run and write its reports. Relative paths start at `folder`."""
    print_run(report.record, sys.stdout, verbose=verbose)
    for name, path in targets:
        if name != "console":
            write_report(name, report.record, path or environ.get("GITHUB_STEP_SUMMARY") or "-", folder=folder)
            if path is not None and str(path) != "-":
                click.echo(f"wrote {path}", err=True)


def reports_of(suite: LoadedSuite) -> list[ReportTarget]:
    """The reports that the suite's own `reports` names. Raises UsageError."""
    try:
        return [parse_report_option(text) for text in suite.suite.reports]
    except UsageError as problem:
        raise UsageError(f"{suite.path}: suite.reports: {str(problem).removeprefix('--report: ')}") from None


def write_file(file: Path, text: str) -> None:
    """Write a file and create its folder. Raises UsageError."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}. Choose another path") from None

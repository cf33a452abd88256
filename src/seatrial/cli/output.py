"""What is shown and written when a run is done."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from seatrial.errors import UsageError
from seatrial.reports.console import print_run
from seatrial.reports.registry import ReportKind, parse_report_option, write_report
from seatrial.runs.report import Report
from seatrial.scenarios.loaded_suite import LoadedSuite

AskedReport = tuple[ReportKind, Path | None]


def show_and_write(
    report: Report, reports: Sequence[AskedReport], *, folder: Path, verbose: bool, environ: Mapping[str, str]
) -> None:
    """The console always, files as asked, from the `folder` that the command began in: everything is in the store."""
    print_run(report.record, sys.stdout, verbose=verbose)
    for kind, path in reports:
        if kind != "console":
            write_report(kind, report.record, path or environ.get("GITHUB_STEP_SUMMARY") or "-", folder=folder)
            if path is not None and str(path) != "-":
                click.echo(f"wrote {path}", err=True)


def reports_of(suite: LoadedSuite) -> list[AskedReport]:
    """What the suite's own `reports` ask for. Raises UsageError."""
    try:
        return [parse_report_option(text) for text in suite.suite.reports]
    except UsageError as problem:
        raise UsageError(f"{suite.path}: suite.reports: {str(problem).removeprefix('--report: ')}") from None

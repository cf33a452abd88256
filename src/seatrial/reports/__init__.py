"""Reports: a stored run as people and machines want to read it.

Every report is a projection of the same record: statuses, reasons and numbers come from the run's outcome, and nothing
is decided here. All of them are written scenario by scenario and trial by trial, so that memory does not grow with the
run, and everything an agent said is escaped for the reader at hand. A room of its own, because it can show a run
without an agent, a judge or a database.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .console import print_run as print_run
    from .progress import Progress as Progress
    from .registry import KINDS as KINDS
    from .registry import ReportKind as ReportKind
    from .registry import parse_report_option as parse_report_option
    from .registry import write_report as write_report

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "console": ("print_run",),
        "progress": ("Progress",),
        "registry": (
            "KINDS",
            "ReportKind",
            "parse_report_option",
            "write_report",
        ),
    },
)

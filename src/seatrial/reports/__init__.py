"""Reports: a stored run as people and machines want to read it.

Every report is a projection of the same record: statuses, reasons and numbers come from the run's outcome, and nothing
is decided here. All of them are written scenario by scenario and trial by trial, so that memory does not grow with the
run, and everything an agent said is escaped for the reader at hand. A room of its own, because it can show a run
without an agent, a judge or a database.
"""

from .console import print_run
from .progress import Progress
from .write import KINDS, ReportKind, parse_report_option, write_report

__all__ = ["KINDS", "Progress", "ReportKind", "parse_report_option", "print_run", "write_report"]

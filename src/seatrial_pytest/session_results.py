"""What the reports of a session add up to, test by test, wherever they were made."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

Ending = Literal["passed", "failed", "errored", "skipped", "xfailed"]


@dataclass(slots=True, kw_only=True)
class Entry:
    """One test."""

    nodeid: str
    ending: Ending = "passed"
    marks: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """What `must_pass` may call it."""
    is_scenario: bool = False
    """An item of a scenario file."""


@dataclass(slots=True, kw_only=True)
class Ledger:
    """Everything that the end of the session is decided by."""

    entries: dict[str, Entry] = field(default_factory=dict)
    run: str | None = None
    """Set once something was played."""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """By test: scenarios that nobody played, as bodies of ScenarioEntry."""
    reports: dict[str, None] = field(default_factory=dict)
    """What the suites' own `reports` ask for."""
    scored: bool = False
    """Some trial has an overall score, so the run's gate on it counts."""
    not_live: int = 0
    """Tests that were skipped because they would ask a model."""
    collection_errors: int = 0
    crashed: bool = False
    """A worker of xdist died."""

    def note(self, report: pytest.TestReport) -> None:
        """Take a report into account: of one phase of one test."""
        told: dict[str, Any] = getattr(report, "seatrial", {})
        nodeid = report.nodeid
        entry = self.entries.get(nodeid) or self.entries.setdefault(nodeid, Entry(nodeid=nodeid))
        if told:
            self._take(told, entry, anew=report.when == "setup")
        elif report.outcome == "passed":
            return  # by far the most
        ending = _ending(report, told)
        # The worst phase counts, also of a test that a session has twice: what pytest calls failed stays so. (Plugins
        # that run failed tests again do not call the first runs failed.)
        if _RANK[ending] > _RANK[entry.ending]:
            entry.ending = ending

    def _take(self, told: dict[str, Any], entry: Entry, *, anew: bool) -> None:
        self.run = told.get("run") or self.run
        if anew or "left_out" in told:
            self.left_out[entry.nodeid] = told.get("left_out", [])
        if "reports" in told:
            self.reports |= dict.fromkeys(told["reports"])
        if "marks" in told:
            entry.marks = frozenset(told["marks"])
            entry.names = frozenset(told["names"])
        self.scored = self.scored or told.get("scored", False)
        self.not_live += told.get("not_live", False)
        entry.is_scenario = told.get("is_scenario", entry.is_scenario)


_RANK: dict[Ending, int] = {"passed": 0, "skipped": 1, "xfailed": 1, "failed": 2, "errored": 3}


def _ending(report: pytest.TestReport, told: dict[str, Any]) -> Ending:
    if report.outcome == "failed":
        return "failed" if report.when == "call" and told.get("failed", False) else "errored"
    if report.outcome == "skipped":
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    return "passed"

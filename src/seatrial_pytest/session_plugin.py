"""The plugin of a session that uses Seatrial: it collects the results of all tests and ends the run.

Also loaded in the controller of xdist, which plays nothing: it knows only what the reports contain.
"""

import os
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pytest

from .outcome import annotate

if TYPE_CHECKING:
    from .groups import Group

_PLUGIN = pytest.StashKey["SessionPlugin"]()
_IDENTITY = pytest.StashKey[dict[str, Any]]()
_RUNS_NO_TEST = ("collectonly", "setuponly", "setupplan", "showfixtures", "show_fixtures_per_test", "cacheshow")
"""Options of pytest with which no test runs, so that groups cannot be decided."""


def session_plugin(config: pytest.Config) -> "SessionPlugin":
    """The session's plugin, registered by the first call."""
    if _PLUGIN not in config.stash:
        config.stash[_PLUGIN] = SessionPlugin(config)
        config.pluginmanager.register(config.stash[_PLUGIN], "seatrial-session")
    return config.stash[_PLUGIN]


def run_identity(config: pytest.Config) -> dict[str, Any]:
    """The id and the seed of the session's run, the same in every worker of xdist."""
    if _IDENTITY not in config.stash:
        given = getattr(config, "workerinput", {}).get("seatrial")
        drawn = int.from_bytes(os.urandom(7), "big")
        new = {"run": f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{drawn >> 32:06x}", "seed": drawn % 2**31}
        config.stash[_IDENTITY] = given or new
        session_plugin(config)
    return config.stash[_IDENTITY]


class SessionPlugin:
    """Sees every report of the session, and ends the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self.groups: tuple[Group, ...] = ()
        self.on_close: list[Callable[[], list[str]]] = []
        """Called before the run ends. Each returns its problems."""
        self._results = SessionResults()
        self._lines: list[str] = []
        self._problems: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        annotate(item, call, report, for_groups=bool(self.groups))
        return report

    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> object | None:
        """Async tests that play scenarios need no other plugin."""
        if "seatrial" not in pyfuncitem.fixturenames:
            return None
        from .fixture import run_async, runs_async

        if not runs_async(pyfuncitem):
            return None
        run_async(pyfuncitem)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not self._is_worker:
            self._results.add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._results.collection_errors += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self._results.crashed = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        failed = session.testsfailed
        try:
            for close in self.on_close:
                self._problems += close()
        finally:
            if exitstatus == pytest.ExitCode.OK and session.testsfailed > failed:
                exitstatus = session.exitstatus = pytest.ExitCode.TESTS_FAILED
            if not self._is_worker:
                self._end(session, exitstatus)

    def _end(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        runs_no_test = any(getattr(self._config.option, name, None) for name in _RUNS_NO_TEST)
        groups = () if runs_no_test else self.groups
        if not (self._results.run or self._results.not_live or groups):
            return
        from .session_end import end_session

        end = end_session(session, self._results, groups, exitstatus=int(exitstatus), problems=self._problems)
        self._lines = end.lines
        session.exitstatus = end.exitstatus

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._lines:
            terminalreporter.section("seatrial")
            for line in self._lines:
                terminalreporter.write_line(line)


Ending = Literal["passed", "failed", "errored", "skipped", "xfailed"]
_RANK: dict[Ending, int] = {"passed": 0, "skipped": 1, "xfailed": 1, "failed": 2, "errored": 3}


@dataclass(slots=True, kw_only=True)
class ItemResult:
    """The result of one test."""

    nodeid: str
    ending: Ending = "passed"
    marks: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """The names that `must_pass` may use."""
    is_scenario: bool = False
    """An item of a scenario file."""


@dataclass(slots=True, kw_only=True)
class SessionResults:
    """The results of all tests, from their reports."""

    items: dict[str, ItemResult] = field(default_factory=dict)
    run: str | None = None
    """Set when a scenario was played."""
    unplayed: dict[str, list[str]] = field(default_factory=dict)
    """By test: scenarios that were not played, as encoded ScenarioEntries."""
    reports: dict[str, None] = field(default_factory=dict)
    """The `reports` of the suites."""
    scored: bool = False
    """A trial has an overall score, so the run's gate on it counts."""
    not_live: int = 0
    """Tests that were skipped because they would call a model."""
    collection_errors: int = 0
    crashed: bool = False
    """A worker of xdist crashed."""

    def add(self, report: pytest.TestReport) -> None:
        """Add the report of one phase of one test."""
        facts: dict[str, Any] = getattr(report, "seatrial", {})
        item = self.items.setdefault(report.nodeid, ItemResult(nodeid=report.nodeid))
        if facts:
            self._add_facts(facts, item, is_first=report.when == "setup")
        # The worst phase counts, also if a session has a test twice: a failure stays one. (Plugins that run failed
        # tests again do not report the first runs as failed.)
        ending = _ending(report, facts)
        if _RANK[ending] > _RANK[item.ending]:
            item.ending = ending

    def _add_facts(self, facts: dict[str, Any], item: ItemResult, *, is_first: bool) -> None:
        self.run = facts.get("run") or self.run
        if is_first or "unplayed" in facts:
            self.unplayed[item.nodeid] = facts.get("unplayed", [])
        self.reports |= dict.fromkeys(facts.get("reports", ()))
        if "marks" in facts:
            item.marks = frozenset(facts["marks"])
            item.names = frozenset(facts["names"])
        self.scored = self.scored or facts.get("scored", False)
        self.not_live += facts.get("not_live", False)
        item.is_scenario = facts.get("is_scenario", item.is_scenario)


def _ending(report: pytest.TestReport, facts: dict[str, Any]) -> Ending:
    if report.outcome == "failed":
        return "failed" if report.when == "call" and facts.get("failed", False) else "errored"
    if report.outcome == "skipped":
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    return "passed"

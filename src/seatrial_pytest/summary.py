"""The end of a session: the run is ended, its reports are written, groups are decided, and all of it is told.

Loaded in the controller of xdist as well, which plays nothing itself: what it knows comes with the reports.
"""

import os
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

from .reporting import annotate
from .session_results import Ledger

if TYPE_CHECKING:
    from .groups import Group

_WATCH = pytest.StashKey["Watch"]()
_LOOKING = ("collectonly", "setuponly", "setupplan", "showfixtures", "show_fixtures_per_test", "cacheshow")
"""Options of pytest with which no test is run, so that there is nothing to decide groups by."""
_NAME = pytest.StashKey[dict[str, Any]]()


def watch(config: pytest.Config) -> "Watch":
    """The session's one watcher, registered when it is first asked for."""
    if _WATCH not in config.stash:
        config.stash[_WATCH] = Watch(config)
        config.pluginmanager.register(config.stash[_WATCH], "seatrial-watch")
    return config.stash[_WATCH]


def name_the_run(config: pytest.Config) -> dict[str, Any]:
    """The id and the seed of the session's run: the same in every worker of xdist."""
    if _NAME not in config.stash:
        given = getattr(config, "workerinput", {}).get("seatrial")
        drawn = int.from_bytes(os.urandom(7), "big")
        made = {"run": f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{drawn >> 32:06x}", "seed": drawn % 2**31}
        config.stash[_NAME] = given or made
        watch(config)
    return config.stash[_NAME]


class Watch:
    """Sees every report of the session, and ends the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self.groups: tuple[Group, ...] = ()
        self.closing: list[Callable[[], list[str]]] = []
        """What to close before the run is ended. Each says what went wrong."""
        self._ledger = Ledger()
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
            self._ledger.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._ledger.collection_errors += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self._ledger.crashed = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        failed = session.testsfailed
        try:
            for close in self.closing:
                self._problems += close()
        finally:
            if exitstatus == pytest.ExitCode.OK and session.testsfailed > failed:
                exitstatus = session.exitstatus = pytest.ExitCode.TESTS_FAILED
            if not self._is_worker:
                self._conclude(session, exitstatus)

    def _conclude(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        looking = any(getattr(self._config.option, name, None) for name in _LOOKING)
        groups = () if looking else self.groups
        if not (self._ledger.run or self._ledger.not_live or groups):
            return
        from .session_end import conclude

        conclusion = conclude(session, self._ledger, groups, exitstatus=int(exitstatus), problems=self._problems)
        self._lines = conclusion.lines
        session.exitstatus = conclusion.exitstatus

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._lines:
            terminalreporter.section("seatrial")
            for line in self._lines:
                terminalreporter.write_line(line)

"""What pytest is told of quick scenarios, held back until they are kept.

Nobody hears of a trial before it is committed, and a commit takes longer than a quick scenario takes to be played. So
quick scenarios that pass are committed several at a time, and for as long pytest hears nothing of them. Whatever may
take its time comes after the telling: an agent that does not answer at once, fixtures, tests of another file.
"""

import os
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter
from typing import Any

import pytest

from seatrial.errors import SeatrialError
from seatrial.session.open_run import OpenRun

_MOST = 100
_WAIT_SECONDS = 0.04
"""Trials wait for their commit for 50 ms at the most, and the test that is under way may have to end first."""
_TOO_LONG_SECONDS = 0.1


class HeldReports:
    """Calls of hooks that tell of tests, in their order. `opened` knows the run, once something is played."""

    def __init__(self, config: pytest.Config, opened: Callable[[], OpenRun | None]) -> None:
        self._opened = opened
        self._calls: deque[tuple[Any, dict[str, Any]]] = deque()
        self._since = 0.0
        self._process = os.getpid()
        self._is_worthwhile = True
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")

    @property
    def may_gather(self) -> bool:
        """Whether what is about to be played may be kept later, because what is told of it is held until then."""
        # Without calls nobody tells of the test through us; and what a fork of this process gathers, nobody would keep.
        return bool(self._calls) and self._is_worthwhile and os.getpid() == self._process

    def add(self, hook: Any, arguments: dict[str, Any]) -> None:
        if not self._calls:
            self._since = perf_counter()
        self._calls.append((hook, arguments))

    def tell_when_due(self) -> None:
        """Between two tests."""
        run = self._opened()
        gathered = 0 if run is None else run.gathered
        if not 0 < gathered < _MOST or perf_counter() - self._since > _WAIT_SECONDS:
            self.tell()

    def tell_meanwhile(self) -> None:
        """In the middle of a test."""
        if self._calls:
            with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
                self.tell()

    def tell(self) -> None:
        """Keep what was gathered, and tell all that was held."""
        if not self._calls:
            return
        if perf_counter() - self._since > _TOO_LONG_SECONDS:
            # Somebody takes their time between the tests: a hook of the project's, say. So they may wait for commits.
            self._is_worthwhile = False
        problem = self._commit()
        while self._calls:
            hook, arguments = self._calls.popleft()
            if problem is not None and "report" in arguments:
                _report_as_lost(arguments["report"], problem)
            hook(**arguments)

    def _commit(self) -> SeatrialError | None:
        run = self._opened()
        if run is None:
            return None
        try:
            run.commit()
        except SeatrialError as problem:
            run.forget_gathered()
            return problem
        return None


def _report_as_lost(report: pytest.TestReport, problem: SeatrialError) -> None:
    """What is not kept has not passed, whatever it came to."""
    if vars(report).get("seatrial", {}).pop("run", None) is None:
        return  # nothing was played in it
    said = f"The scenario was played, and could not be kept.\n{problem}"
    if report.outcome == "failed":
        report.sections.append(("seatrial", said))
        return
    report.outcome = "failed"
    report.longrepr = said


class ItemHooks:
    """The hooks that items of a file call, with those that tell of tests held back."""

    def __init__(self, hooks: Any, held: HeldReports) -> None:
        self._hooks = hooks
        self._held = held
        self.pytest_runtest_setup = hooks.pytest_runtest_setup
        self.pytest_runtest_call = hooks.pytest_runtest_call
        self.pytest_runtest_makereport = hooks.pytest_runtest_makereport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    def pytest_runtest_logstart(self, **arguments: Any) -> None:
        self._held.add(self._hooks.pytest_runtest_logstart, arguments)

    def pytest_runtest_logreport(self, *, report: pytest.TestReport) -> None:
        self._held.add(self._hooks.pytest_runtest_logreport, {"report": report})
        if report.outcome != "passed":
            self._held.tell()

    def pytest_runtest_teardown(self, *, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None or nextitem.parent is not item.parent:
            # Fixtures of the file, or of all files, may be torn down.
            self._held.tell()
        self._hooks.pytest_runtest_teardown(item=item, nextitem=nextitem)

    def pytest_runtest_logfinish(self, **arguments: Any) -> None:
        self._held.add(self._hooks.pytest_runtest_logfinish, arguments)
        self._held.tell_when_due()


def can_hold(config: pytest.Config) -> bool:
    """Not where the difference would be seen: in workers of xdist, which may be killed, or between other output."""
    if hasattr(config, "workerinput") or config.getoption("capture", "no") == "no":
        return False
    live_logs = config.pluginmanager.has_plugin("logging-plugin") and (
        config.getoption("log_cli_level", None) is not None or config.getini("log_cli")
    )
    return not live_logs

"""Scenario files as collectors: one test for each scenario, and for each agent where several run."""

import os
import re
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.model.scenario import Scenario
from seatrial.model.struct import Struct
from seatrial.reports.registry import parse_report_option
from seatrial.reports.terminal import one_line
from seatrial.scenarios.load import load
from seatrial.scenarios.loaded_suite import LoadedSuite

from .agents import is_supplied
from .exceptions import COLLECTED
from .items import ScenarioItem
from .pytest_run import PytestRun

_NOT_IN_MARKS = re.compile(r"[^\w.+/-]|^_+")
_OWN_MARKS = ("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "seatrial", "asyncio", "anyio")
"""A tag of such a name would do something to the test instead of describing it."""
_PYTESTS_OWN = {"python", "funcmanage"}
"""The plugins of pytest that make several tests of one: by marks that we refuse, and by parameters of fixtures."""


class CollectedScenario(Struct, frozen=True, kw_only=True):
    """What an item of a scenario file is to play."""

    loaded: LoadedSuite
    scenario: Scenario
    agent_name: str = ""
    supplied: bool = False
    """The agent comes from a fixture of the project's."""


class ScenarioFile(pytest.Module):
    """A scenario file. A Module, so that its items are functions that use fixtures as all tests do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._names: set[str] = set()
        self._fixtures: tuple[Any, bool] | None = None

    def _getobj(self) -> ModuleType:
        return ModuleType(self.path.stem)

    def collect(self) -> Iterator[pytest.Item]:
        run = PytestRun.of(self.config)
        run.find_modules()
        try:
            suites = load(
                [self._path_as_typed()], overrides=run.overrides, environ=run.options.environ, check_agents=False
            )
        except UsageError as problem:
            raise self.CollectError(str(problem)) from None
        supplied = run.options.agent is None and is_supplied(self)
        for loaded in suites:
            self._check_reports(loaded)
            for scenario in loaded.scenarios:
                before = run.take_name(loaded.name, scenario.name, scenario.source or self.nodeid)
                if before is not None:
                    raise self.CollectError(
                        f"{scenario.source}: the name {scenario.name!r} is taken in the suite {loaded.name!r} "
                        f"by {before}. A name is what results are kept under: make it unique"
                    )
                several = () if supplied or run.options.agent is not None else loaded.suite.agents or ()
                for agent in several or ("",):
                    collected = CollectedScenario(loaded=loaded, scenario=scenario, agent_name=agent, supplied=supplied)
                    yield from self._items(collected)

    def _check_reports(self, loaded: LoadedSuite) -> None:
        for text in loaded.suite.reports:
            try:
                parse_report_option(text)
            except UsageError as problem:
                why = str(problem).removeprefix("--report: ")
                raise self.CollectError(f"{loaded.path}: suite.reports: {why}") from None

    def _path_as_typed(self) -> str:
        """Short where it can be, since it is shown and kept with every scenario."""
        shown = os.path.relpath(self.path)
        return str(self.path) if shown.startswith(os.pardir) else shown

    def _items(self, collected: CollectedScenario) -> Iterator[pytest.Item]:
        scenario = collected.scenario
        name = self._free_name(f"{scenario.name}[{collected.agent_name}]" if collected.agent_name else scenario.name)
        function = _function(name, supplied=collected.supplied)
        marks = [self._mark(tag, scenario) for tag in dict.fromkeys(scenario.tags)]
        if scenario.skip is not None:
            marks.append(pytest.mark.skip(reason=scenario.skip))
        if marks:
            function.pytestmark = marks
        for made in self._variants(name, function):
            item = ScenarioItem.from_parent(self, callobj=function, **made)
            # What hooks of the project add to an item, as `item.fixturenames.append(…)`, is for this one alone.
            item.fixturenames = list(item.fixturenames)
            item.stash[COLLECTED] = collected
            yield item

    def _variants(self, name: str, function: Any) -> Iterator[dict[str, Any]]:
        """What the tests of a scenario are made with: one test, or one for each set of parameters."""
        fixtures, are_plain = self._fixtures_of(function)
        if are_plain:
            yield {"name": name, "fixtureinfo": fixtures}
            return
        setattr(self.obj, name, function)
        for made in self._genfunctions(name, function):
            callspec = getattr(made, "callspec", None)
            yield {
                "name": made.name,
                "fixtureinfo": made._fixtureinfo,
                "originalname": made.originalname,
                "callspec": callspec,
                "keywords": None if callspec is None else {callspec.id: True},
            }

    def _fixtures_of(self, function: Any) -> tuple[Any, bool]:
        """The fixtures that a test uses, and whether nothing can make several tests of one.

        The same for all tests of a file, so it is found out once: for each it would take longer than all else here.
        """
        if self._fixtures is None:
            file: Any = self  # it is asked for an item, and looks at those above it
            found = self.session._fixturemanager.getfixtureinfo(file, function, None)
            hooks = {each.plugin_name for each in self.ihook.pytest_generate_tests.get_hookimpls()}
            params = any(each.params for several in found.name2fixturedefs.values() for each in several)
            self._fixtures = (found, not params and hooks <= _PYTESTS_OWN)
        return self._fixtures

    def _free_name(self, name: str) -> str:
        """A name that node ids can hold, and that no other item of the file has."""
        shown = one_line(name).replace("::", ":")
        count = 1
        free = shown
        while free in self._names or hasattr(self.obj, free):
            count += 1
            free = f"{shown} ({count})"
        self._names.add(free)
        return free

    def _mark(self, tag: str, scenario: Scenario) -> pytest.MarkDecorator:
        name = _NOT_IN_MARKS.sub("_", tag).lstrip("_") or "tag"
        if name in _OWN_MARKS:
            raise self.CollectError(f"{scenario.source}: the tag {tag!r} is a marker with a meaning; rename the tag")
        run = PytestRun.of(self.config)
        if name not in run.marks:
            run.marks.add(name)
            self.config.addinivalue_line("markers", f"{name}: scenarios with the tag {tag!r}")
        mark: pytest.MarkDecorator = getattr(pytest.mark, name)
        return mark


def _function(name: str, *, supplied: bool) -> Any:
    """What fixtures, marks and parameters of a test are found by; the test itself is the item's `runtest`."""

    def with_fixture(seatrial_agent: Any) -> None: ...

    def without() -> None: ...

    # A fixture costs as much as playing a quick scenario, so it is asked for only where it gives something.
    function = with_fixture if supplied else without
    return FunctionType(function.__code__, function.__globals__, name)

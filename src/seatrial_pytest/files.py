"""Scenario files as collectors: one test for each scenario, and for each agent where several run."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from seatrial.errors import UsageError
from seatrial.reports import parse_report_option
from seatrial.reports.visible import one_line
from seatrial.scenarios import LoadedSuite, load
from seatrial.vocabulary.scenario import Scenario

from .agents import is_supplied
from .items import play_item
from .pytest_run import CASTING, PytestRun

_NOT_IN_MARKS = re.compile(r"[^\w.+/-]|^_+")
_OWN_MARKS = ("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "seatrial", "asyncio", "anyio")
"""A tag of such a name would do something to the test instead of describing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCasting:
    """What an item of a scenario file is to play."""

    loaded: LoadedSuite
    scenario: Scenario
    agent_name: str = ""
    supplied: bool = False
    """The agent comes from a fixture of the project's."""


class ScenarioFile(pytest.Module):
    """A scenario file. A Module, so that its items are functions that use fixtures as all tests do."""

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
            for scenario in loaded.resolved():
                before = run.take_name(loaded.name, scenario.name, scenario.source or self.nodeid)
                if before is not None:
                    raise self.CollectError(
                        f"{scenario.source}: the name {scenario.name!r} is taken in the suite {loaded.name!r} "
                        f"by {before}. A name is what results are kept under: make it unique"
                    )
                several = () if supplied or run.options.agent is not None else loaded.suite.agents or ()
                for agent in several or ("",):
                    casting = FileCasting(loaded=loaded, scenario=scenario, agent_name=agent, supplied=supplied)
                    yield from self._items(casting)

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

    def _items(self, casting: FileCasting) -> Iterator[pytest.Item]:
        scenario = casting.scenario
        name = self._free_name(f"{scenario.name}[{casting.agent_name}]" if casting.agent_name else scenario.name)
        function = _function(casting, name)
        function.pytestmark = [self._mark(tag, scenario) for tag in dict.fromkeys(scenario.tags)]
        if scenario.skip is not None:
            function.pytestmark.append(pytest.mark.skip(reason=scenario.skip))
        setattr(self.obj, name, function)
        for item in self._genfunctions(name, function):
            item.stash[CASTING] = casting
            yield item

    def _free_name(self, name: str) -> str:
        """A name that node ids can hold, and that no other item of the file has."""
        shown = one_line(name).replace("::", ":")
        count = 1
        free = shown
        while hasattr(self.obj, free):
            count += 1
            free = f"{shown} ({count})"
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


def _function(casting: FileCasting, name: str) -> Any:
    """The test function of a scenario, placed where the scenario is written."""

    def with_fixture(request: pytest.FixtureRequest, seatrial_agent: Any) -> None:
        play_item(request.node, seatrial_agent, casting)

    def without(request: pytest.FixtureRequest) -> None:
        play_item(request.node, None, casting)

    # A fixture costs as much as playing a quick scenario, so it is asked for only where it gives something.
    scenario = with_fixture if casting.supplied else without
    file, _, line = (casting.scenario.source or "").rpartition(":")
    code: CodeType = scenario.__code__
    if file and line.isdigit():
        code = code.replace(co_filename=os.path.abspath(file), co_firstlineno=int(line))
    return FunctionType(code, scenario.__globals__, name, None, scenario.__closure__)

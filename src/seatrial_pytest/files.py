"""Scenario files as collectors: one test for each scenario, and for each of several agents."""

import os
import re
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.scenario import Scenario
from seatrial.model.struct import Struct
from seatrial.reports.registry import parse_report_option
from seatrial.reports.terminal import one_line
from seatrial.runs.scenario_session import ScenarioRequest
from seatrial.scenarios.load import load
from seatrial.scenarios.loaded_suite import LoadedSuite

from .agents import choose_agent, is_supplied, require_agent
from .outcome import COLLECTED
from .pytest_run import PytestRun, agent_name_of, end, play_request, read_marker, require_live

_NOT_IN_MARKS = re.compile(r"[^\w.+/-]|^_+")
_RESERVED_MARKS = (
    *("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "seatrial", "asyncio", "anyio"),
)
"""A tag of such a name would change the test instead of describing it."""


class CollectedScenario(Struct, frozen=True, kw_only=True):
    """The scenario of an item."""

    loaded: LoadedSuite
    scenario: Scenario
    agent_name: str = ""
    agent_from_fixture: bool = False
    """The project's own fixture `seatrial_agent` supplies the agent."""


class ScenarioItem(pytest.Function):
    """A scenario of a file as a test. A Function, so that it can use fixtures."""

    def runtest(self) -> None:
        # Not hidden from tracebacks: otherwise pytest would have nothing to show.
        _play(self)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """The file and line of the scenario."""
        file, _, line = (self.stash[COLLECTED].scenario.source or "").rpartition(":")
        if not (file and line.isdigit()):
            return self.path, 0, self.name
        return os.path.join(self.config.invocation_params.dir, file), int(line) - 1, self.name


def _play(item: ScenarioItem) -> None:
    """Play the scenario and end the test by its verdict."""
    __tracebackhide__ = True
    marker = read_marker(item)
    if marker.get("expect_failure"):
        raise pytest.UsageError(f"{item.nodeid}: expect_failure is for tests in Python; give the scenario an xfail")
    if marker.get("live"):
        require_live(item, "it is marked live")
    request = request_of(item, item.stash[COLLECTED], agent=item.funcargs.get("seatrial_agent"))
    require_agent(request.agent, item)
    played = play_request(item, request)
    loaded, outcome = request.loaded, played.outcome
    if loaded.config.fail_fast and not (outcome.verdict.passed or outcome.xfailed or outcome.skipped):
        item.session.shouldfail = f"{loaded.path}: stopping after a failure, as its fail_fast says"
    end(item, played)


def request_of(item: Any, collected: CollectedScenario, *, agent: Any = None) -> ScenarioRequest:
    """The scenario with its agent and the marker's settings. `agent` is the value of the fixture, once it is known."""
    run = PytestRun.of(item.config)
    return ScenarioRequest(
        loaded=collected.loaded,
        scenario=_apply_marker(collected.scenario, read_marker(item), trials=run.options.trials),
        agent=agent if collected.agent_from_fixture else choose_agent(collected, run.options),
        agent_name=agent_name_of(item),
        position=run.position_of(item),
    )


def _apply_marker(scenario: Scenario, marker: Mapping[str, Any], *, trials: Any) -> Scenario:
    """The scenario with the marker's settings. `trials`: the flag, which takes precedence."""
    given = {key: marker[key] for key in ("trials", "threshold") if marker.get(key) is not None}
    if trials is not None:
        given.pop("trials", None)
    if given.get("trials", "auto") != "auto":
        given["sequential"] = None
    return replace(scenario, **given) if given else scenario


class ScenarioFile(pytest.Module):
    """A scenario file. A Module, so that its items can use fixtures."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._names: set[str] = set()

    def _getobj(self) -> ModuleType:
        return ModuleType(self.path.stem)

    def collect(self) -> Iterator[pytest.Item]:
        run = PytestRun.of(self.config)
        run.add_import_paths()
        try:
            suites = load(
                [self._path_as_typed()], overrides=run.overrides, environ=run.options.environ, check_agents=False
            )
        except UsageError as problem:
            raise self.CollectError(str(problem)) from None
        from_fixture = run.options.agent is None and is_supplied(self)
        for loaded in suites:
            self._check_reports(loaded)
            for scenario in loaded.scenarios:
                before = run.register_name(loaded.name, scenario.name, scenario.source or self.nodeid)
                if before is not None:
                    raise self.CollectError(
                        f"{scenario.source}: the name {scenario.name!r} is taken in the suite {loaded.name!r} "
                        f"by {before}. Results are stored by name: make it unique"
                    )
                several = () if from_fixture or run.options.agent is not None else loaded.suite.agents or ()
                for agent in several or ("",):
                    collected = CollectedScenario(
                        loaded=loaded, scenario=scenario, agent_name=agent, agent_from_fixture=from_fixture
                    )
                    yield from self._items(collected)

    def _check_reports(self, loaded: LoadedSuite) -> None:
        for text in loaded.suite.reports:
            try:
                parse_report_option(text)
            except UsageError as problem:
                why = str(problem).removeprefix("--report: ")
                raise self.CollectError(f"{loaded.path}: suite.reports: {why}") from None

    def _path_as_typed(self) -> str:
        """Relative to the current folder if possible: it is shown and stored with every scenario."""
        shown = os.path.relpath(self.path)
        return str(self.path) if shown.startswith(os.pardir) else shown

    def _items(self, collected: CollectedScenario) -> Iterator[pytest.Item]:
        scenario = collected.scenario
        name = self._free_name(f"{scenario.name}[{collected.agent_name}]" if collected.agent_name else scenario.name)
        function = _function(name, with_fixture=collected.agent_from_fixture)
        marks = [self._mark(tag, scenario) for tag in dict.fromkeys(scenario.tags)]
        if scenario.skip is not None:
            marks.append(pytest.mark.skip(reason=scenario.skip))
        if marks:
            function.pytestmark = marks
        for made in self._variants(name, function):
            item = ScenarioItem.from_parent(self, callobj=function, **made)
            # Hooks of the project may change the list of one item: `item.fixturenames.append(…)`.
            item.fixturenames = list(item.fixturenames)
            item.stash[COLLECTED] = collected
            yield item

    def _variants(self, name: str, function: Any) -> Iterator[dict[str, Any]]:
        """The arguments of the scenario's items: of one, or of one for each parameter set of its fixtures."""
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

    def _free_name(self, name: str) -> str:
        """A unique name that is valid in node ids."""
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
        if name in _RESERVED_MARKS:
            raise self.CollectError(f"{scenario.source}: the tag {tag!r} is a marker with a meaning; rename the tag")
        run = PytestRun.of(self.config)
        if name not in run.marks:
            run.marks.add(name)
            self.config.addinivalue_line("markers", f"{name}: scenarios with the tag {tag!r}")
        mark: pytest.MarkDecorator = getattr(pytest.mark, name)
        return mark


def _function(name: str, *, with_fixture: bool) -> Any:
    """The function in which pytest finds fixtures, marks and parameters; `ScenarioItem.runtest` is the test."""

    def uses_fixture(seatrial_agent: Any) -> None: ...

    def uses_none() -> None: ...

    function = uses_fixture if with_fixture else uses_none
    return FunctionType(function.__code__, function.__globals__, name)

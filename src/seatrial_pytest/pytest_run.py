"""The one run of a pytest session: opened with the first scenario that is played, shared by all of them."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from seatrial.errors import SeatrialError, UsageError
from seatrial.model.run import RunGates
from seatrial.model.scenario import Scenario
from seatrial.runs.agents import is_recording
from seatrial.runs.new_run import find_commit, new_run, request_settings
from seatrial.runs.request import RunRequest
from seatrial.runs.scenario_session import ScenarioSession, choose_seed, selected_gates
from seatrial.scenarios.merge import read_overrides

from .exceptions import COLLECTED
from .options import Options, options_of
from .summary import name_the_run, watch

if TYPE_CHECKING:
    from .files import CollectedScenario

_KEY = pytest.StashKey["PytestRun"]()


class PytestRun:
    """What the scenarios of a session share."""

    def __init__(self, config: pytest.Config) -> None:
        self.options: Options = options_of(config)
        self._config = config
        self._open: ScenarioSession | None = None
        self._process = os.getpid()
        self._places: dict[tuple[str, str], str] = {}
        self._positions: dict[int, int] = {}
        """By the identity of items: they are told apart by their names else, which takes longer."""
        self.selected: list[pytest.Item] = []
        self.marks: set[str] = set()
        """Tags that are registered as markers."""

    @classmethod
    def of(cls, config: pytest.Config) -> "PytestRun":
        run = config.stash.get(_KEY, None)
        if run is None:
            run = config.stash[_KEY] = cls(config)
            watch(config).closing.append(run.close)
            config.pluginmanager.register(run, "seatrial-run")
        return run

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Positions follow the order of the session, so that all workers of xdist give the same ones."""
        name_the_run(self._config)  # now, so that forks of this process play one run as well
        self.selected = session.items
        self._positions = {id(item): position for position, item in enumerate(session.items)}

    def find_modules(self) -> None:
        """Let `agent: package.module:attribute` be found from the project's folder, as on the command line."""
        for folder in dict.fromkeys((str(self._config.rootpath), str(self._config.invocation_params.dir))):
            if folder not in sys.path:
                sys.path.insert(0, folder)

    def take_name(self, suite: str, name: str, place: str) -> str | None:
        """Where the scenario's name was taken before; None when it was free."""
        before = self._places.setdefault((suite, name), place)
        return None if before == place else before

    def position_of(self, item: pytest.Item) -> int:
        return self._positions.get(id(item), len(self._positions))

    @property
    def overrides(self) -> Mapping[str, Any]:
        return {} if self.options.trials is None else {"trials": self.options.trials}

    def open(self) -> ScenarioSession:
        """The run, opened when it is first asked for. A fork of this process opens it for itself."""
        if self._process != os.getpid():
            self._open, self._process = None, os.getpid()
        if self._open is None:
            options = self.options
            name = name_the_run(self._config)
            request = RunRequest(
                id=name["run"],
                sources=tuple(dict.fromkeys(str(item.path) for item in self.selected if COLLECTED in item.stash)),
                agent=options.agent,
                overrides=self.overrides,
                store=options.store,
                cache=options.cache,
                environ=options.environ,
                models=options.models,
                default_agent=options.default_agent,
                not_redacted=options.not_redacted,
                command=shlex.join(["pytest", *map(str, self._config.invocation_params.args)]),
            )
            collected = [item.stash[COLLECTED] for item in self.selected if COLLECTED in item.stash]
            seed = choose_seed([each.loaded for each in collected])
            run = new_run(
                request,
                name="pytest",
                commit=find_commit(self._config.rootpath),
                config=request_settings(request),
                seed=name["seed"] if seed is None else seed,
                gates=self._gates(collected),
                replayed=any(is_recording(choose_agent(each, options)) for each in collected if not each.supplied),
            )
            self._open = ScenarioSession(request, run, live=options.live)
        return self._open

    def _gates(self, collected: "Sequence[CollectedScenario]") -> RunGates:
        gates = selected_gates([(each.loaded, each.scenario) for each in collected])
        in_python = any("seatrial" in getattr(item, "fixturenames", ()) for item in self.selected)
        # As for several suites: Python tests set no such threshold, and their trials must not fill that of others.
        return replace(gates, cases_pass_threshold=None) if in_python else gates

    def close(self) -> list[str]:
        """Close the run; what went wrong."""
        try:
            if self._open is not None:
                self._open.close()
        except SeatrialError as problem:
            return [str(problem)]
        return []


def choose_agent(collected: "CollectedScenario", options: Options) -> Any:
    """The agent of an item of a scenario file, where no fixture supplies it."""
    if options.agent is not None:
        return options.agent
    suite = collected.loaded.suite
    if collected.agent_name and suite.agents:
        return suite.agents[collected.agent_name]
    return suite.agent if suite.agent is not None else options.default_agent


def read_marker(item: pytest.Item) -> dict[str, Any]:
    """What `@pytest.mark.seatrial(…)` says, the closest mark first. Raises pytest.UsageError."""
    found: dict[str, Any] = {}
    for mark in item.iter_markers("seatrial"):
        unknown = sorted(set(mark.kwargs) - {"trials", "threshold", "live", "expect_failure"})
        if mark.args or unknown:
            what = f"got {mark.args!r}" if mark.args else f"unknown: {', '.join(unknown)}"
            raise pytest.UsageError(
                f"{item.nodeid}: @pytest.mark.seatrial takes trials=, threshold=, live= and expect_failure= "
                f"by name; {what}"
            )
        found = {**mark.kwargs, **found}
    given = {key: found[key] for key in ("trials", "threshold") if found.get(key) is not None}
    if given:
        try:
            checked = read_overrides(given)
        except UsageError as problem:
            raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.seatrial: {problem}") from None
        found |= {key: getattr(checked, key) for key in given}
    return found


def apply_marker(scenario: Scenario, marker: Mapping[str, Any], options: Options) -> Scenario:
    """The scenario with the marker's numbers; a flag comes before them."""
    if not marker:
        return scenario
    given = {key: marker[key] for key in ("trials", "threshold") if marker.get(key) is not None}
    if options.trials is not None:
        given.pop("trials", None)
    if given.get("trials", "auto") != "auto":
        given["sequential"] = None
    return replace(scenario, **given) if given else scenario

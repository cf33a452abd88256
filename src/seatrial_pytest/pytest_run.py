"""The one run of a pytest session: opened by the first scenario, shared by all of them."""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from msgspec.structs import replace

from seatrial.errors import SeatrialError, UsageError
from seatrial.model.run import Run, RunGates, Status
from seatrial.runs.agents import is_recording
from seatrial.runs.new_run import find_commit, new_run, redact_spec, request_settings
from seatrial.runs.request import RunRequest
from seatrial.runs.scenario_session import (
    NotLive,
    PlayedScenario,
    ScenarioRequest,
    ScenarioSession,
    choose_seed,
    selected_gates,
)
from seatrial.scenarios.merge import read_overrides
from seatrial.store.store import open_store

from .agents import choose_agent
from .options import Options, options_of
from .outcome import COLLECTED, ScenarioErrored, ScenarioFailed, notes_of, verbosity_of
from .session_plugin import run_identity, session_plugin

if TYPE_CHECKING:
    from seatrial.runs.against_history import HistoryPlan

    from .files import CollectedScenario

_KEY = pytest.StashKey["PytestRun"]()


class PytestRun:
    """What the scenarios of a session share."""

    def __init__(self, config: pytest.Config) -> None:
        self.options: Options = options_of(config)
        self._config = config
        self._session: ScenarioSession | None = None
        self._process = os.getpid()
        self._names: dict[tuple[str, str], str] = {}
        """By suite and scenario: the file and line."""
        self._positions: dict[int, int] = {}
        """By the identity of the item."""
        self._items: Sequence[pytest.Item] = ()
        self.marks: set[str] = set()
        """Tags that are registered as markers."""

    @classmethod
    def of(cls, config: pytest.Config) -> "PytestRun":
        run = config.stash.get(_KEY, None)
        if run is None:
            run = config.stash[_KEY] = cls(config)
            session_plugin(config).on_close.append(run.close)
            config.pluginmanager.register(run, "seatrial-run")
        return run

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Positions follow the order of the session, so that all workers of xdist use the same ones."""
        run_identity(self._config)  # now, so that forks of this process share the run
        self._items = session.items
        self._positions = {id(item): position for position, item in enumerate(session.items)}

    def add_import_paths(self) -> None:
        """Let `agent: package.module:attribute` be imported from the project's folder, as on the command line."""
        for folder in dict.fromkeys((str(self._config.rootpath), str(self._config.invocation_params.dir))):
            if folder not in sys.path:
                sys.path.insert(0, folder)

    def register_name(self, suite: str, name: str, place: str) -> str | None:
        """The place of another scenario with this name; None if the name was free."""
        known = self._names.setdefault((suite, name), place)
        return None if known == place else known

    def position_of(self, item: pytest.Item) -> int:
        return self._positions.get(id(item), len(self._positions))

    @property
    def overrides(self) -> Mapping[str, Any]:
        return {} if self.options.trials is None else {"trials": self.options.trials}

    @property
    def session(self) -> ScenarioSession:
        """The session, opened by the first call. A fork of this process opens its own."""
        if self._session is None or self._process != os.getpid():
            self._process = os.getpid()
            request = self._request()
            run, history = self._new_run(request), self._find_history(request)
            if history is not None:
                run = replace(run, gates=replace(run.gates, history=history.history))
            self._session = ScenarioSession(request, run, live=self.options.live, history=history)
        return self._session

    def _find_history(self, request: RunRequest) -> "HistoryPlan | None":
        """The tests of the collected scenarios with `--seatrial-against`."""
        if request.against is None or request.store is None:
            return None
        from seatrial.runs.against_history import plan_history, read_history

        here = find_commit(self._config.rootpath).wait()
        items = [item for item in self._items if COLLECTED in item.stash]
        collected = self._collected()
        with open_store(request.store) as store:
            history = read_history(
                store,
                request.against,
                baselines={each.loaded.name: each.loaded.suite.baseline for each in collected},
                commit=None if here.dirty else here.sha,
            )
        asked = (
            ScenarioRequest(loaded=each.loaded, scenario=each.scenario, agent=None, agent_name=agent_name_of(item))
            for item, each in zip(items, collected, strict=True)
        )
        return plan_history(history, (each.entry() for each in asked), self._gates(collected))

    def _collected(self) -> "list[CollectedScenario]":
        return [item.stash[COLLECTED] for item in self._items if COLLECTED in item.stash]

    def _request(self) -> RunRequest:
        options = self.options
        return RunRequest(
            id=run_identity(self._config)["run"],
            sources=tuple(dict.fromkeys(str(item.path) for item in self._items if COLLECTED in item.stash)),
            agent=options.agent,
            against=options.against,
            overrides=self.overrides,
            store=options.store,
            cache=options.cache,
            environ=options.environ,
            models=options.models,
            default_agent=options.default_agent,
            not_redacted=options.not_redacted,
            command=shlex.join(["pytest", *map(str, self._config.invocation_params.args)]),
        )

    def _new_run(self, request: RunRequest) -> Run:
        collected = self._collected()
        seed = choose_seed([each.loaded for each in collected])
        specs = [choose_agent(each, self.options) for each in collected if not each.agent_from_fixture]
        return new_run(
            request,
            name="pytest",
            commit=find_commit(self._config.rootpath),
            config={**request_settings(request), "agents": _agents(collected)},
            seed=run_identity(self._config)["seed"] if seed is None else seed,
            gates=self._gates(collected),
            replayed=any(map(is_recording, specs)),
        )

    def _gates(self, collected: "Sequence[CollectedScenario]") -> RunGates:
        gates = selected_gates([(each.loaded, each.scenario) for each in collected])
        has_python_tests = any("seatrial" in getattr(item, "fixturenames", ()) for item in self._items)
        # Python tests set no threshold, as a suite without one: their trials must not count towards that of others.
        return replace(gates, cases_pass_threshold=None) if has_python_tests else gates

    def close(self) -> list[str]:
        """Close the session. Returns the problems."""
        try:
            if self._session is not None and self._process == os.getpid():
                self._session.close()
        except SeatrialError as problem:
            return [str(problem)]
        return []


def agent_name_of(item: Any) -> str:
    """The agent in the key of the item's scenario, with the parameters of its fixtures."""
    callspec = getattr(item, "callspec", None)
    parameters = "" if callspec is None else str(callspec.id)
    return "-".join(filter(None, (item.stash[COLLECTED].agent_name, parameters)))


def _agents(collected: "Sequence[CollectedScenario]") -> Mapping[str, Any]:
    """The agents that the suites name, as in the settings of a run of the command."""
    return {each.loaded.name: redact_spec(each.loaded.suite.agents or each.loaded.suite.agent) for each in collected}


def read_marker(item: pytest.Item) -> dict[str, Any]:
    """The arguments of `@pytest.mark.seatrial(…)`; the closest mark wins. Raises pytest.UsageError."""
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


def require_live(item: pytest.Item, why: str) -> None:
    """Skip the test if models may not be called; with --seatrial-require-live, raise ScenarioErrored."""
    __tracebackhide__ = True
    options = PytestRun.of(item.config).options
    if options.live:
        return
    if options.require_live:
        raise ScenarioErrored(
            f"{item.nodeid}: {why}, and --seatrial-require-live is given without --seatrial-live"
        ) from None
    reason = f"{why}: --seatrial-live runs it"
    notes_of(item).not_live = reason
    pytest.skip(reason)


def play_request(item: pytest.Item, request: ScenarioRequest) -> PlayedScenario:
    """Play the scenario and wait for its trials."""
    __tracebackhide__ = True
    session = PytestRun.of(item.config).session
    with ending_test(item, request):
        played = session.play(request)
    keep(item, played, session)
    return played


@contextmanager
def ending_test(item: pytest.Item, request: ScenarioRequest | None = None) -> Iterator[None]:
    """Turn our exceptions into the end of the test: skipped or errored."""
    __tracebackhide__ = True
    try:
        yield
    except (NotLive, SeatrialError) as problem:
        if request is not None:
            notes_of(item).unplayed.append(request)
        if isinstance(problem, NotLive):
            require_live(item, str(problem))
            raise
        raise ScenarioErrored(str(problem)) from None


def keep(item: pytest.Item, played: PlayedScenario, session: ScenarioSession) -> None:
    """Add the scenario to the notes and the properties of the test, or replace what they contain of it."""
    name = played.outcome.entry.key.label
    notes = notes_of(item)
    notes.session = session
    notes.results = list({**dict(notes.results), name: played}.items())
    own = [each for each in item.user_properties if not each[0].startswith("seatrial_")]
    item.user_properties[:] = [*own, *(each for result in notes.results for each in _properties(*result, session))]


def _properties(name: str, played: PlayedScenario, session: ScenarioSession) -> Iterator[tuple[str, object]]:
    yield "seatrial_run", session.run.id
    yield "seatrial_scenario", name
    yield "seatrial_trials", played.outcome.played
    yield "seatrial_passed", played.outcome.passed


def end(item: pytest.Item, played: PlayedScenario) -> None:
    """End the test as the scenario's verdict says."""
    __tracebackhide__ = True
    outcome = played.outcome
    if outcome.skipped:
        pytest.skip(outcome.entry.skip or "")
    if outcome.xfailed and not getattr(item.config.option, "runxfail", False):
        pytest.xfail(outcome.entry.xfail or "")
    if not outcome.verdict.passed:
        raise_for(item, played)


def raise_for(item: pytest.Item, played: PlayedScenario) -> NoReturn:
    """Raise ScenarioFailed if the agent failed, otherwise ScenarioErrored."""
    __tracebackhide__ = True
    from .failure_text import describe

    notes_of(item).described.add(played.outcome.entry.key.label)
    run = PytestRun.of(item.config).session.run
    text = describe(played, run=run.id, verbosity=verbosity_of(item.config))
    if played.outcome.verdict.status is Status.FAILED:
        raise ScenarioFailed(text)
    raise ScenarioErrored(text)

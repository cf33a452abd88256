"""A scenario of a file, played as a test."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from seatrial.errors import SeatrialError
from seatrial.model.run import Status
from seatrial.runs.scenario_session import NotLive, PlayedScenario, ScenarioRequest, ScenarioSession

from .agents import require_agent
from .exceptions import COLLECTED, ScenarioErrored, ScenarioFailed, notes_of, verbosity_of
from .pytest_run import PytestRun, apply_marker, choose_agent, read_marker

if TYPE_CHECKING:
    from .files import CollectedScenario


class ScenarioItem(pytest.Function):
    """A scenario of a file as a test. A Function, so that it uses fixtures as all tests do."""

    def runtest(self) -> None:
        # Not hidden, as all below is: pytest would say that nothing is left to be shown.
        play_item(self, self.funcargs.get("seatrial_agent"), self.stash[COLLECTED])

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """Where the scenario is written. (A Function would look for the source of its function, for longer.)"""
        file, _, line = (self.stash[COLLECTED].scenario.source or "").rpartition(":")
        if not (file and line.isdigit()):
            return self.path, 0, self.name
        return os.path.join(self.config.invocation_params.dir, file), int(line) - 1, self.name


def play_item(item: Any, supplied: Any, collected: "CollectedScenario") -> None:
    """Play the scenario and end the test by its verdict. `supplied` is what the fixture `seatrial_agent` gave."""
    __tracebackhide__ = True
    marker = read_marker(item)
    if marker.get("expect_failure"):
        raise pytest.UsageError(f"{item.nodeid}: expect_failure is for tests in Python; give the scenario an xfail")
    if marker.get("live"):
        require_live(item, "it is marked live")
    request = request_of(item, collected, marker, supplied)
    require_agent(request.agent, item)
    played = play_request(item, request)
    loaded = collected.loaded
    if loaded.config.fail_fast and not played.outcome.verdict.passed and not played.outcome.xfailed:
        item.session.shouldfail = f"{loaded.path}: stopping after a failure, as its fail_fast says"
    end(item, played)


def request_of(
    item: Any, collected: "CollectedScenario", marker: Mapping[str, Any], supplied: Any = None
) -> ScenarioRequest:
    """The scenario with the marker's numbers and its agent; None where only a fixture would know it."""
    run = PytestRun.of(item.config)
    return ScenarioRequest(
        loaded=collected.loaded,
        scenario=apply_marker(collected.scenario, marker, run.options),
        agent=supplied if collected.supplied else choose_agent(collected, run.options),
        agent_name="-".join(filter(None, (collected.agent_name, _parameters(item)))),
        position=run.position_of(item),
    )


def play_request(item: pytest.Item, request: ScenarioRequest) -> PlayedScenario:
    """Play it, and wait."""
    __tracebackhide__ = True
    run = PytestRun.of(item.config)
    opened = run.open()
    with explained(item, request):
        played = opened.play(request)
    keep(item, played, opened)
    return played


@contextmanager
def explained(item: pytest.Item, request: ScenarioRequest | None = None) -> Iterator[None]:
    """What keeps a scenario from being played ends the test as skipped or errored, and says why."""
    __tracebackhide__ = True
    try:
        yield
    except NotLive as missing:
        notes_of(item).unplayed.append(request)
        require_live(item, str(missing))
        raise
    except SeatrialError as problem:
        if request is not None:
            notes_of(item).unplayed.append(request)
        raise ScenarioErrored(str(problem)) from None


def require_live(item: pytest.Item, why: str) -> None:
    """Return where models may be asked; else the test is skipped, or errored where that is not allowed."""
    __tracebackhide__ = True
    options = PytestRun.of(item.config).options
    if options.live:
        return
    if options.require_live:
        said = f"{item.nodeid}: {why}, and --seatrial-require-live is given without --seatrial-live"
        raise ScenarioErrored(said) from None  # nobody is helped by how we found out
    reason = f"{why}: --seatrial-live runs it"
    notes_of(item).not_live = reason
    pytest.skip(reason)


def keep(item: pytest.Item, played: PlayedScenario, run: ScenarioSession) -> None:
    """Leave what was played for the report of the test."""
    name = played.outcome.entry.key.label
    notes = notes_of(item)
    notes.run = run
    for index, (before, _) in enumerate(notes.results):
        if before == name:
            notes.results[index] = (name, played)
            # What was told before the check is no longer so.
            item.user_properties[:] = [each for each in item.user_properties if not each[0].startswith("seatrial_")]
            for result in notes.results:
                item.user_properties += _properties(*result, run)
            return
    notes.results.append((name, played))
    item.user_properties += _properties(name, played, run)


def _properties(name: str, played: PlayedScenario, run: ScenarioSession) -> Iterator[tuple[str, object]]:
    yield "seatrial_run", run.run.id
    yield "seatrial_scenario", name
    yield "seatrial_trials", played.outcome.played
    yield "seatrial_passed", played.outcome.passed


def end(item: pytest.Item, played: PlayedScenario) -> None:
    """Let the test end as the scenario's verdict says."""
    __tracebackhide__ = True
    outcome = played.outcome
    if outcome.xfailed and not getattr(item.config.option, "runxfail", False):
        pytest.xfail(outcome.entry.xfail or "")
    if not outcome.verdict.passed:
        raise_for(item, played)


def raise_for(item: pytest.Item, played: PlayedScenario) -> NoReturn:
    """Raises ScenarioFailed where the agent failed, ScenarioErrored where nobody knows."""
    __tracebackhide__ = True
    from .failure_text import describe  # only for a failure's text

    notes_of(item).told.add(played.outcome.entry.key.label)
    text = describe(played, run=PytestRun.of(item.config).open().run.id, verbosity=verbosity_of(item.config))
    if played.outcome.verdict.status is Status.FAILED:
        raise ScenarioFailed(text)
    raise ScenarioErrored(text)


def _parameters(item: Any) -> str:
    """What tells the runs of a parametrised fixture apart."""
    callspec = getattr(item, "callspec", None)
    return "" if callspec is None else str(callspec.id)

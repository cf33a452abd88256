"""The fixture `seatrial`: scenarios played by tests in Python, sync or async."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from seatrial.model.run import Status
from seatrial.model.scenario import Scenario
from seatrial.runs.scenario_session import PlayedScenario, ScenarioRequest
from seatrial.scenarios.load import load

from .agents import require_agent
from .exceptions import ScenarioErrored, notes_of
from .items import end, explained, keep, play_request, raise_for, require_live
from .pytest_run import PytestRun, read_marker
from .result import ScenarioResult

_in_turn: ContextVar[bool] = ContextVar("in_turn", default=False)


class Seatrial:
    """Plays scenarios for one test, and sees to it that the test looks at what they came to."""

    def __init__(self, item: Any, agent: Any) -> None:
        self._item = item
        self._agent = agent
        self._run = PytestRun.of(item.config)
        self._marker = read_marker(item)
        self._results: list[ScenarioResult] = []
        self._turn = threading.Lock()
        """Threads of the test take turns: one loop plays the scenarios, and their names are counted."""
        notes_of(item).fixture = self
        if self._marker.get("live"):
            require_live(item, "it is marked live")

    def run(
        self,
        scenario: Scenario | str,
        *,
        agent: Any = None,
        trials: int | str | None = None,
        threshold: float | None = None,
    ) -> ScenarioResult:
        """Play the scenario's trials. A text is the user's message of a scenario of one turn.

        `result = seatrial.run(scenario)`; in an async test `result = await seatrial.run(scenario)`.
        """
        __tracebackhide__ = True
        with self._hiding_no_failure(), self._taking_turn():
            request = self._request(scenario, agent, trials=trials, threshold=threshold)
            if request.scenario.skip is not None:
                notes_of(self._item).unplayed.append(request)
                pytest.skip(request.scenario.skip)
            name = request.scenario.name
            if _loop_is_running():
                result = ScenarioResult.pending(name, partial(self._play, request))
            else:
                result = ScenarioResult(played=play_request(self._item, request), name=name)
            self._results.append(result)
        return result

    def check(self, result: ScenarioResult, *evaluators: Any) -> ScenarioResult:
        """Let evaluators look at every trial, and fail the test unless enough of them pass, by all that is expected.

        Works in sync and async tests alike; it may be awaited, but need not be.
        """
        __tracebackhide__ = True
        opened = self._run.open()
        with self._taking_turn(), explained(self._item):
            if evaluators:
                result.replace(opened.check(result.played, evaluators))
        keep(self._item, result.played, opened)
        result.asserted = True
        with self._hiding_no_failure():
            end(self._item, result.played)
        return result

    def settle(self) -> None:
        """At the end of the test: what it did not assert must have passed, and it must have looked at everything."""
        __tracebackhide__ = True
        if notes_of(self._item).call_ended_early:
            return
        for result in self._results:
            played = result.played  # raises where it was not awaited
            if not self._is_excused(result):
                end(self._item, played)
            if not (result.seen or result.asserted):
                raise ScenarioErrored(
                    f"{self._item.nodeid}: the test played {result!r} and asserted nothing about it. "
                    "Write `assert result.passed`, or seatrial.check(result, …)"
                )

    @property
    def passed(self) -> list[bool]:
        """Which scenarios of the test passed, in the order in which they were played."""
        return [result.played.outcome.verdict.passed for result in self._results]

    def _is_excused(self, result: ScenarioResult) -> bool:
        """Whether the scenario may have failed: an assertion read the verdict, or the marker expects a failure."""
        verdict = result.played.outcome.verdict
        is_expected = bool(self._marker.get("expect_failure")) and verdict.status is Status.FAILED
        return result.asserted or verdict.passed or is_expected

    @contextmanager
    def _taking_turn(self) -> Iterator[None]:
        """Not for an agent or an evaluator: the turn in which it is asked does not end before it answers."""
        __tracebackhide__ = True
        if _in_turn.get():
            raise ScenarioErrored(
                f"{self._item.nodeid}: an agent or an evaluator called the fixture seatrial, which is waiting for it. "
                "Play the other scenario in the test, before or after this one"
            )
        with self._turn:
            token = _in_turn.set(True)
            try:
                yield
            finally:
                _in_turn.reset(token)

    @contextmanager
    def _hiding_no_failure(self) -> Iterator[None]:
        """A test that is skipped or xfailed here does not come to assert what failed before."""
        __tracebackhide__ = True
        try:
            yield
        except (pytest.skip.Exception, pytest.xfail.Exception):
            for result in self._results:
                if result.awaited and not self._is_excused(result) and not result.played.outcome.xfailed:
                    raise_for(self._item, result.played)
            raise

    def _request(self, scenario: Scenario | str, agent: Any, **own: Any) -> ScenarioRequest:
        __tracebackhide__ = True
        item, options = self._item, self._run.options
        if isinstance(scenario, str):
            scenario = Scenario(name=item.name, input=scenario)
        if not isinstance(scenario, Scenario):
            raise ScenarioErrored(f"{item.nodeid}: seatrial.run() takes a Scenario or a text, got {scenario!r:.200}")
        marked: dict[str, Any] = {key: self._marker[key] for key in ("trials", "threshold") if key in self._marker}
        given: dict[str, Any] = {
            **marked,
            **{key: value for key, value in own.items() if value is not None},
            **self._run.overrides,
        }
        with explained(item):
            loaded = load([scenario], overrides=given, environ=options.environ)[0]
        resolved, *others = loaded.scenarios
        if others:
            raise ScenarioErrored(
                f"{item.nodeid}: the examples of {scenario.name!r} make {1 + len(others)} scenarios of it, and "
                "seatrial.run() plays one. Let @pytest.mark.parametrize give the rows, or put the scenario in a file"
            )
        found = next((each for each in (agent, options.agent, self._agent) if each is not None), None)
        return ScenarioRequest(
            loaded=loaded,
            scenario=resolved,
            agent=require_agent(found, item),
            suite=item.nodeid.partition("::")[0],
            name=self._name(scenario.name),
            position=self._run.position_of(item),
        )

    def _name(self, scenario: str) -> str:
        """What the scenario is kept under: the test, the scenario, and how often the test played it before."""
        test = self._item.nodeid.partition("::")[2]
        before = sum(each.name == scenario for each in self._results)
        name = test if scenario == self._item.name else f"{test}: {scenario}"
        return f"{name} ({before + 1})" if before else name

    async def _play(self, request: ScenarioRequest) -> PlayedScenario:
        """On the run's loop, while the test's own goes on."""
        __tracebackhide__ = True
        opened = self._run.open()
        with self._hiding_no_failure(), explained(self._item, request):
            played = await asyncio.wrap_future(opened.start(request))
        keep(self._item, played, opened)
        return played


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def runs_async(item: pytest.Function) -> bool:
    """Whether the test is a coroutine that plays scenarios and that no other plugin has taken on."""
    taken = item.get_closest_marker("asyncio") or item.get_closest_marker("anyio") or item.get_closest_marker("trio")
    return "seatrial" in item.fixturenames and asyncio.iscoroutinefunction(item.obj) and taken is None


def run_async(item: Any) -> None:
    """Run the test on an event loop of its own."""
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    asyncio.run(item.obj(**arguments))

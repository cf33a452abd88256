"""Python tests: the fixture `seatrial`, its results, and the end of the test."""

import asyncio
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from seatrial.model.conversation import ToolCall, Transcript
from seatrial.model.protocols import MAY_BE_MORE, NOT_RECORDED, RECORD_CALLS, CalledTools
from seatrial.model.run import Interval, ScenarioOutcome, Status, Trial
from seatrial.model.scenario import Scenario, Suite, World
from seatrial.runs.report import is_asserting, unsettled
from seatrial.runs.scenario_session import PlayedScenario, ScenarioRequest
from seatrial.scenarios.load import load

from .agents import require_agent
from .failure_text import in_one_line
from .outcome import COLLECTED, ScenarioErrored, ScenarioFailed, known_notes, notes_of
from .pytest_run import PytestRun, end, ending_test, keep, play_request, raise_for, read_marker, require_live

if TYPE_CHECKING:
    from seatrial.runs.report import Report

_in_turn: ContextVar[bool] = ContextVar("in_turn", default=False)
_HOW_TO_EXPECT = (
    "If the test expects this, assert it, as in `assert report.status == 'failed'`, or mark the test with "
    "@pytest.mark.seatrial(expect_failure=True)"
)


class Seatrial:
    """Plays scenarios for one test, and requires that the test checks their verdicts."""

    def __init__(self, item: Any, agent: Any, world: Any = None) -> None:
        self._item = item
        self._agent = agent
        self._world = world
        self._run = PytestRun.of(item.config)
        self._marker = read_marker(item)
        self._results: list[ScenarioResult] = []
        self._turn = threading.Lock()
        """Threads of the test take turns: names of scenarios are counted."""
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
    ) -> "ScenarioResult":
        """Play the scenario's trials. A text is the user message of a scenario with one turn.

        `result = seatrial.run(scenario)`; in an async test `result = await seatrial.run(scenario)`.
        """
        __tracebackhide__ = True
        with self._keeping_failures(), self._taking_turn():
            request = self._request(scenario, agent, trials=trials, threshold=threshold)
            if request.scenario.skip is not None:
                notes_of(self._item).unplayed.append(request)
                pytest.skip(request.scenario.skip)
            name = request.scenario.name
            if _loop_is_running():
                result = ScenarioResult(name, play=functools.partial(self._play, request))
            else:
                result = ScenarioResult(name, played=play_request(self._item, request))
            self._results.append(result)
        return result

    def check(self, result: "ScenarioResult", *evaluators: Any) -> "ScenarioResult":
        """Check every trial with more evaluators; fail the test unless enough trials pass all checks.

        Works in sync and async tests; it may be awaited, but need not be.
        """
        __tracebackhide__ = True
        session = self._run.session
        with self._taking_turn(), ending_test(self._item):
            if evaluators:
                result.replace(session.check(result.played, evaluators))
        keep(self._item, result.played, session)
        result.asserted = True
        with self._keeping_failures():
            end(self._item, result.played)
        return result

    def settle(self) -> None:
        """At the end of the test: fail it for a scenario that did not pass, or whose result the test never read."""
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
        """Whether each scenario passed, in the order in which they were played."""
        return [result.played.outcome.verdict.passed for result in self._results]

    def _is_excused(self, result: "ScenarioResult") -> bool:
        """Whether the scenario passed, an assertion read its verdict, or the marker expects its failure."""
        verdict = result.played.outcome.verdict
        is_expected = bool(self._marker.get("expect_failure")) and verdict.status is Status.FAILED
        return result.asserted or verdict.passed or is_expected

    @contextmanager
    def _taking_turn(self) -> Iterator[None]:
        """Raises ScenarioErrored for a call from an agent or an evaluator: it would wait for itself."""
        __tracebackhide__ = True
        if _in_turn.get():
            raise ScenarioErrored(
                f"{self._item.nodeid}: an agent or an evaluator called the fixture seatrial, which waits for it. "
                "Play the other scenario in the test, before or after this one"
            )
        with self._turn:
            token = _in_turn.set(True)
            try:
                yield
            finally:
                _in_turn.reset(token)

    @contextmanager
    def _keeping_failures(self) -> Iterator[None]:
        """A skip or xfail must not hide a scenario that failed before: the test would never assert it."""
        __tracebackhide__ = True
        try:
            yield
        except (pytest.skip.Exception, pytest.xfail.Exception):
            for result in self._results:
                if result.awaited and not self._is_excused(result) and not result.played.outcome.xfailed:
                    raise_for(self._item, result.played)
            raise

    def _request(self, scenario: Scenario | str, agent: Any, **arguments: Any) -> ScenarioRequest:
        __tracebackhide__ = True
        item, options = self._item, self._run.options
        if isinstance(scenario, str):
            scenario = Scenario(name=item.name, input=scenario)
        if not isinstance(scenario, Scenario):
            raise ScenarioErrored(f"{item.nodeid}: seatrial.run() takes a Scenario or a text, got {scenario!r:.200}")
        marked: dict[str, Any] = {key: self._marker[key] for key in ("trials", "threshold") if key in self._marker}
        given: dict[str, Any] = {
            **marked,
            **{key: value for key, value in arguments.items() if value is not None},
            **self._run.overrides,
        }
        with ending_test(item):
            loaded = load([self._in_world(scenario)], overrides=given, environ=options.environ)[0]
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

    def _in_world(self, scenario: Scenario) -> Scenario | Suite:
        """The scenario, in a suite with the world of the fixture `seatrial_world`."""
        if self._world is None:
            return scenario
        if not isinstance(self._world, World):
            raise ScenarioErrored(
                f"{self._item.nodeid}: the fixture 'seatrial_world' gives {self._world!r:.200}. Let it return "
                "seatrial.World(seed=..., tools=[...])"
            )
        return Suite(name=scenario.name, world=self._world, scenarios=(scenario,))

    def _name(self, scenario: str) -> str:
        """The stored name: the test, the scenario, and a number if the test plays it several times."""
        test = self._item.nodeid.partition("::")[2]
        before = sum(each.name == scenario for each in self._results)
        name = test if scenario == self._item.name else f"{test}: {scenario}"
        return f"{name} ({before + 1})" if before else name

    async def _play(self, request: ScenarioRequest) -> PlayedScenario:
        """Play on the session's loop while the test's own loop runs."""
        __tracebackhide__ = True
        session = self._run.session
        with self._keeping_failures(), ending_test(self._item, request):
            played = await asyncio.wrap_future(session.start(request))
        keep(self._item, played, session)
        return played


class ScenarioResult:
    """A scenario's verdict and its trials. In an async test, `await` it first.

    It notes how the test uses it: reading a verdict is an assertion only inside an `assert` statement.
    """

    def __init__(
        self,
        name: str,
        *,
        played: PlayedScenario | None = None,
        play: Callable[[], Coroutine[Any, Any, PlayedScenario]] | None = None,
    ) -> None:
        """`play`: plays the scenario when the result is awaited."""
        self.name = name
        self._played = played
        self._play = play
        self.asserted = False
        """An assertion read the verdict, or `seatrial.check` was called."""
        self.seen = False
        """The test read the verdict or the trials."""

    def __await__(self) -> Generator[Any, None, "ScenarioResult"]:
        if self._play is not None:
            play, self._play = self._play, None
            self._played = yield from play().__await__()
        return self

    @property
    def awaited(self) -> bool:
        return self._played is not None

    @property
    def played(self) -> PlayedScenario:
        if self._played is None:
            raise ScenarioErrored(
                f"seatrial.run({self.name!r}) has not been awaited, so nothing was played. "
                "In an async test write: result = await seatrial.run(scenario)"
            )
        return self._played

    def replace(self, played: PlayedScenario) -> None:
        """Use the trials with the results of more evaluators."""
        self._played = played

    @property
    def outcome(self) -> ScenarioOutcome:
        """The verdict with its counts."""
        return self._read()

    @property
    def passed(self) -> bool:
        return self._read().verdict.passed

    def __bool__(self) -> bool:
        return self._read().verdict.passed

    @property
    def status(self) -> Status:
        return self._read().verdict.status

    @property
    def failure_reasons(self) -> tuple[str, ...]:
        return self._read().verdict.failure_reasons

    def _read(self) -> ScenarioOutcome:
        """The outcome. Notes whether the caller of the public property is part of an assertion."""
        self.seen = True
        outcome = self.played.outcome
        self.asserted = self.asserted or is_asserting(sys._getframe(2))
        return outcome

    @property
    def pass_rate(self) -> float | None:
        """The share of trials that passed; None if none was played."""
        self.seen = True
        outcome = self.played.outcome
        return outcome.passed / outcome.played if outcome.played else None

    @property
    def interval(self) -> Interval | None:
        self.seen = True
        return self.played.outcome.interval

    @property
    def trials(self) -> Sequence[Trial]:
        self.seen = True
        return self.played.trials

    @property
    def transcript(self) -> Transcript:
        """The last trial's transcript."""
        return self.trials[-1].transcript

    @property
    def reply(self) -> str:
        """The last reply of the last trial."""
        return self.transcript.reply

    @property
    def tool_calls(self) -> Sequence[ToolCall] | None:
        """The last trial's calls; None if they were not recorded."""
        return self.transcript.tool_calls

    @property
    def tools_called(self) -> list[str]:
        """The names of called tools, in order. Raises ScenarioErrored if the answer is not known."""
        transcript = self.transcript
        message = NOT_RECORDED if transcript.tool_calls is None else MAY_BE_MORE
        unknown = None if transcript.calls_complete else ScenarioErrored(f"{self.name}: {message}. {RECORD_CALLS}")
        if unknown is not None and transcript.tool_calls is None and not transcript.reachable_tools:
            raise unknown
        names = [call.name for call in transcript.seen_calls]
        return CalledTools(names, known=transcript.reachable_tools, unknown=unknown)

    def __repr__(self) -> str:
        if self._played is None:
            return f"<ScenarioResult {self.name}: not awaited>"
        return f"<ScenarioResult {in_one_line(self._played.outcome)}>"


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def runs_async(item: pytest.Function) -> bool:
    """Whether the test is a coroutine that plays scenarios and that no other plugin runs."""
    taken = item.get_closest_marker("asyncio") or item.get_closest_marker("anyio") or item.get_closest_marker("trio")
    return "seatrial" in item.fixturenames and asyncio.iscoroutinefunction(item.obj) and taken is None


def run_async(item: Any) -> None:
    """Run the test on a new event loop."""
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    asyncio.run(item.obj(**arguments))


def settle(item: pytest.Item) -> None:
    """Fail the test for scenarios that did not pass. Raises ScenarioFailed or ScenarioErrored."""
    __tracebackhide__ = True
    notes = known_notes(item)
    fixture = None if notes is None else notes.fixture
    reports, unsettled[:] = list(unsettled), []
    if fixture is not None:
        fixture.settle()
    expects_failure = bool((fixture or reports) and read_marker(item).get("expect_failure"))
    for report in reports:
        _settle_report(report, expects_failure=expects_failure)
    passed = [report.record.outcome.verdict.passed for report in reports]
    passed += [] if fixture is None else fixture.passed
    if expects_failure and passed and all(passed):
        raise ScenarioFailed(f"{item.nodeid}: the marker says expect_failure, and every scenario passed")


def _settle_report(report: "Report", *, expects_failure: bool) -> None:
    __tracebackhide__ = True
    verdict = report.record.outcome.verdict
    if report.asserted or verdict.passed or (expects_failure and verdict.status is Status.FAILED):
        return
    text = "\n  ".join((f"run {report.run.id}: {verdict.status}", *report.failure_reasons, _HOW_TO_EXPECT))
    raise ScenarioFailed(text) if verdict.status is Status.FAILED else ScenarioErrored(text)


@contextmanager
def refusing_return(item: Any) -> Iterator[None]:
    """Raise ScenarioErrored if a test that uses the fixture returns a value: pytest would ignore it."""
    __tracebackhide__ = True
    is_python = isinstance(item, pytest.Function) and COLLECTED not in item.stash
    if not is_python or "seatrial" not in item.fixturenames:
        yield
        return
    function = item.obj
    returned: list[Any] = []
    item.obj = _noting(function, returned)
    try:
        yield
    finally:
        item.obj = function
    if returned:
        raise ScenarioErrored(
            f"{item.nodeid}: the test returns {returned[0]!r:.100}, which pytest ignores. "
            "Write `assert` instead of `return`"
        )


def _noting(function: Callable[..., Any], returned: list[Any]) -> Callable[..., Any]:
    """The test function; it also adds its return value to the list."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def noting_async(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            value = await function(*args, **kwargs)
            returned.extend([] if value is None else [value])

        return noting_async

    @functools.wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        value = function(*args, **kwargs)
        if inspect.isawaitable(value) or inspect.isasyncgen(value):
            return value
        returned.extend([] if value is None else [value])
        return None

    return noting

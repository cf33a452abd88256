"""What a scenario came to, in a Python test."""

import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

from seatrial.assertions import is_asserting
from seatrial.model.conversation import ToolCall, Transcript
from seatrial.model.protocols import MAY_BE_MORE, NOT_RECORDED, RECORD_CALLS, CalledTools
from seatrial.model.run import Interval, ScenarioOutcome, Status, Trial
from seatrial.runs.scenario_session import PlayedScenario

from .exceptions import ScenarioErrored
from .failure_text import in_one_line


class ScenarioResult:
    """A scenario's verdict and its trials. Where an event loop is running, `await` it first.

    It notes what the test does with it: reading a verdict is not an assertion, unless an `assert` reads it.
    """

    def __init__(self, *, played: PlayedScenario | None = None, name: str = "") -> None:
        self._played = played
        self.name = name
        self._play: Callable[[], Coroutine[Any, Any, PlayedScenario]] | None = None
        self.asserted = False
        """An assertion of the test read the verdict, or the test had it checked."""
        self.seen = False
        """The test looked at the verdict or at the trials."""

    @classmethod
    def pending(cls, name: str, play: "Callable[[], Coroutine[Any, Any, PlayedScenario]]") -> "ScenarioResult":
        """One that is played when it is awaited."""
        made = cls(name=name)
        made._play = play
        return made

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
        """Take the trials as further evaluators left them."""
        self._played = played

    @property
    def outcome(self) -> ScenarioOutcome:
        """The verdict with all its numbers."""
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
        """The outcome. Notes whether the code that asked one of our properties for it is part of an assertion."""
        self.seen = True
        outcome = self.played.outcome
        self.asserted = self.asserted or is_asserting(sys._getframe(2))
        return outcome

    @property
    def pass_rate(self) -> float | None:
        """The share of trials that passed; None when none was played."""
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
        """Of the last trial."""
        return self.trials[-1].transcript

    @property
    def reply(self) -> str:
        """The last reply of the last trial."""
        return self.transcript.reply

    @property
    def tool_calls(self) -> Sequence[ToolCall] | None:
        """Of the last trial; None when they were not recorded."""
        return self.transcript.tool_calls

    @property
    def tools_called(self) -> list[str]:
        """The names of the tools, in order. Raises ScenarioErrored when it is asked for what is not known."""
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

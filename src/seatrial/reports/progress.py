"""Progress of a run: a bar on a terminal, plain lines elsewhere."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from seatrial.clock import milliseconds
from seatrial.model.faults import BAD_RESULTS
from seatrial.model.protocols import Event, RunFinished, RunStarted, ScenarioPlanned, TrialFinished
from seatrial.model.run import ScenarioEntry, ScenarioKey, Status, Trial

from .failing_checks import first_check, mask
from .terminal import TerminalWriter, one_line, shorten

if TYPE_CHECKING:
    from .live_progress import LiveDisplay

PLAIN_EVERY_MS = 1_000.0
SCENARIO_LINES = 100
"""A run with more scenarios prints one line per second instead of one per scenario."""
MOST_KINDS = 1_000


def is_fine(trial: Trial) -> bool:
    """Whether the trial passed, or in a sweep over faults, whether the agent did nothing wrong."""
    return trial.status is Status.PASSED if trial.fault is None else trial.fault.result not in (*BAD_RESULTS, "errored")


class FailureKind:
    """Trials that failed the same check."""

    __slots__ = ("check", "scenario", "trials")

    def __init__(self, check: str, scenario: str) -> None:
        self.check = check
        self.scenario = scenario
        """The first scenario with this failure."""
        self.trials = 0


class Counts:
    """What has happened so far, in numbers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.began = clock()
        self.scenarios = self.trials = 0
        """Planned; with `trials: auto`, the most that may run."""
        self.played = self.passed = self.done = 0
        self.failures: dict[str, FailureKind] = {}
        self._cost: float | None = None
        self._cost_is_whole = True

    @property
    def failed(self) -> int:
        return self.played - self.passed

    def count(self, trial: Trial) -> None:
        self.played += 1
        self.passed += is_fine(trial)
        self._spend(trial.transcript.cost_usd)
        if trial.instruments is not None and trial.instruments.calls:
            self._spend(trial.instruments.cost_usd)
        if not is_fine(trial):
            check = first_check(trial)
            kind = self.failures.get(mask(check))
            if kind is None and len(self.failures) < MOST_KINDS:
                kind = self.failures[mask(check)] = FailureKind(check, trial.key.label)
            if kind is not None:
                kind.trials += 1

    def _spend(self, cost_usd: float | None) -> None:
        if cost_usd is None:
            self._cost_is_whole = False
        else:
            self._cost = (self._cost or 0.0) + cost_usd

    @property
    def rate_text(self) -> str:
        """`2.4 trials/s`, from the trials so far; per minute if there are fewer than one a second."""
        seconds = (self._clock() - self.began) / 1000
        if not self.played or seconds <= 0:
            return ""
        rate = self.played / seconds
        return f"{rate:,.1f} trials/s" if rate >= 1 else f"{60 * rate:,.1f} trials/min"

    @property
    def left_text(self) -> str:
        # One trial of many says little: those that run at the same time end in the next moment.
        if not min(10, max(1, self.trials // 10)) <= self.played < self.trials:
            return ""
        return f"{_minutes((self._clock() - self.began) / self.played * (self.trials - self.played))} left"

    @property
    def cost_text(self) -> str:
        if self._cost is None:
            return ""
        return f"${self._cost:,.4f}" + ("" if self._cost_is_whole else " or more")

    @property
    def line(self) -> str:
        """Everything on one plain line."""
        parts = [f"{self.done:,}/{self.scenarios:,} scenarios", f"{self.played:,}/{self.trials:,} trials"]
        if self.played:
            parts.append(f"{100 * self.passed // self.played} % passed")
        return "  ".join(filter(None, (*parts, self.cost_text, self.left_text)))


class Progress:
    """A listener for a run's events."""

    def __init__(self, stream: TextIO, *, live: bool | None = None, clock: Callable[[], float] = milliseconds) -> None:
        self._stream = stream
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb" if live is None else live
        self._writer = TerminalWriter(stream, colour=False)
        self._clock = clock
        self._last = clock()
        self._counts = Counts(clock)
        self._display: LiveDisplay | None = None
        self._open: dict[ScenarioKey, _Open] = {}
        """The unfinished scenarios. Finished ones are removed: a run may have millions."""

    def __call__(self, event: Event) -> None:
        """Count the event, and update the display if it is due."""
        match event:
            case TrialFinished():
                self._count(event.trial)
            case RunStarted():
                self._start(event)
            case ScenarioPlanned() if event.entry.skip is None:
                self._plan(event.entry, event.stored)
            case RunFinished():
                self.close()

    def close(self) -> None:
        """Remove the display from the terminal. May be called twice."""
        if self._display is not None:
            self._display.close()
            self._display = None

    def _start(self, event: RunStarted) -> None:
        self._counts = Counts(self._clock)  # `explain --prove` plays several runs
        self._counts.began = self._last = self._clock()
        self._counts.scenarios, self._counts.trials = event.scenarios, event.trials
        if self._live and self._display is None:
            from .live_progress import LiveDisplay

            self._display = LiveDisplay(self._stream, self._counts)

    def _plan(self, entry: ScenarioEntry, stored: int) -> None:
        if entry.trials > stored:
            self._open[entry.key] = _Open(entry.trials - stored)
        else:
            self._counts.done += 1

    def _count(self, trial: Trial) -> None:
        self._counts.count(trial)
        scenario = self._open.get(trial.key)
        if scenario is not None and scenario.ends_with(is_fine(trial)):
            del self._open[trial.key]
            self._counts.done += 1
            if not self._live and self._counts.scenarios <= SCENARIO_LINES:
                share = f"{scenario.passed}/{scenario.played}"
                place = f"[{self._counts.done}/{self._counts.scenarios}]"
                told = f"{share} trials passed" if trial.fault is None else trial.fault.result
                self._say(f"{one_line(trial.key.label)}: {told}  {place}")
                return
        if not self._live and self._clock() - self._last >= PLAIN_EVERY_MS:
            self._say(self._counts.line)

    def _say(self, text: str) -> None:
        self._last = self._clock()
        self._writer.line(shorten(text, 500))
        self._stream.flush()


class _Open:
    """An unfinished scenario."""

    __slots__ = ("_missing", "passed", "played")

    def __init__(self, missing: int) -> None:
        self._missing = missing
        self.passed = self.played = 0

    def ends_with(self, passed: bool) -> bool:
        """Count a trial. Returns whether it was the last."""
        self.played += 1
        self.passed += passed
        return self.played == self._missing


def _minutes(duration_ms: float) -> str:
    minutes, seconds = divmod(round(duration_ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

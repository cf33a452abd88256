"""Progress of a run: one line that is redrawn on a terminal, plain lines elsewhere."""

import os
from collections.abc import Callable
from typing import TextIO

from seatrial.clock import milliseconds
from seatrial.model.protocols import Event, RunFinished, RunStarted, ScenarioPlanned, TrialFinished
from seatrial.model.run import ScenarioEntry, ScenarioKey, Status, Trial

from .terminal import TerminalWriter, one_line, shorten

LIVE_EVERY_MS = 100.0
PLAIN_EVERY_MS = 1_000.0
SCENARIO_LINES = 100
"""A run with more scenarios prints one line per second instead of one per scenario."""


class Progress:
    """A listener for a run's events. It does not use rich: importing it takes 60 ms, as long as a small run."""

    def __init__(self, stream: TextIO, *, live: bool | None = None, clock: Callable[[], float] = milliseconds) -> None:
        self._stream = stream
        self._live = stream.isatty() if live is None else live
        self._writer = TerminalWriter(stream, colour=False)
        self._clock = clock
        self._began = self._last = clock()
        self._drawn = False
        self._scenarios = self._trials = 0
        self._played = self._passed = self._done = 0
        self._open: dict[ScenarioKey, _Open] = {}
        """The unfinished scenarios. Finished ones are removed: a run may have millions."""
        self._cost: float | None = None
        self._cost_is_whole = True

    def __call__(self, event: Event) -> None:
        """Count the event, and update the display if it is due."""
        match event:
            case TrialFinished():
                self._count(event.trial)
            case RunStarted():
                self._began = self._last = self._clock()
                self._scenarios, self._trials = event.scenarios, event.trials
                self._show(force=self._live)
            case ScenarioPlanned() if event.entry.skip is None:
                self._plan(event.entry, event.stored)
            case RunFinished():
                self.close()

    def close(self) -> None:
        """Clear the progress line. May be called twice."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False

    def _plan(self, entry: ScenarioEntry, stored: int) -> None:
        if entry.trials > stored:
            self._open[entry.key] = _Open(entry.trials - stored)
        else:
            self._done += 1

    def _count(self, trial: Trial) -> None:
        passed = trial.status is Status.PASSED
        self._played += 1
        self._passed += passed
        self._spend(trial.transcript.cost_usd)
        if trial.instruments is not None and trial.instruments.calls:
            self._spend(trial.instruments.cost_usd)
        scenario = self._open.get(trial.key)
        if scenario is not None and scenario.ends_with(passed):
            del self._open[trial.key]
            self._done += 1
            if not self._live and self._scenarios <= SCENARIO_LINES:
                share = f"{scenario.passed}/{scenario.played}"
                self._say(f"{one_line(trial.key.label)}: {share} trials passed  [{self._done}/{self._scenarios}]")
                return
        self._show()

    def _spend(self, cost_usd: float | None) -> None:
        if cost_usd is None:
            self._cost_is_whole = False
        else:
            self._cost = (self._cost or 0.0) + cost_usd

    def _show(self, *, force: bool = False) -> None:
        every = LIVE_EVERY_MS if self._live else PLAIN_EVERY_MS
        if not force and self._clock() - self._last < every:
            return
        if self._live:
            self._last = self._clock()
            width = _width(self._stream)
            self._stream.write(f"\r\x1b[K{self._text()[:width]}")
            self._stream.flush()
            self._drawn = True
        else:
            self._say(self._text())

    def _say(self, text: str) -> None:
        self._last = self._clock()
        self._writer.line(shorten(text, 500))
        self._stream.flush()

    def _text(self) -> str:
        played, passed = self._played, self._passed
        parts = [f"{self._done:,}/{self._scenarios:,} scenarios", f"{played:,}/{self._trials:,} trials"]
        if played:
            parts.append(f"{100 * passed // played} % passed")
        if self._cost is not None:
            parts.append(f"${self._cost:,.4f}" + ("" if self._cost_is_whole else " or more"))
        if 0 < played < self._trials:
            left = (self._clock() - self._began) / played * (self._trials - played)
            parts.append(f"{_minutes(left)} left")
        return "  ".join(parts)


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


def _width(stream: TextIO) -> int:
    """How many columns a line may have. A wrapped line could not be cleared completely."""
    try:
        return max(os.get_terminal_size(stream.fileno()).columns - 1, 20)
    except (OSError, ValueError):
        return 79


def _minutes(duration_ms: float) -> str:
    minutes, seconds = divmod(round(duration_ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

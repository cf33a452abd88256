"""Where to look first in a conversation that did not pass."""

from collections.abc import Iterator
from dataclasses import dataclass

from seatrial.model.results import TrajectoryMatch
from seatrial.model.run import Status, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """The step to have in view."""

    turn: int | None
    """None: it concerns the trial as a whole."""


def find_focus(trial: Trial) -> Focus | None:
    """The first turn that something was wrong in; None where nothing was."""
    if trial.status is Status.PASSED:
        return None
    turns = sorted(turn for turn in _wrong_turns(trial) if turn is not None)
    known = {turn.index for turn in trial.transcript.turns}
    return Focus(turn=next((turn for turn in turns if turn in known), None))


def _wrong_turns(trial: Trial) -> Iterator[int | None]:
    if trial.error is not None:
        yield trial.error.turn
    for turn in trial.transcript.turns:
        if turn.error is not None:
            yield turn.index
    for result in trial.results:
        if result.passed:
            continue
        yield result.turn
        if result.turn is None and result.trajectory is not None:
            yield from _turns_of_calls(trial, result.trajectory)
    for failure in trial.judgement.failures if trial.judgement else ():
        yield failure.turn


def _turns_of_calls(trial: Trial, match: TrajectoryMatch) -> Iterator[int]:
    """The turns in which calls were made that should not have been."""
    unwanted = {text.partition("(")[0] for text in (*match.forbidden_calls, *match.extra_calls)}
    for turn in trial.transcript.turns:
        if any(call.name in unwanted for call in turn.tool_calls or ()):
            yield turn.index

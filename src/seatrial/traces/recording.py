"""What a trace file holds once it is read, and the one error of this room."""

from datetime import datetime

from msgspec.structs import replace

from seatrial.errors import UsageError
from seatrial.model.conversation import Transcript
from seatrial.model.struct import Struct


class TraceError(UsageError):
    """A file of recordings that cannot be read: where, what, and what now."""


class Recording(Struct, frozen=True, kw_only=True):
    """One conversation as somebody recorded it."""

    name: str
    """The conversation's id or name; made up from its place in the file where it has none."""
    transcript: Transcript
    started_at: datetime | None = None
    timed: bool = False
    """Whether every turn says how long it took. Where it is not known, a latency of 0 means nothing."""

    @property
    def users(self) -> tuple[str, ...]:
        """What the user said, turn by turn."""
        return tuple(turn.user for turn in self.transcript.turns)


def without_calls(recording: Recording) -> Recording:
    """The same, where nobody can say which tools were called."""
    turns = tuple(replace(turn, tool_calls=None) for turn in recording.transcript.turns)
    return replace(recording, transcript=replace(recording.transcript, turns=turns))


class TraceFile(Struct, frozen=True, kw_only=True):
    """The conversations of one file."""

    path: str
    format: str
    recordings: tuple[Recording, ...]
    notes: tuple[str, ...] = ()
    """What was in the file and has no place in a transcript."""

"""What a trace file holds once it is read, and the one error of this room."""

from datetime import datetime

from seatrial.errors import UsageError
from seatrial.vocabulary.conversation import Transcript
from seatrial.vocabulary.record import record


class TraceError(UsageError):
    """A file of recordings that cannot be read: where, what, and what now."""


@record
class Recording:
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


@record
class TraceFile:
    """The conversations of one file."""

    path: str
    format: str
    recordings: tuple[Recording, ...]
    notes: tuple[str, ...] = ()
    """What was in the file and has no place in a transcript."""

"""The ways in which a trial ends early, raised by whoever notices and caught where the trial is run."""

from seatrial.errors import SeatrialError

from .conversation import ErrorInfo, ErrorKind
from .findings import ModelUse


class TrialError(SeatrialError):
    """The trial cannot go on; what was said until then is kept."""

    def __init__(self, kind: ErrorKind, message: str, *, hint: str | None = None, traceback: str | None = None) -> None:
        super().__init__(message)
        self.info = ErrorInfo(kind=kind, message=message, hint=hint, traceback=traceback)
        self.use: ModelUse | None = None
        """What asking in vain took, where a model was asked."""


class AgentFailure(TrialError):
    """The agent failed: it raised, answered nonsense, or could not be reached. May be retried."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        traceback: str | None = None,
        retry_after: float | None = None,
        final: bool = False,
    ) -> None:
        super().__init__(ErrorKind.AGENT, message, hint=hint, traceback=traceback)
        self.retry_after = retry_after
        """Seconds the agent asked us to wait."""
        self.final = final
        """Asking again would not help."""


class PlayAgain(SeatrialError):
    """The trial was disturbed by another and must be played anew; nothing can be said of its own agent."""

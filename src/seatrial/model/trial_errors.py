"""The ways in which a trial ends early, raised by whoever notices and caught where the trial is run."""

from seatrial.errors import SeatrialError

from .conversation import ErrorInfo, ErrorKind
from .results import ModelUse


class TrialError(SeatrialError):
    """The trial cannot go on; what was said until then is kept."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        hint: str | None = None,
        traceback: str | None = None,
        counts_as_failed: bool = False,
    ) -> None:
        super().__init__(message)
        self.info = ErrorInfo(
            kind=kind, message=message, hint=hint, traceback=traceback, counts_as_failed=counts_as_failed
        )
        self.use: ModelUse | None = None
        """What asking in vain took, where a model was asked."""


class AgentFailure(TrialError):
    """The agent failed: it raised, answered nonsense, or could not be reached (`infra`). May be retried."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        traceback: str | None = None,
        retry_after: float | None = None,
        final: bool = False,
        kind: ErrorKind = ErrorKind.AGENT,
    ) -> None:
        super().__init__(kind, message, hint=hint, traceback=traceback)
        self.retry_after = retry_after
        """Seconds the agent asked us to wait."""
        self.final = final
        """Asking again would not help."""


def mock_overran(tool: str) -> TrialError:
    """The agent's time was up while it waited for a mock: the mock's fault, and not the agent's."""
    return TrialError(
        ErrorKind.TOOL,
        f"the mock of {tool!r} did not answer in time",
        hint="let the mock answer sooner, or raise timeout_seconds (default_timeout in suite.config)",
    )


class PlayAgain(SeatrialError):
    """The trial was disturbed by another and must be played anew; nothing can be said of its own agent."""

"""The exceptions of Seatrial.

SeatrialError
├── UsageError        a mistake on the user's side; shown without a traceback, exit code 2
│   └── MissingExtra  an optional package is not installed; names the `pip install` command
├── StoreError        the store cannot save or read: disk full, connection lost, trial saved twice
└── ToolError         raised by a mocked tool; the agent sees it as the tool's error
"""


class SeatrialError(Exception):
    """The base class of all exceptions of Seatrial."""


class UsageError(SeatrialError):
    """A mistake on the user's side: a file, a flag, a setting. The text says where, what, and what to do."""


class MissingExtra(UsageError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs an optional package. Install it: pip install 'seatrial[{extra}]'")


class StoreError(SeatrialError):
    """The store could not save or read. Trials that were not reported as saved count as lost."""


class ToolError(SeatrialError):
    """A mocked tool failed on purpose: the agent receives the text as the tool's error."""

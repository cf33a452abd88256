"""The exceptions of Seatrial.

SeatrialError
├── UsageError        a mistake on the user's side; shown without a traceback, exit code 2
│   └── MissingExtra  something optional is not installed; says the one `pip install` line
├── StoreError        the store cannot keep or give back what it should: disk full, connection lost, saved twice
└── ToolError         raised by a mocked tool; the agent sees it as the tool's error
"""


class SeatrialError(Exception):
    """The root of everything Seatrial raises on purpose."""


class UsageError(SeatrialError):
    """A mistake on the user's side: a file, a flag, a setting. The text says where, what, and what now."""


class MissingExtra(UsageError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs an optional package. Install it: pip install 'seatrial[{extra}]'")


class StoreError(SeatrialError):
    """The store could not keep or give back something; what was not reported as saved must count as lost."""


class ToolError(SeatrialError):
    """A mocked tool failed on purpose: the agent receives the text as the tool's error."""

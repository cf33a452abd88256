"""The only module that reads the time."""

from datetime import UTC, datetime
from time import perf_counter


def now() -> datetime:
    """The current time, in UTC."""
    return datetime.now(UTC)


def milliseconds() -> float:
    """A monotonic time in milliseconds; only differences have a meaning."""
    return perf_counter() * 1000.0

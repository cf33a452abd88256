"""The one place that reads time, so that everything else can be given it."""

from datetime import UTC, datetime
from time import perf_counter


def now() -> datetime:
    """The current time, in UTC."""
    return datetime.now(UTC)


def milliseconds() -> float:
    """A monotonic reading in milliseconds; only differences mean something."""
    return perf_counter() * 1000.0

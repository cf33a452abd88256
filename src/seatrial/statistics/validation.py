"""Refusals shared by the room.

A rate comes from a user's file or flag (`UsageError`); counts only our own code can get wrong (`ValueError`).
"""

from seatrial.errors import UsageError

ROUNDING = 1e-12
"""Relative slack when a p-value meets its limit exactly: 1/20 computed in floats must still reach 0.05."""


def require_rate(name: str, value: float) -> None:
    """Refuse what is not a share between 0 and 1, both allowed."""
    if not 0.0 <= value <= 1.0:
        raise UsageError(f"{name}: {value!r} is not between 0 and 1. Give a share such as 0.9.")


def require_open_rate(name: str, value: float) -> None:
    """Refuse what is not strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise UsageError(f"{name}: {value!r} is not strictly between 0 and 1. Give a share such as 0.95.")


def require_positive(name: str, value: int) -> None:
    """Refuse a number of things that is not at least one."""
    if value < 1:
        raise UsageError(f"{name}: {value!r} is not at least 1. Give a whole number such as 5.")


def require_counts(passed: int, total: int) -> None:
    """Refuse counts that cannot be: more passed than ran, or less than none."""
    if not 0 <= passed <= total:
        raise ValueError(f"{passed!r} passed of {total!r}: need 0 <= passed <= total. Count the trials again.")


def reaches(p_value: float, limit: float) -> bool:
    """Whether a p-value is at or below its limit, rounding aside."""
    return p_value <= limit * (1.0 + ROUNDING)

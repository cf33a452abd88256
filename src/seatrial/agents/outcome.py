"""How a call into foreign code ended: with a value, or with whatever it raised."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    value: Any = None
    raised: BaseException | None = None


def attempt(function: Callable[[], Any]) -> Outcome:
    """Call foreign code and keep everything it may raise, `sys.exit()` included."""
    try:
        return Outcome(function())
    except BaseException as raised:
        return Outcome(None, raised)

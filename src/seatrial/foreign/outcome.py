"""How a call of user code ended, whatever it did."""

import os
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """A value, or what was raised."""

    value: Any = None
    raised: BaseException | None = None


def attempt(function: Callable[[], Any]) -> Outcome:
    """Call user code and keep everything it may raise, `sys.exit()` included."""
    process = os.getpid()
    try:
        outcome = Outcome(function())
    except BaseException as raised:
        outcome = Outcome(None, raised)
    end_forked_child(outcome, process)
    return outcome


def end_forked_child(outcome: Outcome, process: int) -> None:
    """End this process if it is a child that user code forked from `process` and did not end.

    The child would go on in our place: run the remaining trials once more, and then wait for ever.
    """
    if os.getpid() == process:
        return
    raised = outcome.raised
    if isinstance(raised, SystemExit):
        code = raised.code if isinstance(raised.code, int) else int(raised.code is not None)
        os._exit(code & 0xFF)
    if raised is not None:
        traceback.print_exception(raised)
    os._exit(0 if raised is None else 1)

"""Calls of user code: agents, Python mocks, evaluators, hooks and programmed users. It is called nowhere else.

User code may hang, raise anything, call `sys.exit()`, block an event loop or fork. So it never runs on the event loop
of the run: sync functions run in daemon threads, async functions on a separate event loop, programs and isolated agents
in processes.
"""

from .call import AGENTS, ForeignCode, ForeignError, call, describe, in_use, is_async
from .event_loop import LoopBlocked

__all__ = ["AGENTS", "ForeignCode", "ForeignError", "LoopBlocked", "call", "describe", "in_use", "is_async"]

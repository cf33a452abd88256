"""The user's side of a conversation: scripted, programmed, or played by a model.

A room of its own, because a user who fails is not an agent who fails: whatever goes wrong here ends the trial as
errored(simulator), never as failed.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .function import FunctionUser as FunctionUser
    from .scripted import ScriptedUser as ScriptedUser
    from .simulated import SimulatedUser as SimulatedUser

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "function": ("FunctionUser",),
        "scripted": ("ScriptedUser",),
        "simulated": ("SimulatedUser",),
    },
)

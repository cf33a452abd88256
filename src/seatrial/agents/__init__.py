"""The systems under test and the borders to them: what they may raise, how long they may take, what they return.

It is a room of its own because everything in it is foreign: nothing that happens here may reach the runner but a reply
or a named failure.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .context import AgentContext as AgentContext
    from .context import tool as tool
    from .resolve import check_agent_spec as check_agent_spec
    from .resolve import import_attribute as import_attribute
    from .resolve import resolve_agent as resolve_agent

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "context": ("AgentContext", "tool"),
        "resolve": ("check_agent_spec", "import_attribute", "resolve_agent"),
    },
)

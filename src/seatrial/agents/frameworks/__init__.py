"""Agents made with a framework: one file for each, which knows that framework's ways and nothing else does.

Each has a class `Adapter`, made anew for every trial around the user's object, with a `run(messages, ctx)` like any
Python agent; so timeouts, isolation and the borders are those of Python agents.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .adapt import adapt as adapt
    from .versions import FRAMEWORKS as FRAMEWORKS
    from .versions import Framework as Framework
    from .versions import find_version as find_version
    from .versions import mind_version as mind_version

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "adapt": ("adapt",),
        "versions": ("FRAMEWORKS", "Framework", "find_version", "mind_version"),
    },
)

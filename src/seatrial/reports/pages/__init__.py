"""What the one-file report and the server's pages share: template parts, one style, charts.

A room within the room, because two doors show the same things: whoever edits how a conversation looks edits it once.
"""

from .charts import UNKNOWN, Bar, Dot, bins, trend, waterfall
from .environment import make_environment, style_sheet
from .first_failure import Focus, find_focus

__all__ = [
    "UNKNOWN",
    "Bar",
    "Dot",
    "Focus",
    "bins",
    "find_focus",
    "make_environment",
    "style_sheet",
    "trend",
    "waterfall",
]

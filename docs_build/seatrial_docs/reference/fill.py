"""Puts generated parts where a page says `<!-- generated: NAME -->`; on GitHub the line is not seen."""

import re
from collections.abc import Callable, Mapping

from .commands import commands
from .environment import providers, settings
from .keys import keys
from .python_names import python_names
from .results import results

GENERATED: Mapping[str, Callable[[], str]] = {
    "keys": keys,
    "commands": commands,
    "python": python_names,
    "results": results,
    "settings": settings,
    "providers": providers,
}
_MARKER = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)


def fill(markdown: str) -> str:
    """The page with its generated parts. A name that there is not is a KeyError, so that the build fails."""
    return _MARKER.sub(lambda found: GENERATED[found[1]](), markdown)

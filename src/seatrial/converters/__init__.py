"""Files of other tools, turned into scenario files of our own, with a list of what they said that these do not.

A room of its own because it speaks other people's languages: nothing here is needed to run a suite. It stands above
`scenarios`, whose reader it uses and whose rules every file it writes must pass.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .conversion import TOOLS as TOOLS
    from .conversion import Converted as Converted
    from .conversion import convert as convert
    from .target_suite import Note as Note

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "conversion": ("TOOLS", "Converted", "convert"),
        "target_suite": ("Note",),
    },
)

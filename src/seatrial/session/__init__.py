"""The hallway: where the rooms meet, and the public verbs.

`run`, `arun` and `load` are the Python doors; the command line, pytest and the server use the same functions.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .doors import arun as arun
    from .doors import check as check
    from .doors import compare as compare
    from .doors import load as load
    from .doors import run as run
    from .planning import NothingSelected as NothingSelected
    from .planning import RunPlan as RunPlan
    from .records import Report as Report
    from .records import StoredRecord as StoredRecord
    from .request import RunRequest as RunRequest
    from .running import execute as execute
    from .running import play as play

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "doors": ("arun", "check", "compare", "load", "run"),
        "planning": ("NothingSelected", "RunPlan"),
        "records": ("Report", "StoredRecord"),
        "request": ("RunRequest",),
        "running": ("execute", "play"),
    },
)

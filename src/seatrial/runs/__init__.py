"""The hallway: where the rooms meet, and the public verbs.

`run`, `arun` and `load` are the Python doors; the command line, pytest and the server use the same functions.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .api import arun as arun
    from .api import check as check
    from .api import compare as compare
    from .api import load as load
    from .api import run as run
    from .execute_run import execute as execute
    from .execute_run import play as play
    from .report import Report as Report
    from .report import StoredRecord as StoredRecord
    from .request import RunRequest as RunRequest
    from .run_plan import NothingSelected as NothingSelected
    from .run_plan import RunPlan as RunPlan

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "api": ("arun", "check", "compare", "load", "run"),
        "run_plan": ("NothingSelected", "RunPlan"),
        "report": ("Report", "StoredRecord"),
        "request": ("RunRequest",),
        "execute_run": ("execute", "play"),
    },
)

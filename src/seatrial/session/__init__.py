"""The hallway: where the rooms meet, and the public verbs.

`run`, `arun` and `load` are the Python doors; the command line, pytest and the server use the same functions.
"""

from .doors import arun, compare, load, run
from .planning import NothingSelected, RunPlan
from .records import Report, StoredRecord
from .request import RunRequest
from .running import execute, play

__all__ = [
    "NothingSelected",
    "Report",
    "RunPlan",
    "RunRequest",
    "StoredRecord",
    "arun",
    "compare",
    "execute",
    "load",
    "play",
    "run",
]

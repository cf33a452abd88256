"""What was run, kept: runs, scenarios, trials, baselines and labels, in SQLite or PostgreSQL.

A room of its own because nothing else in the house may know how rows look: everyone else speaks of runs and trials.
"""

from typing import TYPE_CHECKING

from seatrial.lazy import lazy

if TYPE_CHECKING:
    from .export_import import Imported as Imported
    from .labels import Label as Label
    from .opening import open_store as open_store
    from .runs import RunRow as RunRow
    from .runs import UnknownRun as UnknownRun
    from .searching import Said as Said
    from .store import Store as Store
    from .writer import TrialWriter as TrialWriter

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "labels": ("Label",),
        "opening": ("open_store",),
        "runs": ("RunRow", "UnknownRun"),
        "searching": ("Said",),
        "store": ("Store",),
        "export_import": ("Imported",),
        "writer": ("TrialWriter",),
    },
)

"""What was run, kept: runs, scenarios, trials, baselines and labels, in SQLite or PostgreSQL.

A room of its own because nothing else in the house may know how rows look: everyone else speaks of runs and trials.
"""

from seatrial.vocabulary.summary import summarise

from .labels import Label
from .opening import open_store
from .runs import RunRow
from .store import Store
from .transfer import Imported
from .writer import TrialWriter

__all__ = ["Imported", "Label", "RunRow", "Store", "TrialWriter", "open_store", "summarise"]

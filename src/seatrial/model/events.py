"""What happens during a run, for those who watch: progress, live pages."""

from .run import Run, ScenarioEntry, Trial
from .struct import Struct


class RunStarted(Struct, frozen=True, kw_only=True):
    run: Run
    scenarios: int
    trials: int


class ScenarioPlanned(Struct, frozen=True, kw_only=True):
    entry: ScenarioEntry
    stored: int = 0
    """How many of its trials are there already, in a run that goes on."""


class TrialFinished(Struct, frozen=True, kw_only=True):
    """Sent only after the trial's commit."""

    trial: Trial


class RunFinished(Struct, frozen=True, kw_only=True):
    run: Run


Event = RunStarted | ScenarioPlanned | TrialFinished | RunFinished

"""What happens during a run, for those who watch: progress, live pages."""

from .record import record
from .run import Run, ScenarioEntry, Trial


@record
class RunStarted:
    run: Run
    scenarios: int
    trials: int


@record
class ScenarioPlanned:
    entry: ScenarioEntry
    stored: int = 0
    """How many of its trials are there already, in a run that goes on."""


@record
class TrialFinished:
    """Sent only after the trial's commit."""

    trial: Trial


@record
class RunFinished:
    run: Run


Event = RunStarted | ScenarioPlanned | TrialFinished | RunFinished

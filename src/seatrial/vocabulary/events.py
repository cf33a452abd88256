"""What happens during a run, for those who watch: progress, live pages."""

from .run import Run, ScenarioEntry, Trial
from .value import Value


class RunStarted(Value):
    run: Run
    scenarios: int
    trials: int


class ScenarioPlanned(Value):
    entry: ScenarioEntry
    stored: int = 0
    """How many of its trials are there already, in a run that goes on."""


class TrialFinished(Value):
    """Sent only after the trial's commit."""

    trial: Trial


class RunFinished(Value):
    run: Run


Event = RunStarted | ScenarioPlanned | TrialFinished | RunFinished

"""What happens during a run, for those who watch: progress, live pages."""

from dataclasses import dataclass

from .run import Run, ScenarioEntry, ScenarioKey, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    run: Run
    scenarios: int
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioPlanned:
    entry: ScenarioEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    key: ScenarioKey
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFinished:
    """Sent only after the trial's commit."""

    trial: Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    run: Run


Event = RunStarted | ScenarioPlanned | TrialStarted | TrialFinished | RunFinished

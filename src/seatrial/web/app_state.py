"""The objects that all requests share: store, caches, run processes."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from seatrial.errors import UsageError
from seatrial.model.run import ScenarioOutcome, TrialSummary
from seatrial.store.store import Store
from seatrial.store.trials import SearchResult

from .access import ServeOptions
from .background import Worker
from .filters import ConversationSearch, TrialFilter, find_trials
from .run_processes import RunProcesses
from .verdict_cache import ComparisonCache, DecidedRun, VerdictCache


class NotFound(UsageError):
    """The run, scenario, trial or baseline does not exist."""


@dataclass(slots=True)
class AppState:
    """The store and everything that works with it, while the server runs."""

    options: ServeOptions
    store: Store
    processes: RunProcesses
    worker: Worker = field(default_factory=Worker)
    runs: VerdictCache = field(init=False)
    comparisons: ComparisonCache = field(init=False)
    searches: ConversationSearch = field(init=False)
    closing: bool = False

    def __post_init__(self) -> None:
        self.runs = VerdictCache(self.store, self.worker)
        self.comparisons = ComparisonCache(self.runs, self.worker)
        self.searches = ConversationSearch(self.store, self.worker)

    def close(self) -> None:
        """Stop runs and background work, before the store is closed."""
        self.closing = True
        self.processes.close()
        self.worker.close()

    def run(self, run_id: str, *, timeout: float | None = None) -> DecidedRun:
        """The run with that id. Raises NotFound, StillWorking."""
        found = self.runs.get(run_id, timeout=timeout)
        if found is None:
            raise NotFound(f"no run has the id {run_id!r}")
        return found

    def scenario(
        self, run_id: str, scenario: str, *, timeout: float | None = None
    ) -> tuple[DecidedRun, ScenarioOutcome]:
        """A scenario of a run. Raises NotFound, StillWorking."""
        decided = self.run(run_id, timeout=timeout)
        outcome = decided.scenarios.get(scenario)
        if outcome is None:
            raise NotFound(f"run {run_id}: has no scenario with the id {scenario!r}")
        return decided, outcome

    def trials(
        self, decided: DecidedRun, trial_filter: TrialFilter, *, timeout: float | None = None
    ) -> tuple[list[TrialSummary], SearchResult | None]:
        """The trials that match the filter, and the search result if a text was searched. Raises StillWorking."""
        if not trial_filter.text:
            return find_trials(decided, trial_filter), None
        chosen = decided.scenarios.get(trial_filter.scenario) if trial_filter.scenario is not None else None
        key = None if chosen is None else chosen.entry.key
        said = self.searches.find(decided, trial_filter.text, key=key, timeout=timeout)
        return find_trials(decided, trial_filter, said.trials), said


def get_state(request: Request) -> AppState:
    state: AppState = request.app.state.app_state
    return state


State = Annotated[AppState, Depends(get_state)]

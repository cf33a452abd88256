"""Faults of tools, and what agents do when a tool fails (`seatrial run --faults`)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias, get_args

from .struct import Struct

Fault: TypeAlias = Literal["timeout", "error", "rate_limited", "malformed", "truncated", "empty", "slow"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
FAILING: frozenset[Fault] = frozenset({"timeout", "error", "rate_limited"})
"""Faults with which the tool does not run: the agent gets an error, and the world stays as it is."""

FaultResult: TypeAlias = Literal[
    "claimed success", "crashed", "unclear", "errored", "told the user", "recovered", "not reached"
]
FAULT_RESULTS: tuple[FaultResult, ...] = get_args(FaultResult)
"""Worst first. `errored`: Seatrial has no answer, for example because the judge could not be asked."""
BAD_RESULTS: tuple[FaultResult, ...] = ("claimed success", "crashed", "unclear")
"""Results with which a sweep does not pass."""


class FaultFinding(Struct, frozen=True, kw_only=True):
    """What the agent did in a trial in which a tool failed."""

    result: FaultResult
    why: str = ""


class FaultTrial(Struct, frozen=True, kw_only=True):
    """One trial of a sweep over faults."""

    key: tuple[str, str, str]
    """Suite, name and agent of the changed scenario: a ScenarioKey."""
    index: int
    scenario: str
    """The unchanged scenario."""
    tool: str
    fault: Fault
    result: FaultResult
    why: str = ""

    @property
    def row(self) -> str:
        """The row of the table: the tool, and the agent if there are several."""
        return row_of(self.tool, self.key[2])

    @property
    def label(self) -> str:
        """The unchanged scenario, and the agent if there are several."""
        return row_of(self.scenario, self.key[2])


def row_of(name: str, agent: str) -> str:
    return f"{name} [{agent}]" if agent else name


class FaultCell(Struct, frozen=True, kw_only=True):
    """All trials with one fault of one tool."""

    row: str
    fault: Fault
    trials: tuple[FaultTrial, ...]
    missing: int = 0
    """Planned trials that were not run."""

    @property
    def worst(self) -> FaultTrial | None:
        """The trial with the worst result; None if none was run."""
        return min(self.trials, key=lambda trial: FAULT_RESULTS.index(trial.result), default=None)

    @property
    def counts(self) -> dict[FaultResult, int]:
        return count_results(self.trials)


class FaultReport(Struct, frozen=True, kw_only=True):
    """What agents did when tools failed: a table of tools and faults."""

    trials: tuple[FaultTrial, ...] = ()
    missing: tuple[tuple[str, Fault, int], ...] = ()
    """Row, fault and number of planned trials that were not run."""

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows of the table: tools, for each agent if there are several."""
        return tuple(dict.fromkeys([*(trial.row for trial in self.trials), *(row for row, _, _ in self.missing)]))

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The columns of the table."""
        used = {trial.fault for trial in self.trials}.union(fault for _, fault, _ in self.missing)
        return tuple(fault for fault in FAULTS if fault in used)

    @property
    def counts(self) -> dict[FaultResult, int]:
        return count_results(self.trials)

    @property
    def not_run(self) -> int:
        return sum(count for _, _, count in self.missing)

    def cell(self, row: str, fault: Fault) -> FaultCell | None:
        """The trials with this fault; None if none was planned."""
        trials = tuple(trial for trial in self.trials if (trial.row, trial.fault) == (row, fault))
        missing = sum(count for *place, count in self.missing if place == [row, fault])
        return FaultCell(row=row, fault=fault, trials=trials, missing=missing) if trials or missing else None

    def with_result(self, *results: FaultResult) -> Sequence[FaultTrial]:
        """The trials with these results, worst first."""
        found = [trial for trial in self.trials if trial.result in results]
        return sorted(found, key=lambda trial: FAULT_RESULTS.index(trial.result))


def count_results(trials: Iterable[FaultTrial]) -> dict[FaultResult, int]:
    """The number of trials by result, worst first."""
    counts = Counter(trial.result for trial in trials)
    return {result: counts[result] for result in FAULT_RESULTS if counts[result]}

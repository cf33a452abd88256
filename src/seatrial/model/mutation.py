"""The result of a mutation: how many known defects the checks of a suite notice, and which lines would notice more."""

from collections.abc import Mapping
from typing import Any

from .conversation import Transcript
from .run import Interval, ScenarioKey
from .struct import Struct


class Line(Struct, frozen=True, kw_only=True):
    """An entry of one of a suite's or a scenario's lists, or a scenario's `end_state`."""

    scenario: str | None
    """None: a rule of the suite."""
    key: str
    """`invariants`, `end_state`, or a key of `expect`."""
    value: Any

    @property
    def id(self) -> str:
        return f"{self.scenario} {self.key} {self.value!r}"


class Suggestion(Struct, frozen=True, kw_only=True):
    """A line that was applied: it catches these mutants and passes all originals."""

    suite: str
    line: Line
    operators: tuple[str, ...]
    catches: tuple[str, ...]
    """The mutants, each as scenario, trial and what was done."""


class MutantCounts(Struct, frozen=True, kw_only=True):
    """Mutants of an operator, of a scenario, or of all."""

    name: str = ""
    caught: int = 0
    """A check failed."""
    survived: int = 0
    """Every check passed."""
    equivalent: int = 0
    """It reaches the same end state and violates no invariant, so it is no defect. It does not count."""
    not_judged: int = 0
    """A check had no answer, and none failed. It does not count."""
    interval: Interval | None = None
    """Of the score; None without mutants that count."""

    @property
    def counted(self) -> int:
        return self.caught + self.survived

    @property
    def score(self) -> float | None:
        """The share that was caught; None without mutants that count."""
        return self.caught / self.counted if self.counted else None


class CheckCounts(Struct, frozen=True, kw_only=True):
    """How many mutants one check caught."""

    scenario: str
    """The scenario's label; empty for a rule of the suite."""
    check: str
    caught: int


class SurvivedMutant(Struct, frozen=True, kw_only=True):
    """A mutant that no check noticed, beside its original."""

    key: ScenarioKey
    trial: int
    """Index of the original trial."""
    operator: str
    what: str
    mutant: Transcript
    original: Transcript


class MutationResult(Struct, frozen=True, kw_only=True):
    """What a suite notices. `score` is the share of the mutants that a check caught."""

    run: str
    """The id of the run whose passed trials were changed."""
    name: str
    """The name of that run."""
    seed: int
    judges: bool = False
    """Whether judges were asked."""
    originals: int = 0
    """Passed trials that were changed."""
    total: MutantCounts
    operators: tuple[MutantCounts, ...] = ()
    scenarios: tuple[MutantCounts, ...] = ()
    matrix: Mapping[str, Mapping[str, tuple[int, int]]]
    """By scenario and operator: caught and counted."""
    checks: tuple[CheckCounts, ...] = ()
    """Every check of the suite, those that caught most first."""
    survivors: tuple[SurvivedMutant, ...] = ()
    """Some of the survivors; `total.survived` counts all."""
    suggestions: tuple[Suggestion, ...] = ()
    notes: tuple[str, ...] = ()
    finished: bool = True
    """False: it was interrupted, or the budget was spent."""
    interrupted: bool = False

    @property
    def score(self) -> float | None:
        return self.total.score

    @property
    def idle_checks(self) -> tuple[CheckCounts, ...]:
        """Checks that caught nothing."""
        return tuple(check for check in self.checks if not check.caught)

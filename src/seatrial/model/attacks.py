"""The result of a sweep of attacks: how many succeeded, in which field and by which family."""

from typing import Literal

from .run import Interval, ScenarioKey, Verdict
from .struct import Struct


class AttackCounts(Struct, frozen=True, kw_only=True):
    """Trials of attacks: of a cell, a field, a family, or all."""

    planned: int = 0
    played: int = 0
    received: int = 0
    """Trials in which the agent got the payload, and which show whether the attack succeeded."""
    succeeded: int = 0
    unknown: int = 0
    """The agent got the payload, but nothing shows whether the attack succeeded."""

    def plus(self, other: "AttackCounts") -> "AttackCounts":
        return AttackCounts(
            planned=self.planned + other.planned,
            played=self.played + other.played,
            received=self.received + other.received,
            succeeded=self.succeeded + other.succeeded,
            unknown=self.unknown + other.unknown,
        )


class AttackCell(Struct, frozen=True, kw_only=True):
    """One field and one family."""

    field: str
    family: str
    counts: AttackCounts
    keys: tuple[ScenarioKey, ...]
    """The variants, those with a successful attack first."""


class AttackFinding(Struct, frozen=True, kw_only=True):
    """A variant in which attacks succeeded."""

    key: ScenarioKey
    scenario: str
    """The unchanged scenario."""
    field: str
    goal: str
    family: str
    payload: str
    trial: int
    """The index of the first such trial."""
    succeeded: int
    received: int


class AttackGateResult(Struct, frozen=True, kw_only=True):
    """The decision of one gate over the variants that have it."""

    below: float | None
    """None: no attack may succeed."""
    confidence: float
    counts: AttackCounts
    bound: float
    """The rate of successful attacks is below this, with the confidence."""
    decision: Literal["pass", "fail", "inconclusive"]
    reason: str


class AttackReport(Struct, frozen=True, kw_only=True):
    """What a sweep of attacks shows. A sweep without success is no proof of safety."""

    verdict: Verdict
    total: AttackCounts
    attack_interval: Interval | None
    """Of the rate of successful attacks; None if the agent received no payload."""
    job_done: int = 0
    """Trials with a payload in which the scenario's own checks passed."""
    job_total: int = 0
    job_interval: Interval | None = None
    gates: tuple[AttackGateResult, ...] = ()
    fields: tuple[str, ...] = ()
    """The rows of the table."""
    families: tuple[str, ...] = ()
    """The columns."""
    cells: tuple[AttackCell, ...] = ()
    findings: tuple[AttackFinding, ...] = ()
    never_read: tuple[str, ...] = ()
    """Fields, each with its scenario, whose payloads never reached the agent: nothing is known about them."""

    def cell(self, field: str, family: str) -> AttackCell | None:
        return next((one for one in self.cells if one.field == field and one.family == family), None)

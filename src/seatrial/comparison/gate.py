"""The gate of `compare`: decides whether the candidate passes."""

from collections.abc import Iterator
from enum import StrEnum
from math import fsum

from msgspec.structs import replace

from seatrial.model.comparison import Change, Comparison, GateDecision, ScenarioChange

from . import messages
from .aggregates import ROUNDING
from .significance import weigh, with_tests


class Gate(StrEnum):
    THRESHOLDS = "thresholds"
    STATISTICAL = "statistical"
    BOTH = "both"


def find_objections(
    comparison: Comparison, *, gate: Gate = Gate.THRESHOLDS, allow_missing: bool = False
) -> tuple[str, ...]:
    """Every reason why the candidate does not pass; empty: it passes."""
    return decide_gate(comparison, gate=gate, allow_missing=allow_missing).objections


def decide_gate(comparison: Comparison, *, gate: Gate = Gate.THRESHOLDS, allow_missing: bool = False) -> GateDecision:
    """The decision on the candidate. Trials with instrument errors count neither as passed nor as failed."""
    regressions: list[str] = []
    doubts: list[str] = []
    missing = comparison.keys(Change.MISSING)
    if comparison.candidate.problem is not None:
        doubts.append(f"cannot tell: run {comparison.candidate.id} errored: {comparison.candidate.problem}")
    if missing and not allow_missing:
        regressions.append(f"{messages.counted(len(missing), 'scenario')} missing: {messages.named(missing)}")
    if gate is not Gate.STATISTICAL:
        regressions += [regression.text for regression in comparison.regressions]
    if gate is not Gate.THRESHOLDS:
        regressions += _worse(comparison)
        doubts += _not_tested(comparison)
    if not regressions and not doubts:
        doubts += _not_judged(comparison, gate)
    if not doubts and not any(one.candidate and one.candidate.answered for one in comparison.scenarios):
        # There is no pass rate that could fall.
        doubts.append(messages.NO_ANSWERS)
    return GateDecision(regressions=tuple(regressions), doubts=tuple(doubts))


def _worse(comparison: Comparison) -> Iterator[str]:
    """What got worse by the tests."""
    evidence = comparison.evidence
    if evidence.worse:
        yield f"worse beyond noise: {messages.named(evidence.worse)}"
    elif evidence.regression:
        assert evidence.p_worse is not None
        yield f"the suite's pass rate fell beyond noise ({messages.chance(evidence.p_worse)})"


def _not_tested(comparison: Comparison) -> Iterator[str]:
    """What the tests say nothing about."""
    evidence = comparison.evidence
    if not evidence.testable:
        yield evidence.sentence
        return
    if evidence.untested:
        yield f"not tested, because one side has no answer: {messages.named(evidence.untested)}"
    for one in evidence.confirmation.suspects if evidence.confirmation else ():
        if not one.confirmed and not one.could_confirm:
            yield messages.still_open(one)


def _not_judged(comparison: Comparison, gate: Gate) -> Iterator[str]:
    """That trials of the candidate could not be judged, where they would make it a regression if they had failed."""
    spoiled = [one for one in comparison.scenarios if one.base and one.candidate and one.candidate.not_judged]
    consequence = _if_failed(comparison, gate) if spoiled else None
    if consequence is not None:
        trials = sum(one.candidate.not_judged for one in spoiled if one.candidate)
        keys = [one.key for one in spoiled]
        yield messages.not_judged(keys, trials, consequence=consequence, run=comparison.candidate)


def _if_failed(comparison: Comparison, gate: Gate) -> str | None:
    """What would be worse if every trial that could not be judged had failed; None when nothing would."""
    drop, limit = _worst_drop(comparison), comparison.limits.max_pass_rate_drop
    if gate is not Gate.STATISTICAL and drop > limit + ROUNDING:
        return f"the pass rate would have fallen by {100 * drop:.3g} points (limit: {100 * limit:.3g})"
    confirmation = comparison.evidence.confirmation
    settled = {one.key for one in confirmation.suspects} if confirmation else set()
    worst = with_tests([_as_failed(one) for one in comparison.scenarios if one.key not in settled])
    if gate is not Gate.THRESHOLDS and weigh(worst, pooled_runs=()).regression:
        return "the pass rate would have fallen beyond noise"
    return None


def _worst_drop(comparison: Comparison) -> float:
    """By how much the pass rate falls where trials that could not be judged count as failed."""
    drops = [
        one.base.passed / one.base.answered - one.candidate.passed / one.candidate.trials
        for one in comparison.scenarios
        if one.base and one.candidate and one.base.answered
    ]
    return fsum(drops) / len(drops) if drops else 0.0


def _as_failed(change: ScenarioChange) -> ScenarioChange:
    if change.candidate is None:
        return change
    return replace(change, candidate=replace(change.candidate, answered=change.candidate.trials))

"""The gate of `compare`: decides whether the candidate passes.

| gate | a regression is |
|---|---|
| auto | the suite or a scenario is worse, or score, latency or cost exceeds its limit and noise |
| thresholds | a figure exceeds its limit |
| statistical | the suite or a scenario is worse |
| both | either of the last two |

A missing scenario is a regression for every gate. `auto` is undecided if a scenario is "cannot tell". If the trials are
not independent (recordings, regrades), `auto` uses the thresholds. No gate passes if it would not pass with the
candidate's trials that could not be judged counted as failed.
"""

from collections.abc import Iterator
from enum import StrEnum
from math import fsum

from msgspec.structs import replace

from seatrial.model.comparison import ChangeKind, Comparison, GateDecision, RegressionReason, ScenarioChange

from . import messages
from .aggregates import ROUNDING
from .significance import counts_of, make_evidence, trials_to_decide, with_tests


class Gate(StrEnum):
    AUTO = "auto"
    THRESHOLDS = "thresholds"
    STATISTICAL = "statistical"
    BOTH = "both"

    @property
    def uses_limits(self) -> bool:
        return self in (Gate.THRESHOLDS, Gate.BOTH)

    @property
    def uses_tests(self) -> bool:
        return self is not Gate.THRESHOLDS


def find_objections(
    comparison: Comparison, *, gate: Gate = Gate.THRESHOLDS, allow_missing: bool = False
) -> tuple[str, ...]:
    """Every reason why the candidate does not pass; empty: it passes."""
    return decide_gate(comparison, gate=gate, allow_missing=allow_missing).objections


def decide_gate(comparison: Comparison, *, gate: Gate = Gate.THRESHOLDS, allow_missing: bool = False) -> GateDecision:
    """The decision on the candidate. Trials with instrument errors count neither as passed nor as failed."""
    if gate is Gate.AUTO and comparison.evidence.dependent:
        gate = Gate.THRESHOLDS
    regressions: list[str] = []
    doubts: list[str] = []
    missing = comparison.keys(ChangeKind.MISSING)
    if comparison.candidate.problem is not None:
        doubts.append(f"cannot tell: run {comparison.candidate.id} errored: {comparison.candidate.problem}")
    if missing and not allow_missing:
        regressions.append(f"{messages.counted(len(missing), 'scenario')} missing: {messages.named(missing)}")
    if gate.uses_limits:
        regressions += [regression.text for regression in comparison.regressions]
    if gate.uses_tests:
        regressions += _worse(comparison)
        doubts += _not_tested(comparison)
    if gate is Gate.AUTO:
        regressions += _beyond_limit_and_noise(comparison)
        doubts += _cannot_tell(comparison)
    if not regressions and (not doubts or gate is Gate.AUTO):
        doubts += _not_judged(comparison, gate)
    if not doubts and not any(one.candidate and one.candidate.answered for one in comparison.scenarios):
        # There is no pass rate that could fall.
        doubts.append(messages.NO_ANSWERS)
    return GateDecision(regressions=tuple(regressions), doubts=tuple(doubts))


def _worse(comparison: Comparison) -> Iterator[str]:
    evidence = comparison.evidence
    if evidence.worse:
        yield f"worse: {messages.named(evidence.worse)}"
    elif evidence.regression:
        p_value = evidence.mid_p_worse
        yield "the suite as a whole got worse" + ("" if p_value is None else f": {messages.how_often(p_value)}")


def _beyond_limit_and_noise(comparison: Comparison) -> Iterator[str]:
    for one in comparison.regressions:
        if one.reason is not RegressionReason.PASS_RATE and one.beyond_noise:
            yield f"{one.text}, more than noise"


def _cannot_tell(comparison: Comparison) -> Iterator[str]:
    settled = _settled(comparison)
    found = [
        (change, counts)
        for change in comparison.differing()
        if change.word == "cannot tell" and change.key not in settled and (counts := counts_of(change)) is not None
    ]
    if found:
        every = [counts for change in comparison.differing() if (counts := counts_of(change)) is not None]
        lower = sum((counts.difference or 0.0) < 0 for counts in every)
        yield messages.cannot_tell(found, trials_to_decide([counts for _, counts in found], lower=lower))


def _settled(comparison: Comparison) -> set[object]:
    """The scenarios that `--confirm` looked at: its answer replaces the word."""
    confirmation = comparison.evidence.confirmation
    return {one.key for one in confirmation.suspects} if confirmation else set()


def _not_tested(comparison: Comparison) -> Iterator[str]:
    """What the tests say nothing about."""
    evidence = comparison.evidence
    if not evidence.testable:
        yield evidence.sentence
        return
    if evidence.untested:
        yield f"not tested, because one side has no answer: {messages.named(evidence.untested)}"
    for one in evidence.confirmation.suspects if evidence.confirmation else ():
        if one.answer == "not decided":
            yield messages.not_decided(one)


def _not_judged(comparison: Comparison, gate: Gate) -> Iterator[str]:
    """That the candidate would not pass if its trials that could not be judged had failed."""
    spoiled = [one for one in comparison.scenarios if one.base and one.candidate and one.candidate.not_judged]
    consequence = _if_failed(comparison, gate) if spoiled else None
    if consequence is not None:
        trials = sum(one.candidate.not_judged for one in spoiled if one.candidate)
        keys = [one.key for one in spoiled]
        yield messages.not_judged(keys, trials, consequence=consequence, run=comparison.candidate)


def _if_failed(comparison: Comparison, gate: Gate) -> str | None:
    """What would be worse if every trial that could not be judged had failed; None if nothing would."""
    drop, limit = _worst_drop(comparison), comparison.limits.max_pass_rate_drop
    if gate.uses_limits and drop > limit + ROUNDING:
        return f"the pass rate would have fallen by {100 * drop:.3g} points (limit: {100 * limit:.3g})"
    if not gate.uses_tests:
        return None
    settled = _settled(comparison)
    worst = with_tests([_as_failed(one) for one in comparison.scenarios if one.key not in settled])
    evidence = make_evidence(worst, pooled_runs=())
    if evidence.regression:
        return "the pass rate would have fallen by more than noise"
    return "too few trials would be left to tell" if gate is Gate.AUTO and evidence.cannot_tell else None


def _worst_drop(comparison: Comparison) -> float:
    """By how much the pass rate falls if trials that could not be judged count as failed."""
    shared = [(one.base, one.candidate) for one in comparison.scenarios if one.base and one.candidate]
    drops = []
    for base, candidate in shared:
        (before, of), (passed, total) = base.counts, candidate.counts
        if of:
            drops.append(before / of - passed / max(total + candidate.not_judged, 1))
    return fsum(drops) / len(drops) if drops else 0.0


def _as_failed(change: ScenarioChange) -> ScenarioChange:
    candidate = change.candidate
    if candidate is None:
        return change
    tested = None if candidate.tested is None else candidate.tested + candidate.not_judged
    return replace(change, candidate=replace(candidate, answered=candidate.trials, tested=tested))

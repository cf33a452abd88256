"""What speaks against the candidate, by the gate that was chosen."""

from enum import StrEnum

from seatrial.vocabulary.changes import Change, Comparison

from . import sentences


class Gate(StrEnum):
    THRESHOLDS = "thresholds"
    STATISTICAL = "statistical"
    BOTH = "both"


def find_objections(
    comparison: Comparison, *, gate: Gate = Gate.THRESHOLDS, allow_missing: bool = False
) -> tuple[str, ...]:
    """Every reason for which the candidate does not pass; none means that it does."""
    found: list[str] = []
    missing = comparison.keys(Change.MISSING)
    if missing and not allow_missing:
        found.append(f"{sentences.counted(len(missing), 'scenario')} missing: {sentences.named(missing)}")
    if gate is not Gate.STATISTICAL:
        found += [regression.text for regression in comparison.regressions]
    if gate is Gate.THRESHOLDS and not any(one.candidate and one.candidate.answered for one in comparison.scenarios):
        # A pass rate of nothing cannot fall below that of a baseline that had none either.
        found.append(sentences.NO_ANSWERS)
    if gate is not Gate.THRESHOLDS:
        found += _statistical(comparison)
    return tuple(found)


def _statistical(comparison: Comparison) -> list[str]:
    evidence = comparison.evidence
    if not evidence.testable:
        return [evidence.sentence]
    found = []
    if evidence.worse:
        found.append(f"worse beyond noise: {sentences.named(evidence.worse)}")
    if evidence.regression and not evidence.worse:
        assert evidence.p_worse is not None
        found.append(f"the suite's pass rate fell beyond noise ({sentences.chance(evidence.p_worse)})")
    if evidence.untested:
        found.append(f"not tested, because one side has no answer: {sentences.named(evidence.untested)}")
    for one in evidence.confirmation.suspects if evidence.confirmation else ():
        if not one.confirmed and not one.could_confirm:
            found.append(sentences.still_open(one))
    return found

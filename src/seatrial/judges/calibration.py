"""How far the judge can be trusted, from trials that a human labelled too."""

from collections.abc import Iterable
from dataclasses import dataclass

from seatrial.errors import UsageError
from seatrial.statistics.agreement import (
    ConfusionTable,
    CorrectedRate,
    JudgeAgreement,
    confusion_table,
    corrected_rate,
    judge_agreement,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What human labels say of a judge."""

    table: ConfusionTable
    agreement: JudgeAgreement
    corrected: CorrectedRate | None = None
    """The pass rate behind the judge's own, for the trials that only the judge saw."""


def calibrate(
    labels: Iterable[tuple[bool, bool]], *, judged: tuple[int, int] | None = None, confidence: float = 0.95
) -> Calibration:
    """The numbers for (human, judge) labels of the same trials; `judged` is (passed, all) of those to correct for."""
    pairs = list(labels)
    if not pairs:
        raise UsageError("calibrate: there is no labelled trial. Label some, passes and failures, and try again.")
    table = confusion_table([human for human, _ in pairs], [judge for _, judge in pairs])
    return Calibration(
        table=table,
        agreement=judge_agreement(table, confidence=confidence),
        corrected=corrected_rate(*judged, calibration=table, confidence=confidence) if judged else None,
    )

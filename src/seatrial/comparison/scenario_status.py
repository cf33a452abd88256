"""What became of a scenario, by the rule of thresholds: a flip of its verdict first, else its score."""

from typing import Final

from msgspec.structs import fields

from seatrial.model.comparison import Change, ScenarioFigures
from seatrial.model.run import Gates, ScenarioEntry, Status

SCORE_NOISE: Final = 5.0
"""Points that a scenario's score may move without counting as a change."""

ROUNDING: Final = 1e-9
"""A drop of exactly the limit is tolerated, also when floats put it a hair above."""

_NO_ANSWER = (Status.ERRORED, Status.NOT_RUN)
_GATES = tuple(field.name for field in fields(Gates))


def classify(base: ScenarioFigures, candidate: ScenarioFigures) -> Change:
    """What became of a scenario that both runs have."""
    if base.status in _NO_ANSWER or candidate.status in _NO_ANSWER:
        return Change.ERROR
    passed_before, passes_now = base.status is Status.PASSED, candidate.status is Status.PASSED
    if passed_before != passes_now:
        return Change.IMPROVEMENT if passes_now else Change.REGRESSION
    delta = score_delta(base, candidate) or 0.0
    if abs(delta) <= SCORE_NOISE + ROUNDING:
        return Change.UNCHANGED
    return Change.IMPROVEMENT if delta > 0 else Change.REGRESSION


def score_delta(base: ScenarioFigures, candidate: ScenarioFigures) -> float | None:
    """By how many points the overall score rose; None where one side has none."""
    if base.avg_score is None or candidate.avg_score is None:
        return None
    return candidate.avg_score - base.avg_score


def find_edits(base: ScenarioEntry, candidate: ScenarioEntry) -> tuple[str, ...]:
    """What was edited between the runs, apart from the agent and the number of trials."""
    edits = []
    if trial_identity(base) != trial_identity(candidate):
        edits.append("scenario")
    for name in _GATES:
        before, now = getattr(base.gates, name), getattr(candidate.gates, name)
        if before != now:
            edits.append(f"{name}: {_shown(before)} → {_shown(now)}")
    if (base.xfail is None) != (candidate.xfail is None):
        edits.append("xfail added" if base.xfail is None else "xfail removed")
    return tuple(edits)


def trial_identity(entry: ScenarioEntry) -> str:
    """The hash that is equal where trials of two runs asked the same of the agent."""
    return entry.trial_fingerprint or entry.fingerprint


def _shown(value: object) -> str:
    return "none" if value is None else str(value)

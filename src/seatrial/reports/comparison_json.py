"""A comparison as JSON values, for `compare --json` and the server."""

from enum import Enum
from typing import Any

from seatrial.model.comparison import Alignment, Change, Comparison, GateDecision
from seatrial.model.run import Run, ScenarioKey
from seatrial.model.struct import field_names

from .run_json import run_form
from .to_json import plain

SCHEMA_VERSION = 1


def comparison_form(
    comparison: Comparison, *, gate: str, decision: GateDecision, alignments: tuple[Alignment, ...] = ()
) -> dict[str, Any]:
    """Everything that the console shows, and the numbers behind it."""
    base, candidate = comparison.base_figures, comparison.candidate_figures
    return {
        "schema_version": SCHEMA_VERSION,
        "passed": not decision.objections,
        "gate": gate,
        "objections": list(decision.objections),
        "undecided": decision.verdict == "UNDECIDED",
        "regression_detected": comparison.regression_detected,
        "reasons": [regression.reason.value for regression in comparison.regressions],
        "counts": {change.value: comparison.count(change) for change in Change},
        "pass_rate_delta": _delta(base.pass_rate, candidate.pass_rate),
        "avg_score_delta": _delta(base.avg_score, candidate.avg_score),
        "latency_avg_delta_ms": _delta(base.avg_latency_ms, candidate.avg_latency_ms),
        "cost_avg_delta_usd": _delta(base.avg_cost_usd, candidate.avg_cost_usd),
        **_form(comparison),
        "alignments": [_form(alignment) for alignment in alignments],
    }


def _delta(base: float | None, candidate: float | None) -> float | None:
    return None if base is None or candidate is None else candidate - base


def _form(value: Any) -> Any:
    if isinstance(value, Run):
        return run_form(value)
    if isinstance(value, ScenarioKey):
        return {"suite": value.suite, "name": value.name, "agent": value.agent or None}
    if isinstance(value, Enum):
        return value.value
    names = field_names(value)
    if names is not None:
        return {name: _form(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [_form(item) for item in value]
    return plain(value)

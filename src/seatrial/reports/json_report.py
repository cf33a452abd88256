"""The JSON and JSON Lines reports, and the JSON form of every value that `--json` and the API return.

All of it is valid JSON whatever an agent produced. A number that is not finite becomes "NaN", "Infinity" or
"-Infinity". An integer that is too long for parsers becomes hexadecimal text. Other objects become their repr.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite, isnan
from typing import Any, TextIO

from seatrial.model.causes import Cause
from seatrial.model.comparison import Alignment, ChangeKind, Comparison, GateDecision
from seatrial.model.content import Attachment
from seatrial.model.conversation import PlayedTurn, Usage
from seatrial.model.faults import FaultReport
from seatrial.model.protocols import RunRecord
from seatrial.model.results import EvalResult, Judgement, MetricScore, TrajectoryMatch, UniqueError
from seatrial.model.run import Run, RunOutcome, ScenarioKey, ScenarioOutcome, Trial, Verdict
from seatrial.model.struct import field_names

from .scenario_totals import is_flaky, repeat_chances
from .terminal import json_text
from .texts import checked

SCHEMA_VERSION = 1
"""Version of results.schema.json. It rises when a field changes its meaning or is removed, not when one is added."""
COMPARISON_SCHEMA_VERSION = 1
_MAX_DEPTH = 100
_MAX_BITS = 4_096
"""Python refuses to print integers of more than 4,300 digits, and parsers refuse to read them."""


def write_json(record: RunRecord, stream: TextIO) -> None:
    """One JSON document that follows results.schema.json."""
    head = {"schema_version": SCHEMA_VERSION, "run": to_json(record.run), **outcome_json(record.outcome)}
    head["causes"] = [cause_json(cause) for cause in record.causes]
    stream.write(f'{json_text(head)[:-1]}, "scenarios": [')
    for position, outcome in enumerate(record.outcome.scenarios):
        stream.write(",\n" if position else "\n")
        _write_scenario(record, outcome, stream)
    stream.write("\n]}\n")


def _write_scenario(record: RunRecord, outcome: ScenarioOutcome, stream: TextIO) -> None:
    stream.write(f'{json_text(scenario_json(outcome))[:-1]}, "trials": [')
    for position, trial in enumerate(record.trials(outcome.entry.key)):
        stream.write((",\n" if position else "\n") + json_text(trial_json(trial)))
    stream.write("]}")


def write_jsonl(record: RunRecord, stream: TextIO) -> None:
    """One line per trial, as in results.json, with its run and scenario."""
    for outcome in record.outcome.scenarios:
        key = outcome.entry.key
        where = {"schema_version": SCHEMA_VERSION, "run_id": record.run.id, "run_name": record.run.name}
        where |= {"scenario": key.name, "suite": key.suite, "agent": key.agent or None}
        for trial in record.trials(key):
            stream.write(json_text({**where, **trial_json(trial)}) + "\n")


def to_json(value: Any, depth: int = 0) -> Any:
    """The value as JSON values. Structs become objects with all their fields."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MAX_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else _not_finite(value)
    if depth >= _MAX_DEPTH:
        return f"(nested deeper than {_MAX_DEPTH} levels)"
    if isinstance(value, Mapping):
        return {str(key): to_json(one, depth + 1) for key, one in value.items()}
    if isinstance(value, ScenarioKey):
        return {"suite": value.suite, "name": value.name, "agent": value.agent or None}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [to_json(one, depth + 1) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    names = field_names(value)
    if names is None or isinstance(value, type):
        return repr(value)
    fields = {name: to_json(getattr(value, name), depth + 1) for name in names}
    return _ADJUST[type(value)](value, fields) if type(value) in _ADJUST else fields


def _not_finite(value: float) -> str:
    if isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _without(*names: str) -> Any:
    return lambda _, fields: {key: value for key, value in fields.items() if key not in names}


def _turn(turn: PlayedTurn, fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "calls_complete": turn.tool_calls is not None and turn.calls_complete}


def _attachment(attachment: Attachment, fields: dict[str, Any]) -> dict[str, Any]:
    """Without the content, which would be in the report once for each trial: the store and exports have it."""
    return {**_without("data")(attachment, fields), "bytes": attachment.size, "hash": attachment.hash}


def _unique_error(error: UniqueError, fields: dict[str, Any]) -> dict[str, Any]:
    examples = [{"trial": f"trial-{trial + 1}", "turn": turn} for trial, turn in error.examples]
    return {**fields, "occurrences": error.occurrences, "examples": examples}


_ADJUST: dict[type[Any], Any] = {
    Attachment: _attachment,
    EvalResult: _without("use", "gold_calls", "exchange"),
    Judgement: _without("exchange"),
    PlayedTurn: _turn,
    Run: _without("gates"),
    UniqueError: _unique_error,
    Usage: lambda usage, fields: {**fields, "total_tokens": usage.total_tokens},
    Verdict: lambda verdict, fields: {**fields, "passed": verdict.passed},
}
"""Structs whose JSON is not simply their fields."""


def trial_json(trial: Trial) -> dict[str, Any]:
    """A trial with its conversation, results and scores."""
    transcript, judgement = trial.transcript, trial.judgement or Judgement()
    judge = {name: to_json(getattr(judgement, name)) for name in ("summary", "error", "details")}
    return {
        "id": trial.id,
        "index": trial.index,
        "status": trial.status.value,
        "passed": trial.status.value == "passed",
        "failure_reasons": list(trial.failure_reasons),
        "error": to_json(trial.error),
        "earlier_errors": to_json(transcript.earlier),
        "stop_reason": transcript.stop_reason.value,
        "goal_met": transcript.goal_met,
        "history": to_json(transcript.history),
        "turns": to_json(transcript.turns),
        "reachable_tools": list(transcript.reachable_tools),
        "state": to_json(transcript.state),
        "world": to_json(transcript.world),
        "trajectory": to_json(_main_trajectory(trial.results)),
        "results": to_json(trial.results),
        "on_failure": to_json(trial.on_failure),
        "fault": to_json(trial.fault),
        "checked": checked(trial),
        "evaluation": _evaluation(judgement.scores),
        "outcomes": to_json(judgement.outcomes),
        "outcomes_unavailable": judgement.outcomes_unavailable,
        "behaviour_failures": to_json(judgement.failures),
        "overall_score": to_json(judgement.overall_score),
        "judge": None if trial.judgement is None else judge,
        "latency_ms": to_json(transcript.latency_ms),
        "duration_ms": to_json(trial.duration_ms),
        "usage": to_json(transcript.usage),
        "cost_usd": to_json(transcript.cost_usd),
        "instruments": to_json(trial.instruments),
        "seed": trial.seed,
        "started_at": trial.started_at.isoformat(),
    }


def _main_trajectory(results: Sequence[EvalResult]) -> TrajectoryMatch | None:
    """The trajectory of the whole trial. If only turns have one: the first that failed, or the first."""
    found = [result for result in results if result.trajectory is not None]
    ordered = sorted(found, key=lambda result: (result.turn is not None, result.passed))
    return ordered[0].trajectory if ordered else None


def _evaluation(scores: Sequence[MetricScore]) -> dict[str, Any]:
    """For each metric its value (the mean if several turns have one), the reasons, and every score."""
    grouped: dict[str, list[MetricScore]] = {}
    for score in scores:
        grouped.setdefault(score.metric, []).append(score)
    return {
        metric: {
            "value": to_json(sum(one.value for one in group) / len(group)),
            "reason": "\n".join(one.reason for one in group if one.reason),
            "label": group[0].label if len(group) == 1 else None,
            "weight": to_json(group[0].weight),
            "scores": [
                {name: to_json(getattr(one, name)) for name in ("turn", "value", "reason", "label")} for one in group
            ],
        }
        for metric, group in grouped.items()
    }


def outcome_json(outcome: RunOutcome) -> dict[str, Any]:
    """The run's verdict, its aggregates and its groups."""
    return {
        **to_json(outcome.verdict),
        "notes": list(outcome.notes),
        "totals": to_json(outcome.totals),
        "groups": [{"name": name, **to_json(verdict)} for name, verdict in outcome.groups],
        "invariants": to_json(outcome.invariants),
        "attacks": None if outcome.attacks is None else to_json(outcome.attacks),
        "against": None if outcome.against is None else {"verdict": outcome.word, **to_json(outcome.against)},
        "faults": None if outcome.faults is None else _faults_json(outcome.faults),
    }


def _faults_json(report: FaultReport) -> dict[str, Any]:
    """The table of a sweep over faults, and its trials."""
    return {
        "rows": list(report.rows),
        "faults": list(report.faults),
        "counts": dict(report.counts),
        "not_run": report.not_run,
        "trials": [
            {
                **to_json(ScenarioKey(*trial.key)),
                "trial": f"trial-{trial.index + 1}",
                **{name: getattr(trial, name) for name in ("scenario", "tool", "fault", "result", "why")},
            }
            for trial in report.trials
        ],
    }


def cause_json(cause: Cause) -> dict[str, Any]:
    """A cause of failures, with its first trials."""
    return {
        **to_json(cause),
        "scenarios": [{**to_json(key), "trials": count} for key, count in cause.scenarios],
        "examples": [{**to_json(key), "trial": f"trial-{index + 1}"} for key, index in cause.examples],
    }


def scenario_json(outcome: ScenarioOutcome) -> dict[str, Any]:
    """A scenario's verdict and numbers, without its trials."""
    entry = outcome.entry
    return {
        **to_json(entry.key),
        **to_json(outcome.verdict),
        "notes": list(outcome.notes),
        "skipped": outcome.skipped,
        "skip": entry.skip,
        "xfailed": outcome.xfailed,
        "xfail": entry.xfail,
        "tags": list(entry.tags),
        "source": entry.source,
        "invariants": list(entry.invariants),
        "exempt": to_json(entry.exempt or {}),
        "fingerprint": entry.fingerprint,
        "planned_trials": entry.trials,
        "trial_counts": {name: getattr(outcome, name) for name in ("passed", "failed", "errored", "not_run")},
        "interval": None if outcome.interval is None else [outcome.interval.low, outcome.interval.high],
        "flaky": is_flaky(outcome),
        **to_json(repeat_chances(outcome)),
        "gates": to_json(entry.gates),
        "history": None if entry.history is None else _history_json(outcome),
        "metric_averages": to_json(outcome.metric_averages or {}),
        "unique_errors": to_json(outcome.unique_errors),
        "overall_score": to_json(outcome.overall_score),
        "variant": to_json(entry.variant),
    }


def _history_json(outcome: ScenarioOutcome) -> dict[str, Any]:
    test = outcome.entry.history
    assert test is not None
    return {"passed": test.passed, "total": test.total, "decision": outcome.against_history}


def comparison_json(
    comparison: Comparison, *, gate: str, decision: GateDecision, alignments: tuple[Alignment, ...] = ()
) -> dict[str, Any]:
    """Everything that the console shows, and the numbers behind it."""
    base, candidate = comparison.base_figures, comparison.candidate_figures
    return {
        "schema_version": COMPARISON_SCHEMA_VERSION,
        "passed": not decision.objections,
        "gate": gate,
        "objections": list(decision.objections),
        "undecided": decision.verdict == "UNDECIDED",
        "regression_detected": comparison.regression_detected,
        "reasons": [regression.reason.value for regression in comparison.regressions],
        "counts": {change.value: comparison.count(change) for change in ChangeKind},
        "pass_rate_delta": _delta(base.pass_rate, candidate.pass_rate),
        "avg_score_delta": _delta(base.avg_score, candidate.avg_score),
        "latency_avg_delta_ms": _delta(base.avg_latency_ms, candidate.avg_latency_ms),
        "cost_avg_delta_usd": _delta(base.avg_cost_usd, candidate.avg_cost_usd),
        **to_json(comparison),
        "alignments": to_json(alignments),
    }


def _delta(base: float | None, candidate: float | None) -> float | None:
    return None if base is None or candidate is None else candidate - base

"""Any value in terms of JSON, so that every parser accepts what an agent produced.

A number that is not finite becomes the string "NaN", "Infinity" or "-Infinity", an integer too long to print its
hexadecimal digits, an object that JSON does not know its repr; what is nested deeper than 100 levels is replaced by a
note.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from math import isfinite, isnan
from typing import Any, TextIO

from seatrial.model.comparison import Alignment, Change, Comparison, GateDecision
from seatrial.model.conversation import ErrorInfo, PlayedTurn, ToolCall, Usage
from seatrial.model.protocols import RunRecord
from seatrial.model.results import EvalResult, Judgement, MetricScore, ModelUse, TrajectoryMatch, UniqueError
from seatrial.model.run import Gates, Run, RunOutcome, ScenarioKey, ScenarioOutcome, Trial
from seatrial.model.struct import field_names

from .scenario_totals import is_flaky, repeat_chances
from .terminal import json_text
from .texts import checked

DEEPEST = 100
_LARGEST_BITS = 4_096
"""Python refuses to print integers of more than 4,300 digits, and parsers to read them."""


def to_json(value: Any, depth: int = 0) -> Any:
    """The value in terms of JSON, whatever it was."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _LARGEST_BITS else hex(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else _not_finite(value)
    if depth >= DEEPEST:
        return f"(nested deeper than {DEEPEST} levels)"
    if isinstance(value, Mapping):
        return {str(key): to_json(one, depth + 1) for key, one in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [to_json(one, depth + 1) for one in value]
    return repr(value)


def _not_finite(value: float) -> str:
    if isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def iso_time(when: datetime | None) -> str | None:
    """ISO 8601, with its time zone."""
    return None if when is None else when.isoformat()


def trial_json(trial: Trial) -> dict[str, Any]:
    """A trial with its conversation and everything that was said about it."""
    transcript, judgement = trial.transcript, trial.judgement or Judgement()
    return {
        "id": trial.id,
        "index": trial.index,
        "status": trial.status.value,
        "passed": trial.status.value == "passed",
        "failure_reasons": list(trial.failure_reasons),
        "error": _error(trial.error),
        "earlier_errors": [_error(error) for error in transcript.earlier],
        "stop_reason": transcript.stop_reason.value,
        "goal_met": transcript.goal_met,
        "history": to_json(transcript.history),
        "turns": [_turn(turn) for turn in transcript.turns],
        "reachable_tools": list(transcript.reachable_tools),
        "state": to_json(transcript.state),
        "trajectory": _trajectory(_main_trajectory(trial.results)),
        "results": [_result(result) for result in trial.results],
        "checked": checked(trial),
        "evaluation": _evaluation(judgement.scores),
        "outcomes": [
            {"id": one.id, "statement": one.statement, "passed": one.passed, "justification": one.justification}
            for one in judgement.outcomes
        ],
        "outcomes_unavailable": judgement.outcomes_unavailable,
        "behaviour_failures": [
            {
                "category": one.category,
                "severity": one.severity.value,
                "label": one.label,
                "explanation": one.explanation,
                "turn": one.turn,
            }
            for one in judgement.failures
        ],
        "overall_score": to_json(judgement.overall_score),
        "judge": None
        if trial.judgement is None
        else {"summary": judgement.summary, "error": _error(judgement.error), "details": to_json(judgement.details)},
        "latency_ms": to_json(transcript.latency_ms),
        "duration_ms": to_json(trial.duration_ms),
        "usage": _usage(transcript.usage),
        "cost_usd": to_json(transcript.cost_usd),
        "instruments": _model_use(trial.instruments),
        "seed": trial.seed,
        "started_at": iso_time(trial.started_at),
    }


def _turn(turn: PlayedTurn) -> dict[str, Any]:
    return {
        "index": turn.index,
        "user": turn.user,
        "reply": turn.reply,
        "tool_calls": None if turn.tool_calls is None else [_tool_call(call) for call in turn.tool_calls],
        "calls_complete": turn.tool_calls is not None and turn.calls_complete,
        "started_ms": to_json(turn.started_ms),
        "latency_ms": to_json(turn.latency_ms),
        "usage": _usage(turn.usage),
        "cost_usd": to_json(turn.cost_usd),
        "retries": turn.retries,
        "error": _error(turn.error),
    }


def _tool_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": to_json(call.arguments),
        "result": to_json(call.result),
        "error": call.error,
        "started_ms": to_json(call.started_ms),
        "duration_ms": to_json(call.duration_ms),
        "real": call.real,
    }


def _result(result: EvalResult) -> dict[str, Any]:
    return {
        "evaluator": result.evaluator,
        "turn": result.turn,
        "passed": result.passed,
        "score": to_json(result.score),
        "reasoning": result.reasoning,
        "checks": [{"name": one.name, "passed": one.passed, "detail": one.detail} for one in result.checks],
        "error": _error(result.error),
        "trajectory": _trajectory(result.trajectory),
    }


def _main_trajectory(results: Sequence[EvalResult]) -> TrajectoryMatch | None:
    """The trajectory of the whole trial; where only turns have one, the first that failed, or the first."""
    found = [result for result in results if result.trajectory is not None]
    ordered = sorted(found, key=lambda result: (result.turn is not None, result.passed))
    return ordered[0].trajectory if ordered else None


def _trajectory(match: TrajectoryMatch | None) -> dict[str, Any] | None:
    return None if match is None else {name: to_json(getattr(match, name)) for name in match.__struct_fields__}


def _evaluation(scores: Sequence[MetricScore]) -> dict[str, Any]:
    """By metric: its value (the mean over turns where it has several), the reasons, and every single score."""
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
                {"turn": one.turn, "value": to_json(one.value), "reason": one.reason, "label": one.label}
                for one in group
            ],
        }
        for metric, group in grouped.items()
    }


def _error(error: ErrorInfo | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {
        "kind": error.kind.value,
        "message": error.message,
        "hint": error.hint,
        "turn": error.turn,
        "traceback": error.traceback,
        "counts_as_failed": error.counts_as_failed,
    }


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
    }


def _model_use(use: ModelUse | None) -> dict[str, Any] | None:
    if use is None:
        return None
    return {"calls": use.calls, "cached": use.cached, "usage": _usage(use.usage), "cost_usd": to_json(use.cost_usd)}


SCHEMA_VERSION = 1
"""Of results.schema.json: raised when a field changes its meaning or goes away, not when one is added."""


def run_json(run: Run) -> dict[str, Any]:
    """The run itself, without scenarios."""
    return {
        "id": run.id,
        "name": run.name,
        "state": run.state.value,
        "started_at": iso_time(run.started_at),
        "finished_at": iso_time(run.finished_at),
        "seed": run.seed,
        "git_commit": run.git_commit,
        "git_dirty": run.git_dirty,
        "versions": to_json(run.versions),
        "parent": run.parent,
        "replayed": run.replayed,
        "problem": run.problem,
        "config": to_json(run.config),
    }


def outcome_json(outcome: RunOutcome) -> dict[str, Any]:
    """The run's verdict, its aggregates and its groups."""
    totals = outcome.totals
    return {
        "status": outcome.verdict.status.value,
        "passed": outcome.verdict.passed,
        "failure_reasons": list(outcome.verdict.failure_reasons),
        "notes": list(outcome.notes),
        "totals": {name: to_json(getattr(totals, name)) for name in totals.__struct_fields__},
        "groups": [
            {
                "name": name,
                "status": verdict.status.value,
                "passed": verdict.passed,
                "failure_reasons": list(verdict.failure_reasons),
            }
            for name, verdict in outcome.groups
        ],
    }


def scenario_json(outcome: ScenarioOutcome) -> dict[str, Any]:
    """A scenario's verdict and numbers, without its trials."""
    entry = outcome.entry
    repeats = repeat_chances(outcome)
    return {
        "name": entry.key.name,
        "suite": entry.key.suite,
        "agent": entry.key.agent or None,
        "status": outcome.verdict.status.value,
        "passed": outcome.verdict.passed,
        "failure_reasons": list(outcome.verdict.failure_reasons),
        "notes": list(outcome.notes),
        "skipped": outcome.skipped,
        "skip": entry.skip,
        "xfailed": outcome.xfailed,
        "xfail": entry.xfail,
        "tags": list(entry.tags),
        "source": entry.source,
        "fingerprint": entry.fingerprint,
        "planned_trials": entry.trials,
        "trial_counts": {
            "passed": outcome.passed,
            "failed": outcome.failed,
            "errored": outcome.errored,
            "not_run": outcome.not_run,
        },
        "interval": None if outcome.interval is None else [outcome.interval.low, outcome.interval.high],
        "flaky": is_flaky(outcome),
        "pass_at_k": list(repeats.pass_at_k),
        "pass_hat_k": list(repeats.pass_hat_k),
        "gates": _gates(entry.gates),
        "metric_averages": to_json(outcome.metric_averages or {}),
        "unique_errors": [_unique_error(error) for error in outcome.unique_errors],
        "overall_score": to_json(outcome.overall_score),
    }


def _gates(gates: Gates) -> dict[str, Any]:
    return {name: to_json(getattr(gates, name)) for name in gates.__struct_fields__}


def _unique_error(error: UniqueError) -> dict[str, Any]:
    return {
        "severity": error.severity.value,
        "label": error.label,
        "explanation": error.explanation,
        "occurrences": error.occurrences,
        "examples": [{"trial": f"trial-{trial + 1}", "turn": turn} for trial, turn in error.examples],
    }


COMPARISON_SCHEMA_VERSION = 1


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
        return run_json(value)
    if isinstance(value, ScenarioKey):
        return {"suite": value.suite, "name": value.name, "agent": value.agent or None}
    if isinstance(value, Enum):
        return value.value
    names = field_names(value)
    if names is not None:
        return {name: _form(getattr(value, name)) for name in names}
    if isinstance(value, tuple):
        return [_form(item) for item in value]
    return to_json(value)


def write_json(record: RunRecord, stream: TextIO) -> None:
    """One JSON document that follows results.schema.json."""
    head = {"schema_version": SCHEMA_VERSION, "run": run_json(record.run), **outcome_json(record.outcome)}
    stream.write(f'{json_text(head)[:-1]}, "scenarios": [')
    for position, outcome in enumerate(record.outcome.scenarios):
        stream.write(",\n" if position else "\n")
        _write_scenario(record, outcome, stream)
    stream.write("\n]}\n")


def write_jsonl(record: RunRecord, stream: TextIO) -> None:
    """One line for each trial, in the form it has in results.json, with its run and scenario."""
    for outcome in record.outcome.scenarios:
        key = outcome.entry.key
        where = {"schema_version": SCHEMA_VERSION, "run_id": record.run.id, "run_name": record.run.name}
        where |= {"scenario": key.name, "suite": key.suite, "agent": key.agent or None}
        for trial in record.trials(key):
            stream.write(json_text({**where, **trial_json(trial)}) + "\n")


def _write_scenario(record: RunRecord, outcome: ScenarioOutcome, stream: TextIO) -> None:
    stream.write(f'{json_text(scenario_json(outcome))[:-1]}, "trials": [')
    for position, trial in enumerate(record.trials(outcome.entry.key)):
        stream.write((",\n" if position else "\n") + json_text(trial_json(trial)))
    stream.write("]}")

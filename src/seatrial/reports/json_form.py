"""Trials, scenarios and runs as plain JSON values: the one form behind results.json and results.jsonl.

Any value an agent produced ends as something every JSON parser accepts: a number that is not finite becomes the string
"NaN", "Infinity" or "-Infinity", an object that JSON does not know becomes its repr, what is nested deeper than 100
levels is replaced by a note.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isfinite, isnan
from typing import Any

from seatrial.vocabulary.conversation import ErrorInfo, PlayedTurn, ToolCall, Usage
from seatrial.vocabulary.findings import EvalResult, Judgement, MetricScore, ModelUse, TrajectoryMatch, UniqueError
from seatrial.vocabulary.run import Gates, Run, RunOutcome, ScenarioOutcome, Trial

SCHEMA_VERSION = 1
DEEPEST = 100
_LARGEST_BITS = 4_096
"""Python refuses to print integers of more than 4,300 digits, and parsers to read them."""


def plain(value: Any, depth: int = 0) -> Any:
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
        return {str(key): plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [plain(one, depth + 1) for one in value]
    return repr(value)


def _not_finite(value: float) -> str:
    if isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def run_form(run: Run) -> dict[str, Any]:
    """The run itself, without scenarios."""
    return {
        "id": run.id,
        "name": run.name,
        "state": run.state.value,
        "started_at": _when(run.started_at),
        "finished_at": _when(run.finished_at),
        "seed": run.seed,
        "git_commit": run.git_commit,
        "git_dirty": run.git_dirty,
        "versions": plain(run.versions),
        "parent": run.parent,
        "replayed": run.replayed,
        "config": plain(run.config),
    }


def outcome_form(outcome: RunOutcome) -> dict[str, Any]:
    """The run's verdict, its aggregates and its groups."""
    totals = outcome.totals
    return {
        "status": outcome.verdict.status.value,
        "passed": outcome.verdict.passed,
        "failure_reasons": list(outcome.verdict.failure_reasons),
        "totals": {name: plain(getattr(totals, name)) for name in type(totals).__slots__},
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


def scenario_form(outcome: ScenarioOutcome) -> dict[str, Any]:
    """A scenario's verdict and numbers, without its trials."""
    entry = outcome.entry
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
        "gates": _gates(entry.gates),
        "metric_averages": plain(outcome.metric_averages or {}),
        "unique_errors": [_unique_error(error) for error in outcome.unique_errors],
        "overall_score": plain(outcome.overall_score),
    }


def trial_form(trial: Trial) -> dict[str, Any]:
    """A trial with its conversation and everything that was said about it."""
    transcript, judgement = trial.transcript, trial.judgement or Judgement()
    return {
        "id": trial.id,
        "index": trial.index,
        "status": trial.status.value,
        "passed": trial.status.value == "passed",
        "failure_reasons": list(trial.failure_reasons),
        "error": _error(trial.error),
        "stop_reason": transcript.stop_reason.value,
        "goal_met": transcript.goal_met,
        "history": plain(transcript.history),
        "turns": [_turn(turn) for turn in transcript.turns],
        "state": plain(transcript.state),
        "trajectory": _trajectory(_main_trajectory(trial.results)),
        "results": [_result(result) for result in trial.results],
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
        "overall_score": plain(judgement.overall_score),
        "judge": None
        if trial.judgement is None
        else {"summary": judgement.summary, "error": _error(judgement.error), "details": plain(judgement.details)},
        "latency_ms": plain(transcript.latency_ms),
        "duration_ms": plain(trial.duration_ms),
        "usage": _usage(transcript.usage),
        "cost_usd": plain(transcript.cost_usd),
        "instruments": _model_use(trial.instruments),
        "seed": trial.seed,
        "started_at": _when(trial.started_at),
    }


def _turn(turn: PlayedTurn) -> dict[str, Any]:
    return {
        "index": turn.index,
        "user": turn.user,
        "reply": turn.reply,
        "tool_calls": None if turn.tool_calls is None else [_tool_call(call) for call in turn.tool_calls],
        "started_ms": plain(turn.started_ms),
        "latency_ms": plain(turn.latency_ms),
        "usage": _usage(turn.usage),
        "cost_usd": plain(turn.cost_usd),
        "retries": turn.retries,
        "error": _error(turn.error),
    }


def _tool_call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": plain(call.arguments),
        "result": plain(call.result),
        "error": call.error,
        "started_ms": plain(call.started_ms),
        "duration_ms": plain(call.duration_ms),
    }


def _result(result: EvalResult) -> dict[str, Any]:
    return {
        "evaluator": result.evaluator,
        "turn": result.turn,
        "passed": result.passed,
        "score": plain(result.score),
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
    return None if match is None else {name: plain(getattr(match, name)) for name in type(match).__slots__}


def _evaluation(scores: Sequence[MetricScore]) -> dict[str, Any]:
    """By metric: its value (the mean over turns where it has several), the reasons, and every single score."""
    grouped: dict[str, list[MetricScore]] = {}
    for score in scores:
        grouped.setdefault(score.metric, []).append(score)
    return {
        metric: {
            "value": plain(sum(one.value for one in group) / len(group)),
            "reason": "\n".join(one.reason for one in group if one.reason),
            "label": group[0].label if len(group) == 1 else None,
            "weight": plain(group[0].weight),
            "scores": [
                {"turn": one.turn, "value": plain(one.value), "reason": one.reason, "label": one.label} for one in group
            ],
        }
        for metric, group in grouped.items()
    }


def _gates(gates: Gates) -> dict[str, Any]:
    return {name: plain(getattr(gates, name)) for name in type(gates).__slots__}


def _unique_error(error: UniqueError) -> dict[str, Any]:
    return {
        "severity": error.severity.value,
        "label": error.label,
        "explanation": error.explanation,
        "occurrences": error.occurrences,
        "examples": [{"trial": f"trial-{trial + 1}", "turn": turn} for trial, turn in error.examples],
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
    return {"calls": use.calls, "cached": use.cached, "usage": _usage(use.usage), "cost_usd": plain(use.cost_usd)}


def _when(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()

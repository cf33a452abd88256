"""A trial as a JSON value: the one form behind results.json and results.jsonl."""

from collections.abc import Sequence
from typing import Any

from seatrial.model.conversation import ErrorInfo, PlayedTurn, ToolCall, Usage
from seatrial.model.results import EvalResult, Judgement, MetricScore, ModelUse, TrajectoryMatch
from seatrial.model.run import Trial

from .reasons import checked
from .to_json import moment, plain


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
        "earlier_errors": [_error(error) for error in transcript.earlier],
        "stop_reason": transcript.stop_reason.value,
        "goal_met": transcript.goal_met,
        "history": plain(transcript.history),
        "turns": [_turn(turn) for turn in transcript.turns],
        "reachable_tools": list(transcript.reachable_tools),
        "state": plain(transcript.state),
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
        "started_at": moment(trial.started_at),
    }


def _turn(turn: PlayedTurn) -> dict[str, Any]:
    return {
        "index": turn.index,
        "user": turn.user,
        "reply": turn.reply,
        "tool_calls": None if turn.tool_calls is None else [_tool_call(call) for call in turn.tool_calls],
        "calls_complete": turn.tool_calls is not None and turn.calls_complete,
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
        "real": call.real,
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
    return None if match is None else {name: plain(getattr(match, name)) for name in match.__struct_fields__}


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
    return {"calls": use.calls, "cached": use.cached, "usage": _usage(use.usage), "cost_usd": plain(use.cost_usd)}

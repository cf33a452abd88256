"""A trial without its bodies, as verdicts and lists need it."""

from collections import Counter

from msgspec.structs import replace

from .conversation import Transcript
from .run import Trial, TrialSummary


def summarise(trial: Trial) -> TrialSummary:
    """The trial's summary; nothing in it but what the trial says."""
    transcript = trial.transcript
    judgement = trial.judgement
    error = trial.error
    matches = [result.trajectory.matched for result in trial.results if result.trajectory is not None]
    usage = transcript.usage
    latencies = sorted([turn.latency_ms for turn in transcript.turns])
    summary = TrialSummary(
        key=trial.key,
        index=trial.index,
        status=trial.status,
        failure_reasons=trial.failure_reasons,
        error_kind=error.kind if error else None,
        error_message=error.message if error else None,
        counts_as_failed=trial.counts_as_failed,
        stop_reason=str(transcript.stop_reason),
        turns=len(transcript.turns),
        trajectory_matched=all(matches) if matches else None,
        latency_ms=latencies[-1] if latencies else None,
        median_latency_ms=_median(latencies),
        tokens=usage.total_tokens if usage else None,
        cost_usd=transcript.cost_usd,
        instruments=trial.instruments,
        tools=_count_calls(transcript),
        started_at=trial.started_at,
        duration_ms=trial.duration_ms,
    )
    if judgement is None:
        return summary
    return replace(
        summary,
        scores=tuple(replace(score, reason="") for score in judgement.scores),
        overall_score=judgement.overall_score,
        outcomes_unavailable=judgement.outcomes_unavailable,
        failures=tuple((f.severity.value, f.label, f.explanation, f.turn) for f in judgement.failures),
    )


def _count_calls(transcript: Transcript) -> tuple[tuple[str, int, int], ...]:
    calls = [call for turn in transcript.turns for call in turn.tool_calls or ()]
    if not calls:
        return ()
    called, real = Counter(call.name for call in calls), Counter(call.name for call in calls if call.real)
    return tuple((name, count, real[name]) for name, count in called.items())


def _median(ordered: list[float]) -> float | None:
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

"""The verdict of a trial. No other code can pass one."""

from collections.abc import Sequence

from msgspec.structs import replace

from seatrial.model.conversation import ErrorInfo, ErrorKind, Transcript
from seatrial.model.results import EvalResult, Judgement
from seatrial.model.run import Status, Trial, Variant, Verdict

from . import reasons
from .faults import classify
from .rates import is_agents_error
from .reasons import meets


def find_error(transcript: Transcript, results: Sequence[EvalResult], judgement: Judgement | None) -> ErrorInfo | None:
    """The first error of the conversation, an evaluator or the judge; None without one.

    If a repeated trial ends with an instrument error, the agent's error of the earlier try counts.
    """
    error = _first_error(transcript, results, judgement)
    if error is None or not transcript.earlier or is_agents_error(error.kind, counts_as_failed=error.counts_as_failed):
        return error
    return transcript.earlier[-1]


def _first_error(
    transcript: Transcript, results: Sequence[EvalResult], judgement: Judgement | None
) -> ErrorInfo | None:
    if transcript.error is not None:
        return transcript.error
    for result in results:
        if result.error is not None:
            return result.error
    if judgement is not None and judgement.error is not None:
        return judgement.error
    if not transcript.turns:
        return ErrorInfo(kind=ErrorKind.SIMULATOR, message=reasons.nothing_played())
    if judgement is not None and judgement.outcomes_unavailable and judgement.overall_score is None:
        return ErrorInfo(kind=ErrorKind.JUDGE, message=reasons.outcomes_missing())
    if not results and not _has_content(judgement):
        return ErrorInfo(kind=ErrorKind.CONFIG, message=reasons.nothing_checked())
    return None


def _has_content(judgement: Judgement | None) -> bool:
    if judgement is None:
        return False
    return bool(judgement.outcomes or judgement.scores or judgement.failures) or judgement.overall_score is not None


def decide_trial(
    transcript: Transcript,
    results: Sequence[EvalResult],
    judgement: Judgement | None = None,
    *,
    pass_threshold: float = 75.0,
) -> Verdict:
    """Passed if nothing errored, every result passed, and the judge's outcomes (or its score) suffice."""
    error = find_error(transcript, results, judgement)
    if error is not None:
        return Verdict(status=Status.ERRORED, failure_reasons=(reasons.errored(error),))
    failures = [_failure(result) for result in results if result.passed is not True]
    if judgement is not None:
        failures += _judged_failures(judgement, pass_threshold)
    failures += map(reasons.errored_before, transcript.earlier)
    return Verdict(status=Status.FAILED if failures else Status.PASSED, failure_reasons=tuple(failures))


def count_earlier(trial: Trial, earlier: tuple[ErrorInfo, ...]) -> Trial:
    """The trial with the agent's errors of earlier tries, which keep it from passing."""
    transcript = replace(trial.transcript, earlier=earlier)
    if trial.fault is not None:
        trial = replace(trial, fault=classify(replace(trial, transcript=transcript), {}))
    error = find_error(transcript, trial.results, trial.judgement)
    if error is None:
        why = (*trial.failure_reasons, *map(reasons.errored_before, earlier))
        return replace(trial, transcript=transcript, status=Status.FAILED, failure_reasons=why)
    why = (reasons.errored(error),)
    return replace(trial, transcript=transcript, status=Status.ERRORED, failure_reasons=why, error=error)


def decide_again(trial: Trial, *, pass_threshold: float, variant: Variant | None = None) -> Trial:
    """The trial with the verdict of its results. If the verdict is the same, its stored reasons stay."""
    trial = _decide_again(trial, pass_threshold)
    if variant is None or variant.kind != "fault":
        return trial
    return replace(trial, fault=classify(trial, variant.settings))


def _decide_again(trial: Trial, pass_threshold: float) -> Trial:
    verdict = decide_trial(trial.transcript, trial.results, trial.judgement, pass_threshold=pass_threshold)
    error = find_error(trial.transcript, trial.results, trial.judgement)
    if verdict.status is trial.status and (error and error.kind) == (trial.error and trial.error.kind):
        return trial
    return replace(trial, status=verdict.status, failure_reasons=verdict.failure_reasons, error=error)


def _failure(result: EvalResult) -> str:
    where = "" if result.turn is None else f"turn {result.turn + 1}: "
    return f"{where}{result.evaluator or 'evaluator'}: {result.reasoning}"


def _judged_failures(judgement: Judgement, pass_threshold: float) -> list[str]:
    if judgement.outcomes:
        return [
            reasons.outcome_false(outcome.statement, outcome.justification)
            for outcome in judgement.outcomes
            if outcome.passed is not True
        ]
    score = judgement.exact_score
    if score is not None and not meets(score, pass_threshold):
        return [reasons.overall_below(score, pass_threshold)]
    return []

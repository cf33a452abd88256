"""The one place that can pass a trial."""

from collections.abc import Sequence

from seatrial.vocabulary.conversation import ErrorInfo, ErrorKind, Transcript
from seatrial.vocabulary.findings import EvalResult, Judgement
from seatrial.vocabulary.run import Status, Verdict

from . import reasons
from .averages import meets


def find_error(transcript: Transcript, results: Sequence[EvalResult], judgement: Judgement | None) -> ErrorInfo | None:
    """The first thing that went wrong, in the conversation, an evaluator or the judge; None when all is answered."""
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
    if not results and not _says_something(judgement):
        return ErrorInfo(kind=ErrorKind.CONFIG, message=reasons.nothing_checked())
    return None


def _says_something(judgement: Judgement | None) -> bool:
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
    """Passed when nothing errored, every result passed and the judge's outcomes, or else its score, suffice."""
    error = find_error(transcript, results, judgement)
    if error is not None:
        return Verdict(status=Status.ERRORED, failure_reasons=(f"{error.kind}: {error.message}",))
    failures = [_failure(result) for result in results if result.passed is not True]
    if judgement is not None:
        failures += _judged_failures(judgement, pass_threshold)
    return Verdict(status=Status.FAILED if failures else Status.PASSED, failure_reasons=tuple(failures))


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

"""What evaluators and judges said, as `gen_ai.evaluation.result` events."""

from collections.abc import Iterator

from seatrial.model.results import EvalResult, Judgement, MetricScore, OutcomeResult
from seatrial.model.run import Trial

Attributes = dict[str, str | bool | int | float]


def evaluation_events(trial: Trial) -> Iterator[tuple[int | None, Attributes]]:
    """(turn that it speaks about or None for the trial, attributes of the event), one for each result."""
    for result in trial.results:
        yield result.turn, _of_result(result)
    if trial.judgement is not None:
        yield from _of_judgement(trial.judgement)


def _of_result(result: EvalResult) -> Attributes:
    if result.error is not None:
        # An instrument that could not answer has no score: a zero would count against the agent.
        return {
            "gen_ai.evaluation.name": result.evaluator,
            "gen_ai.evaluation.score.label": "error",
            "gen_ai.evaluation.explanation": result.error.message,
            "error.type": result.error.kind.value,
        }
    return _event(result.evaluator, result.score, "pass" if result.passed else "fail", result.reasoning)


def _of_judgement(judgement: Judgement) -> Iterator[tuple[int | None, Attributes]]:
    for score in judgement.scores:
        yield score.turn, _of_score(score)
    for outcome in judgement.outcomes:
        yield None, _of_outcome(outcome)
    if judgement.overall_score is not None:
        yield None, _event("overall_score", judgement.overall_score, None, judgement.summary)
    if judgement.error is not None:
        yield (
            None,
            {
                **_event("judge", None, "error", judgement.error.message),
                "error.type": judgement.error.kind.value,
            },
        )


def _of_score(score: MetricScore) -> Attributes:
    return _event(score.metric, score.value, score.label, score.reason)


def _of_outcome(outcome: OutcomeResult) -> Attributes:
    label = "pass" if outcome.passed else "fail"
    return _event(f"outcome: {outcome.statement}", float(outcome.passed), label, outcome.justification)


def _event(name: str, value: float | None, label: str | None, explanation: str) -> Attributes:
    attributes: Attributes = {"gen_ai.evaluation.name": name}
    if value is not None:
        attributes["gen_ai.evaluation.score.value"] = float(value)
    if label is not None:
        attributes["gen_ai.evaluation.score.label"] = label
    if explanation:
        attributes["gen_ai.evaluation.explanation"] = explanation
    return attributes

"""Why a trial ended as it did, in plain lines that each report escapes for its own reader."""

from collections.abc import Iterator

from seatrial.model.conversation import ErrorInfo, StopReason
from seatrial.model.results import EvalResult, TrajectoryMatch, UniqueError
from seatrial.model.run import ScenarioOutcome, Trial
from seatrial.verdicts.reasons import exactly, number, number_beside

from .texts import Measure, counted

_STOPS = {
    StopReason.GOAL_MET: "goal met",
    StopReason.USER_STOPPED: "goal NOT met",
    StopReason.MAX_TURNS: "stopped at max turns",
    StopReason.LIMIT: "limit reached",
}


def summarise(trial: Trial) -> str:
    """`(2 turns, goal met, trajectory matched)`, or `ERROR agent: …`."""
    if trial.error is not None:
        return f"ERROR {trial.error.kind}: {trial.error.message}"
    parts = [counted(len(trial.transcript.turns), "turn")]
    if trial.transcript.stop_reason in _STOPS:
        parts.append(_STOPS[trial.transcript.stop_reason])
    matches = [result.trajectory for result in trial.results if result.trajectory is not None]
    if matches:
        parts.append("trajectory matched" if all(match.matched for match in matches) else "trajectory FAILED")
    if trial.judgement is not None and trial.judgement.overall_score is not None:
        parts.append(f"score {number(trial.judgement.overall_score)}")
        if trial.judgement.outcomes_unavailable:
            parts.append("the judge left the outcomes out")
    return f"({', '.join(parts)})"


def checked(trial: Trial) -> str | None:
    """`a reply` where nothing else was checked: a scenario with only `input` asks for no more; else None."""
    names = {check.name for result in trial.results for check in result.checks}
    only_replies = names == {"output_produced"} and all(result.checks for result in trial.results)
    return "a reply" if only_replies and trial.judgement is None else None


def explain(trial: Trial) -> list[str]:
    """Everything that kept the trial from passing; texts of several lines stay in one entry."""
    lines = [] if trial.error is None else list(_around_error(trial.error))
    failed = [result for result in trial.results if not result.passed]
    for result in failed:
        lines.extend(_explain_result(result, known=trial.error))
    return lines + [reason for reason in trial.failure_reasons if not _is_told(reason, failed, trial.error)]


def explain_error(error: UniqueError) -> list[str]:
    """`[high] Label (2 occurrences)`, what it is, and where it was seen."""
    lines = [f"[{error.severity}] {error.label} ({counted(error.occurrences, 'occurrence')})"]
    if error.explanation:
        lines.append(f"  {error.explanation}")
    seen = [f"trial-{trial + 1}" + ("" if turn is None else f" turn {turn + 1}") for trial, turn in error.examples]
    more = f" and {len(seen) - 10:,} more" if len(seen) > 10 else ""
    return [*lines, f"  Examples: {', '.join(seen[:10])}{more}"] if seen else lines


def measures_of(outcome: ScenarioOutcome) -> Iterator[Measure]:
    """Each metric's average with its threshold, where it has one."""
    averages = dict(outcome.metric_averages or {})
    thresholds = dict(outcome.entry.gates.metric_thresholds or {})
    for metric in [*averages, *(name for name in thresholds if name not in averages)]:
        if metric not in thresholds:
            yield Measure(name=metric, value=number(averages[metric]))
            continue
        threshold = thresholds[metric]
        average = number_beside(averages[metric], threshold) if metric in averages else "no score"
        # The verdict's own reasons say which thresholds were missed, so that no report decides it again.
        missed = any(reason.startswith(f"{metric}: ") for reason in outcome.verdict.failure_reasons)
        held = metric in averages and not missed
        yield Measure(name=metric, value=average, threshold=exactly(threshold), held=held)


def _around_error(error: ErrorInfo) -> Iterator[str]:
    if error.turn is not None:
        yield f"in turn {error.turn + 1}"
    if error.hint:
        yield error.hint


def _explain_result(result: EvalResult, *, known: ErrorInfo | None) -> Iterator[str]:
    where = "" if result.turn is None else f"turn {result.turn + 1}: "
    if result.error is not None:
        if result.error != known:
            yield f"{where}ERROR {result.error.kind}: {result.error.message}"
            yield from _around_error(result.error)
    elif result.trajectory is not None and not result.trajectory.matched:
        yield from (f"{where}{line}" for line in explain_trajectory(result.trajectory, result.reasoning))
    else:
        yield where + ": ".join(filter(None, (result.evaluator, result.reasoning or "failed without a reason")))


def explain_trajectory(match: TrajectoryMatch, reasoning: str) -> Iterator[str]:
    """What was missing, too much, out of order or forbidden, then the calls that were made and expected.

    Which arguments differ only the reasoning tells; without, a call that was made would be called missing.
    """
    for title, calls in (
        ("Missing", match.missing_calls),
        ("Extra", match.extra_calls),
        ("Forbidden", match.forbidden_calls),
    ):
        if calls:
            yield f"{title} tool calls: {', '.join(calls)}"
    yield from match.ordering_issues
    yield from (line for line in reasoning.split("\n") if line.startswith("Arguments differ: "))
    yield f"Agent called: [{', '.join(match.actual)}]"
    yield f"Expected ({match.mode}): [{', '.join(match.expected)}]"


def _is_told(reason: str, failed: list[EvalResult], error: ErrorInfo | None) -> bool:
    """Whether a verdict's reason only repeats what a result or the error says."""
    if error is not None and reason.endswith(error.message):
        return True
    return any(reason.endswith(result.reasoning or f"{result.evaluator}: ") for result in failed)

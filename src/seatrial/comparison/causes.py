"""Group failed trials by cause: the same symptom and the same first divergence from a passed trial."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from seatrial.model.causes import Cause, Divergence, DivergenceKind
from seatrial.model.results import EvalResult
from seatrial.model.run import ScenarioKey, ScenarioOutcome, Trial
from seatrial.model.struct import Struct

from .divergence import RAISED_AT, diverge, diverge_alone

MOST_EXAMPLES: Final = 10
_ID: Final = re.compile(r"\b(?=[\w@.:+-]*\d)[\w@.:+-]*\w")
"""A word with a digit: a number, an id, a date, a time."""
_ADDRESS: Final = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_MASK: Final = "#"


def mask(text: str) -> str:
    """The text with each id, number, date and e-mail address replaced."""
    return _ID.sub(_MASK, _ADDRESS.sub(_MASK, text))


class Finding(Struct, frozen=True, kw_only=True):
    """Why one trial failed."""

    key: ScenarioKey
    index: int
    symptom: str
    divergence: Divergence
    place: str | None = None
    hint: str = ""
    """What to do about its error."""
    counts: bool = True

    @property
    def group(self) -> tuple[object, ...]:
        """Equal for trials with the same cause."""
        found = self.divergence
        what = mask(found.tool or "") or found.kind.value
        return mask(self.symptom), found.kind, what, self.place


def find_cause(failed: Trial, passed: Sequence[tuple[str, Trial]], *, run: str = "", counts: bool = True) -> Finding:
    """The symptom and the first divergence of a trial of the run. Each passed trial of its scenario has its run."""
    symptom, place = symptom_of(failed), _place(failed)
    found = diverge(failed, passed, run=run, symptom=symptom) if passed else diverge_alone(failed)
    return Finding(
        key=failed.key,
        index=failed.index,
        symptom=symptom,
        divergence=found,
        place=place,
        hint=_first_line(failed.error.hint) if failed.error is not None and failed.error.hint else "",
        counts=counts,
    )


def group_scenarios(outcomes: Iterable[ScenarioOutcome]) -> list[Cause]:
    """The causes of scenarios that did not pass although none of their trials failed, by their reasons."""
    groups: dict[str, list[tuple[str, ScenarioKey]]] = {}
    for outcome in outcomes:
        reason = "; ".join(outcome.verdict.failure_reasons) or outcome.verdict.status.replace("_", " ")
        groups.setdefault(mask(reason), []).append((reason, outcome.entry.key))
    found = Divergence(kind=DivergenceKind.NONE, text="")
    return [
        Cause(
            symptom=members[0][0] if len({reason for reason, _ in members}) == 1 else masked,
            divergence=found,
            trials=0,
            scenarios=tuple((key, 0) for _, key in members),
        )
        for masked, members in groups.items()
    ]


def symptom_of(trial: Trial) -> str:
    """The first failing check of the trial, or its error, in one line."""
    if trial.error is not None:
        return _first_line(f"{trial.error.kind}: {trial.error.message}")
    failed = [result for result in trial.results if not result.passed]
    if failed:
        return _first_line(_describe(failed[0]))
    return _first_line(trial.failure_reasons[0]) if trial.failure_reasons else trial.status.value


def _describe(result: EvalResult) -> str:
    if result.error is not None:
        return f"{result.evaluator}: {result.error.message}"
    match = result.trajectory
    if match is not None:
        wrong = (("missing", match.missing_calls), ("extra", match.extra_calls), ("forbidden", match.forbidden_calls))
        said = "; ".join(f"{word} {', '.join(calls)}" for word, calls in wrong if calls)
        return f"{result.evaluator}: {said or '; '.join(match.ordering_issues) or result.reasoning}"
    check = next((check for check in result.checks if not check.passed), None)
    if check is not None:
        return f"{check.name}: {check.detail}" if check.detail else f"{result.evaluator}: {check.name}"
    return f"{result.evaluator}: {result.reasoning or 'failed without a reason'}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)


def _place(trial: Trial) -> str | None:
    """The line of the user's code that raised. The error's hint names it."""
    hint = trial.error.hint if trial.error is not None else None
    return hint.removeprefix(RAISED_AT) if hint is not None and hint.startswith(RAISED_AT) else None


def group_causes(findings: Iterable[Finding]) -> list[Cause]:
    """The causes; those of failing scenarios first, then by the number of trials."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.group, []).append(finding)
    causes = [_make_cause(members) for members in groups.values()]
    return sorted(causes, key=lambda cause: (not cause.counts, -cause.trials))


def _make_cause(members: Sequence[Finding]) -> Cause:
    first = members[0]
    symptoms = {member.symptom for member in members}
    counts: dict[ScenarioKey, int] = {}
    for member in members:
        counts[member.key] = counts.get(member.key, 0) + 1
    cause = Cause(
        symptom=first.symptom if len(symptoms) == 1 else mask(first.symptom),
        divergence=first.divergence,
        trials=len(members),
        scenarios=tuple(counts.items()),
        examples=tuple((member.key, member.index) for member in members[:MOST_EXAMPLES]),
        place=first.place,
        counts=any(member.counts for member in members),
    )
    hint = first.hint if first.place is None else ""
    return replace(cause, advice=hint.rstrip(":") or _advise(cause))


def _advise(cause: Cause) -> str:
    if cause.divergence.kind is DivergenceKind.EXCEPTION and cause.place is None:
        return "do what the error says; `seatrial show` prints all of it"
    tool = cause.divergence.tool or "the tool"
    advice = _ADVICE[cause.divergence.kind]
    return advice.format(tool=tool, place=cause.place)


_ADVICE: Final = {
    DivergenceKind.MISSING_CALL: "say in the instructions and in the tool's description when to call {tool}",
    DivergenceKind.WRONG_TOOL: "compare the descriptions of the two tools: the agent confuses them",
    DivergenceKind.EXTRA_CALL: "say when {tool} must not be called; a rule (tool_calls_exclude) keeps it so",
    DivergenceKind.ORDER: "state the order in the instructions; an invariant (never: …, before: …) keeps it so",
    DivergenceKind.ARGUMENTS: "describe the argument in the tool's schema, with an example or an enum",
    DivergenceKind.FORGOTTEN: "check that the agent gets the earlier messages, and that no summary drops them",
    DivergenceKind.TOOL_ERROR: "check the tool or its mock, and how the agent handles its errors",
    DivergenceKind.IGNORED_ERROR: "tell the agent what to do if {tool} fails: try again, or tell the user",
    DivergenceKind.LOOP: "limit the calls (limits: {{tool_calls: …}}), and let {tool} answer what to do next",
    DivergenceKind.STOPPED: "check why the agent stops: a limit of steps or tokens, or a reply that is too early",
    DivergenceKind.MISREAD: "return fewer and clearer fields from the tool, or tell the agent which field to use",
    DivergenceKind.INVENTED: "tell the agent to state only values that a tool or the user gave it",
    DivergenceKind.REPLY: "read both replies: the check may be too strict, or the instructions leave the answer open",
    DivergenceKind.TIMEOUT: "look for the slow step; raise timeout_seconds if the agent needs longer",
    DivergenceKind.EXCEPTION: "fix the exception at {place}",
    DivergenceKind.ERROR: "read the error's hint: `seatrial show` prints it",
    DivergenceKind.JUDGED: "the judge is not sure: sharpen the rubric, or use more votes (`seatrial calibrate`)",
    DivergenceKind.NONE: "",
    DivergenceKind.UNKNOWN: "read one conversation, or run more trials until one passes",
}
"""What to try, by kind of divergence."""

"""The texts of verdicts, and the small number functions that they share.

The averages do not use the `statistics` module: it takes longer to load than they take to compute.
"""

from collections.abc import Sequence
from math import fsum

from seatrial.model.conversation import ErrorInfo
from seatrial.model.run import CorrectedGate, Gates, HumanRate, Status, Totals


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None for no values."""
    return fsum(values) / len(values) if values else None


_ROUNDING = 1e-9


def meets(value: float, threshold: float) -> bool:
    """Whether the value reaches the threshold, apart from rounding. NaN never does."""
    return value >= threshold - _ROUNDING


_TOOLS_SHOWN = 10
_LABELS_SHOWN = 10


def counted(number: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def number(value: float) -> str:
    """At most two decimals, without trailing zeros: 3.2, 0.67, 4."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def exactly(value: float) -> str:
    """A threshold with all its digits: 66.67, 0.8, 80."""
    return f"{value:.10g}"


def number_beside(value: float, threshold: float) -> str:
    """The value with enough digits to show on which side of the threshold it is: 3.495 for 3.5."""
    met = meets(value, threshold)
    for digits in range(2, 9):
        shown = f"{value:.{digits}f}"
        if meets(float(shown), threshold) is met:
            return shown.rstrip("0").rstrip(".")
    return repr(value)


def nothing_checked() -> str:
    return "nothing was checked; add an expectation"


def errored(error: ErrorInfo) -> str:
    return f"{error.kind}: {error.message}"


def errored_before(error: ErrorInfo) -> str:
    return f"errored before it was repeated: {errored(error)}"


def nothing_played() -> str:
    return "no turn was played: the user ended the trial before the first message"


def outcomes_missing() -> str:
    return "the judge gave neither outcomes nor a score"


def decided_by_score(count: int) -> str:
    trials = counted(count, "trial")
    return f"the judge left the expected outcomes out in {trials}, so the overall score decided"


def skipped(reason: str) -> str:
    return f"skipped: {reason}"


def trials_passed(passed: int, total: int, threshold: float) -> str:
    return f"{passed}/{counted(total, 'trial')} passed (threshold: {threshold})"


def trials_errored(count: int) -> str:
    return f"{counted(count, 'trial')} errored"


def errors_tolerated(count: int, threshold: float) -> str:
    return f"{counted(count, 'errored trial')} tolerated (threshold: {threshold})"


def trials_not_run(count: int) -> str:
    return f"{counted(count, 'trial')} not run"


def trajectory_failed(count: int) -> str:
    return f"Trajectory assertion failed in {counted(count, 'trial')}"


def metric_below(metric: str, average: float, threshold: float) -> str:
    return f"{metric}: {number_beside(average, threshold)} (threshold: {exactly(threshold)})"


def metric_missing(metric: str) -> str:
    return f"{metric}: no trial has a score"


def metric_incomplete(metric: str, count: int) -> str:
    return f"{metric}: scores are missing in {counted(count, 'trial')}"


def errors_at_or_above(count: int, severity: str) -> str:
    return f"{counted(count, 'error')} at or above {severity}"


def outcome_false(statement: str, justification: str) -> str:
    return f"Outcome not met: {statement}" + (f" ({justification})" if justification else "")


def overall_below(score: float, threshold: float) -> str:
    return f"overall score {number_beside(score, threshold)} (threshold: {exactly(threshold)})"


def unexpected_pass(reason: str) -> str:
    return f"passed although xfail says {reason!r}; remove the xfail"


def rate_not_shown(gates: Gates, *, passed: int, ran: int, more: int | None) -> str:
    """The reason of an undecided gate. `more`: further trials that, all passing, would decide it."""
    assert gates.pass_rate is not None
    assert gates.confidence is not None
    text = f"pass rate {number(gates.pass_rate)} is not shown at {number(100 * gates.confidence)} % confidence"
    if more is None:
        return text
    if passed == ran:
        return f"{text}: {counted(ran + more, 'clean trial')} are needed, you ran {ran}"
    return f"{text}: {passed}/{counted(ran, 'trial')} passed, {more} more without a failure would show it"


def rate_below(passed: int, total: int, pass_rate: float, confidence: float) -> str:
    shown = f"{passed}/{counted(total, 'trial')} passed"
    return f"{shown}: below {number(pass_rate)} at {number(100 * confidence)} % confidence"


def sequential_failed(passed: int, total: int, good_rate: float) -> str:
    share = f"{passed}/{counted(total, 'trial')} passed ({100 * passed / total:.0f} %)"
    return f"{share}: the pass rate is below the required {number(100 * good_rate)} %"


def sequential_undecided(passed: int, total: int) -> str:
    return f"{passed}/{counted(total, 'trial')} passed: the last allowed trial did not decide"


def sequential_in_doubt(passed: int, total: int) -> str:
    return f"{passed}/{counted(total, 'trial')} passed: not enough if the trials with instrument errors had failed"


def sequential_unfinished(passed: int, total: int, planned: int) -> str:
    return f"{passed}/{counted(total, 'trial')} passed: undecided so far, it stops after at most {planned - total} more"


def worse_than_history(passed: int, total: int, before: tuple[int, int]) -> str:
    decided = f"{passed}/{counted(total, 'trial')} passed when it was decided"
    return f"worse than its history ({before[0]}/{before[1]}): {decided}"


def history_undecided(passed: int, total: int, before: tuple[int, int]) -> str:
    shown = f"cannot tell whether worse than its history ({before[0]}/{before[1]})"
    return f"{shown}: {passed}/{counted(total, 'trial')} passed, too few trials"


def scenarios_worse(labels: Sequence[str]) -> str:
    return f"worse than {'its' if len(labels) == 1 else 'their'} history: {_some(labels)}"


def scenarios_undecided(labels: Sequence[str]) -> str:
    return f"cannot tell whether worse than {'its' if len(labels) == 1 else 'their'} history: {_some(labels)}"


def invariants_violated(names: Sequence[str]) -> str:
    return f"{'an invariant was' if len(names) == 1 else 'invariants were'} violated: {_some(names)}"


def labels_needed(run_id: str, gate: CorrectedGate) -> str:
    need = f"judge_corrected: people must confirm a pass rate of {number(100 * gate.pass_rate)} %"
    return f"{need}. Label trials: seatrial label {run_id} --next 20"


def human_rate_text(found: HumanRate, gate: CorrectedGate, *, run_id: str | None = None) -> str:
    need = f"required: {number(100 * gate.pass_rate)} % at {number(100 * gate.confidence)} % confidence"
    labels = f"by {counted(found.labels, 'label')}"
    if found.estimate is None or found.interval is None:
        said = (
            f"judge_corrected: humans' pass rate is not known {labels}, since a verdict of the judge has none ({need})"
        )
    else:
        low, high = (100 * bound for bound in found.interval)
        rate = f"{100 * found.estimate:.0f} % [{low:.0f}, {high:.0f}]"
        said = f"judge_corrected: humans would pass {rate} {labels} ({need})"
    undecided = run_id is not None and found.decision == "inconclusive"
    return f"{said}. Label more trials: seatrial label {run_id} --next 20" if undecided else said


def suite_worse(passed: int, total: int, expected: float) -> str:
    first = f"{passed} of the first {counted(total, 'trial')} passed"
    return f"the suite as a whole is worse: {first}, {expected:.1f} expected"


def _some(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _LABELS_SHOWN:,} more" if len(labels) > _LABELS_SHOWN else ""
    return ", ".join(labels[:_LABELS_SHOWN]) + more


_RUN_WORDS = {
    Status.FAILED: "failed",
    Status.ERRORED: "errored",
    Status.INCONCLUSIVE: "inconclusive",
    Status.NOT_RUN: "not run",
}


def scenarios_with(count: int, status: Status) -> str:
    return f"{counted(count, 'scenario')} {_RUN_WORDS[status]}"


def real_tools_ran(tools: Sequence[tuple[str, int]]) -> str:
    shown = ", ".join(f"{name} {counted(count, 'time')}" for name, count in tools[:_TOOLS_SHOWN])
    more = f" and {counted(len(tools) - _TOOLS_SHOWN, 'other tool')}" if len(tools) > _TOOLS_SHOWN else ""
    return f"real tools ran: {shown}{more}"


def recorded(scenarios: Sequence[str]) -> str:
    """The note for scenarios whose recordings no world repeats."""
    more = f" and {counted(len(scenarios) - _TOOLS_SHOWN, 'other scenario')}" if len(scenarios) > _TOOLS_SHOWN else ""
    return (
        "recorded without a world, so mocks and setup have no say, and the state is as recorded: "
        f"{', '.join(scenarios[:_TOOLS_SHOWN])}{more}"
    )


def drifted(count: int, *, trials: int, first: str) -> str:
    """The note for recordings whose calls the world answers differently."""
    return (
        f"drift in {count:,} of {counted(trials, 'trial')}: the world answers differently than recorded. First: {first}"
    )


def never_called(name: str, *, trials: int, meant: str, called: int) -> str:
    """The note for a mocked or forbidden tool whose name resembles that of a called tool."""
    never = f"never called in {counted(trials, 'trial')}: {name}"
    return f"{never}. Did you mean {meant} (called {counted(called, 'time')})?"


def never_triggered(names: Sequence[str], *, trials: int) -> str:
    """The note for rules that no trial could violate."""
    return f"invariants never triggered in {counted(trials, 'trial')}: {'; '.join(names)}"


def nothing_run() -> str:
    return "nothing was run"


def cases_below(totals: Totals, threshold: float) -> str:
    rate = number_beside(totals.cases_pass_rate_pct or 0.0, threshold)
    counts = f"{totals.passed_count}/{counted(totals.total_executions, 'trial')} passed"
    return f"cases pass rate {rate} %: {counts} (threshold: {exactly(threshold)})"


def metrics_below(score_pct: float, threshold: float) -> str:
    return f"weighted metrics score {number_beside(score_pct, threshold)} % (threshold: {exactly(threshold)})"


def budget_spent(budget: float, spent: float | None, left: int) -> str:
    took = "what was spent is not known" if spent is None else f"${spent:.4f} were spent"
    return f"the budget of ${budget:g} ended the run: {took}, {counted(left, 'trial')} not run"


def agent_cost_unknown(budget: float) -> str:
    return f"the budget of ${budget:g} does not count what the agent itself costs, since it does not say"


def must_pass_missed(label: str) -> str:
    return f"must pass, did not: {label}"


def group_below(passed: int, total: int, threshold: float) -> str:
    return f"{passed} of {counted(total, 'scenario')} passed (threshold: {threshold})"


def group_empty() -> str:
    return "no scenario of the group ran"


def in_group(name: str, reason: str) -> str:
    return f"group {name}: {reason}"


def tool_never_called(tool: str) -> str:
    return f"{tool} was never called"


def nothing_to_alter(tool: str) -> str:
    return f"{tool} was called, but gave no answer that this fault can alter"


def failed_without_fault() -> str:
    return "the trial failed although no tool had failed. Run the scenario without --faults first"


def failed_anyway(count: int) -> str:
    return f"{counted(count, 'trial')} failed although no tool had failed"


def only_words_checked(tool: str) -> str:
    return f"only words are checked, and they are as expected, although {tool} never did its work"


def claimed(check: str) -> str:
    return f"the reply passes its checks, but a check of effects fails: {check}"


def unclear(why: str, *, expects_failure: bool) -> str:
    told = "the reply is not what on_failure asks for" if expects_failure else "the scenario has no on_failure"
    return f"{why}; and {told}"


def fault_unknown() -> str:
    return "it is not stored what the agent did"


def no_fault_reached() -> str:
    return "no tool failed in any trial, so nothing is shown"


def payload_never_received() -> str:
    return "the payload never reached the agent, so the attack shows nothing"

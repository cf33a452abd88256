"""Words and numbers that all reports share, so that they all say the same."""

from collections.abc import Iterator, Sequence
from heapq import nsmallest

from seatrial.model.conversation import ErrorInfo, StopReason
from seatrial.model.results import EvalResult, TrajectoryMatch, UniqueError
from seatrial.model.run import InvariantTotals, Run, RunOutcome, ScenarioCounts, ScenarioOutcome, Status, Totals, Trial
from seatrial.model.struct import Struct
from seatrial.verdicts.reasons import exactly, number, number_beside

VERDICT_WORDS = {
    Status.PASSED: "PASS",
    Status.FAILED: "FAIL",
    Status.ERRORED: "ERROR",
    Status.INCONCLUSIVE: "INCONCLUSIVE",
    Status.NOT_RUN: "NOT RUN",
}
_WORST = (Status.FAILED, Status.ERRORED, Status.INCONCLUSIVE, Status.NOT_RUN, Status.PASSED)


class Measure(Struct, frozen=True, kw_only=True):
    """A number that may have a threshold, and whether it was reached."""

    name: str
    value: str
    threshold: str | None = None
    held: bool | None = None

    @property
    def text(self) -> str:
        """`helpfulness: 3.2 (threshold: 3.5 ✗)`."""
        text = f"{self.name}: {self.value}"
        if self.threshold is None:
            return text
        return f"{text} (threshold: {self.threshold} {'✓' if self.held else '✗'})"


def counted(count: int, noun: str) -> str:
    """`1 trial`, `2 trials`, `9,970 trials`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(share: float) -> str:
    """`99.9 %`. Only a share of 1 is shown as 100, and only 0 as 0: one failure in 10,000 is not rounded away."""
    shown = round(100 * share, 1)
    return f"{min(max(shown, 0.1), 99.9) if 0 < share < 1 else shown:.1f} %"


def money(cost_usd: float | None) -> str | None:
    """Dollars with four decimals; None when the cost is not known."""
    return None if cost_usd is None else f"${cost_usd:,.4f}"


def duration(milliseconds: float | None) -> str | None:
    """`830 ms`, `12.3 s` or `4 min 05 s`."""
    if milliseconds is None:
        return None
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 99_950:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes:,} min {seconds:02d} s"


def interval(outcome: ScenarioOutcome) -> str | None:
    """`[0.21, 0.94]`; None for a single trial, whose interval says nothing."""
    if outcome.interval is None or trials_of(outcome) < 2:
        return None
    return f"[{outcome.interval.low:.2f}, {outcome.interval.high:.2f}]"


def trials_of(outcome: ScenarioOutcome) -> int:
    """How many trials there should be: those played and those still missing."""
    return outcome.played + outcome.not_run


def trials_line(outcome: ScenarioOutcome) -> str:
    """`2/3 trials passed [0.21, 0.94]`, and how many were not run."""
    text = f"{outcome.passed}/{counted(trials_of(outcome), 'trial')} passed"
    if outcome.not_run:
        text += f" ({outcome.not_run:,} not run)"
    found = interval(outcome)
    return f"{text} {found}" if found else text


_AGAINST_HISTORY = {"worse": "worse", "cleared": "not worse", "undecided": "cannot tell", "go on": "not decided"}


def history_text(outcome: ScenarioOutcome) -> str | None:
    """`history 98/100: not worse`; None if the scenario is not tested against its history."""
    test, decision = outcome.entry.history, outcome.against_history
    if test is None or decision is None:
        return None
    return f"history {test.passed}/{test.total}: {_AGAINST_HISTORY[decision]}"


def not_counted_reason(outcome: ScenarioOutcome) -> str | None:
    """Why a scenario's verdict does not count in the run; None if it counts."""
    if outcome.skipped:
        reasons = outcome.verdict.failure_reasons
        return f"skipped: {outcome.entry.skip}" if outcome.entry.skip is not None else "; ".join(reasons)
    return f"xfail: {outcome.entry.xfail}" if outcome.xfailed else None


def is_failing(outcome: ScenarioOutcome) -> bool:
    """Whether the scenario counts against the run."""
    return not outcome.verdict.passed and not_counted_reason(outcome) is None


def failing_in_order(outcome: RunOutcome, *, untouched: bool = True) -> Iterator[ScenarioOutcome]:
    """The scenarios that count against the run, in the order of the report; `untouched`: also those not played."""
    found = filter(is_failing, outcome.scenarios)
    return found if untouched else (one for one in found if not one.is_untouched)


def failing(outcome: RunOutcome, *, most: int | None = None, untouched: bool = True) -> list[ScenarioOutcome]:
    """The scenarios that count against the run, worst first; `most` limits their number."""
    found = failing_in_order(outcome, untouched=untouched)
    return sorted(found, key=_how_bad) if most is None else nsmallest(most, found, key=_how_bad)


def _how_bad(outcome: ScenarioOutcome) -> tuple[bool, int, float, int]:
    return (
        not outcome.entry.gates.must_pass,
        _WORST.index(outcome.verdict.status),
        outcome.passed / max(trials_of(outcome), 1),
        outcome.entry.position,
    )


def counts_of(outcome: RunOutcome) -> ScenarioCounts:
    """How many scenarios passed, failed, were skipped and so on."""
    if outcome.counts is not None:
        return outcome.counts
    skipped = sum(one.skipped for one in outcome.scenarios)
    xfailed = sum(one.xfailed for one in outcome.scenarios)
    bad = sum(map(is_failing, outcome.scenarios))
    return ScenarioCounts(
        passed=len(outcome.scenarios) - skipped - xfailed - bad,
        failing=bad,
        untouched=sum(is_failing(one) and one.is_untouched for one in outcome.scenarios),
        skipped=skipped,
        xfailed=xfailed,
        suites=len({one.entry.key.suite for one in outcome.scenarios}),
    )


def scenario_counts_line(outcome: RunOutcome) -> str:
    """`2/3 scenarios passed, 1 skipped`."""
    counts = counts_of(outcome)
    text = f"{counts.passed:,}/{counted(counts.passed + counts.failing, 'scenario')} passed"
    skipped, foretold = counts.skipped, counts.xfailed
    return text + (f", {skipped:,} skipped" if skipped else "") + (f", {foretold:,} xfailed" if foretold else "")


def verdict_line(outcome: RunOutcome) -> str:
    """`PASS`, or `FAIL: ` with the reasons. Against a history: `NOT WORSE`, `REGRESSION`, `UNDECIDED`."""
    word = outcome.word or VERDICT_WORDS[outcome.verdict.status]
    return ": ".join(filter(None, (word, "; ".join(outcome.verdict.failure_reasons))))


def history_line(run: Run, outcome: RunOutcome) -> str | None:
    """What the test against the history could have found; None without such a test."""
    history, found = run.gates.history, outcome.against
    if history is None or found is None or not history.scenarios:
        return None
    tested = f"{counted(history.scenarios, 'scenario')} tested against {counted(len(history.runs), 'run')}"
    first = f"{found.first_passed} of the first {counted(found.first_total, 'trial')} passed"
    power = f"a drop of 40 points in one scenario is found {100 * (history.power or 0.0):.0f} % of the time"
    return f"{tested}: {first}, {found.first_expected:.1f} expected; {power}"


def run_facts(run: Run, totals: Totals) -> str:
    """The run's trials, time, cost, model calls and id."""
    took = (run.finished_at - run.started_at).total_seconds() * 1000 if run.finished_at else None
    trials = counted(totals.total_executions, "trial")
    if totals.not_run_count:
        trials += f" ({totals.not_run_count:,} not run)"
    facts = (trials, duration(took), money(totals.cost_usd), _model_facts(totals), f"run {run.id}")
    return ", ".join(filter(None, facts))


def _model_facts(totals: Totals) -> str | None:
    """Use by simulated users and judges: `12 model calls (3 more cached, 4,210 tokens, $0.0123)`; None if none."""
    if not totals.model_calls and not totals.cache_hits:
        return None
    about = [f"{totals.cache_hits:,} more cached"] if totals.cache_hits else []
    if totals.model_calls:
        tokens = totals.model_tokens
        about.append("tokens unknown" if tokens is None else counted(tokens, "token"))
        about.append(money(totals.model_cost_usd) or "cost unknown")
    return f"{counted(totals.model_calls, 'model call')} ({', '.join(about)})"


def gates_of(run: Run, totals: Totals) -> Iterator[Measure]:
    """The gates that are set for the run, and whether they passed."""
    if run.gates.cases_pass_threshold is not None and totals.cases_passed is not None:
        counts = f", {totals.passed_count:,}/{counted(totals.total_executions, 'trial')}"
        rate, threshold = totals.cases_pass_rate_pct, totals.cases_pass_threshold
        yield _gate("cases pass rate", rate, threshold, totals.cases_passed, counts=counts)
    if totals.metrics_passed is not None:
        score, threshold = totals.weighted_metrics_score_pct, totals.metrics_pass_threshold
        yield _gate("weighted metrics score", score, threshold, totals.metrics_passed)


def _gate(name: str, value: float | None, threshold: float | None, held: bool, *, counts: str = "") -> Measure:
    if value is None or threshold is None:
        return Measure(name=name, value="unknown" if value is None else f"{number(value)} %")
    shown = f"{number_beside(value, threshold)} %{counts}"
    return Measure(name=name, value=shown, threshold=exactly(threshold), held=held)


def invariant_line(rule: InvariantTotals) -> str:
    """`identity first: triggered 12 times in 40 trials, violated in 1`."""
    if not rule.trials:
        text = "not checked"
    elif rule.triggered is None:
        text = f"checked in {counted(rule.trials, 'trial')}"
    else:
        how_often = counted(rule.triggered, "time") if rule.triggered else "never"
        text = f"triggered {how_often} in {counted(rule.trials, 'trial')}"
    violated = f", violated in {rule.violated:,}" if rule.violated else ""
    exempt = f", {counted(len(rule.exempt), 'scenario')} exempt" if rule.exempt else ""
    return f"{rule.name}: {text}{violated}{exempt}"


_STOPS = {
    StopReason.GOAL_MET: "goal met",
    StopReason.USER_STOPPED: "goal NOT met",
    StopReason.ENDED_BY_TOOL: "ended by a tool",
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
    """`a reply` if nothing else was checked but rules of the suite, as in a scenario with only `input`; else None."""
    own = [result for result in trial.results if result.invariant is None]
    names = {check.name for result in own for check in result.checks}
    only_replies = names == {"output_produced"} and all(result.checks for result in own)
    rules = len(trial.results) - len(own)
    about = f"a reply and {counted(rules, 'invariant')}" if rules else "a reply"
    return about if only_replies and trial.judgement is None else None


def explain(trial: Trial) -> list[str]:
    """Every reason why the trial did not pass. A text of several lines is one entry."""
    lines = [] if trial.error is None else list(_around_error(trial.error))
    failed = [result for result in trial.results if not result.passed]
    for result in failed:
        lines.extend(_explain_result(result, known=trial.error))
    if trial.error is None and _returned_none(trial, failed):
        lines.append("the agent returned None; if it is a Python function, is a `return` missing?")
    lines += [reason for reason in trial.failure_reasons if not _is_told(reason, failed, trial.error)]
    return list(dict.fromkeys(lines))  # several checks may have the same hint


def _returned_none(trial: Trial, failed: Sequence[EvalResult]) -> bool:
    """Whether a reply is missing, not empty, and this is why a check failed."""
    turns = {turn.index: turn for turn in trial.transcript.turns}
    silent = [result for result in failed if any(check.name == "output_produced" for check in result.checks)]
    at = [max(turns, default=None) if result.turn is None else result.turn for result in silent]
    return any(turns[index].reply is None for index in at if index in turns)


def explain_error(error: UniqueError) -> list[str]:
    """`[high] Label (2 occurrences)`, its explanation, and examples."""
    lines = [f"[{error.severity}] {error.label} ({counted(error.occurrences, 'occurrence')})"]
    if error.explanation:
        lines.append(f"  {error.explanation}")
    seen = [f"trial-{trial + 1}" + ("" if turn is None else f" turn {turn + 1}") for trial, turn in error.examples]
    more = f" and {len(seen) - 10:,} more" if len(seen) > 10 else ""
    return [*lines, f"  Examples: {', '.join(seen[:10])}{more}"] if seen else lines


def measures_of(outcome: ScenarioOutcome) -> Iterator[Measure]:
    """Each metric's average, and its threshold if it has one."""
    averages = dict(outcome.metric_averages or {})
    thresholds = dict(outcome.entry.gates.metric_thresholds or {})
    for metric in [*averages, *(name for name in thresholds if name not in averages)]:
        if metric not in thresholds:
            yield Measure(name=metric, value=number(averages[metric]))
            continue
        threshold = thresholds[metric]
        average = number_beside(averages[metric], threshold) if metric in averages else "no score"
        # The verdict's reasons say which thresholds were missed; a report does not decide it again.
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
    """Calls that were missing, extra, out of order or forbidden, then the actual and the expected calls.

    Only the reasoning says which arguments differ. Without it, a call with other arguments would look missing.
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
    """Whether a reason of the verdict only repeats a result or the error."""
    if error is not None and reason.endswith(error.message):
        return True
    return any(reason.endswith(result.reasoning or f"{result.evaluator}: ") for result in failed)

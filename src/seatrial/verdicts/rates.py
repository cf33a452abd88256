"""The verdict on a pass rate: by share, by a gate with confidence, or by the sequential test."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING

from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Decision, Gates, HistoryTest, ScenarioEntry, Status, Trial, TrialSummary, Verdict
from seatrial.model.struct import Struct

from . import reasons

if TYPE_CHECKING:
    # Most runs use neither, and the imports take milliseconds.
    from seatrial.statistics.gates import GateVerdict
    from seatrial.statistics.history_gate import ScenarioResult
    from seatrial.statistics.sequential import SequentialTest


class RateDecision(Struct, frozen=True, kw_only=True):
    verdict: Verdict
    notes: tuple[str, ...] = ()
    against_history: Decision | None = None


def decide_rate(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> RateDecision:
    """The verdict on the pass rate alone, by the scenario's rule. Give the trials in index order."""
    if entry.history is not None:
        return _decide_against_history(entry, entry.history, trials)
    if entry.sequential is not None:
        return _decide_sequentially(entry, trials)
    if entry.gates.pass_rate is None:
        return _decide_share(entry, trials)
    gate = _decide_gate(entry, trials)
    # Next to a gate, a threshold of 1 is the default and not a choice: with it no gate could tolerate a failure.
    if entry.gates.threshold >= 1.0 or not gate.verdict.passed:
        return gate
    share = _decide_share(entry, trials)
    return gate if share.verdict.passed else share


def decide_share(*, passed: int, errored: int, missing: int, total: int, threshold: float) -> Status:
    """Passed if the share reaches the threshold; else errored or not run if such trials could change it; else failed.

    A threshold of 0 still needs one trial with an answer.
    """
    if reaches(passed, total, threshold) and errored + missing < total:
        return Status.PASSED
    if errored and reaches(passed + errored, total, threshold):
        return Status.ERRORED
    if missing and reaches(passed + errored + missing, total, threshold):
        return Status.NOT_RUN
    return Status.FAILED


def can_still_pass(entry: ScenarioEntry, misses: int) -> bool:
    """Whether the scenario can still pass after this number of trials did not pass, if all others pass."""
    best = max(entry.trials - misses, 0)
    gates = entry.gates
    if gates.pass_rate is None:
        return reaches(best, entry.trials, gates.threshold)
    return _gate(best, entry.trials, gates).decision == "pass"


def _decide_share(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> RateDecision:
    threshold = entry.gates.threshold
    counts = _count(entry, trials)
    status = decide_share(
        passed=counts.passed, errored=counts.errored, missing=counts.missing, total=counts.total, threshold=threshold
    )
    if status is Status.PASSED:
        notes = [reasons.errors_tolerated(counts.errored, threshold)] if counts.errored else []
        if counts.missing:
            notes.append(reasons.trials_not_run(counts.missing))
        return RateDecision(verdict=Verdict(status=status), notes=tuple(notes))
    if counts.total == 1 and trials:
        return RateDecision(verdict=Verdict(status=status, failure_reasons=trials[0].failure_reasons))
    why = reasons.trials_passed(counts.passed, counts.total, threshold)
    return RateDecision(verdict=Verdict(status=status, failure_reasons=(why, *_also(counts))))


def _decide_gate(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> RateDecision:
    """The verdict by the exact one-sided bound; errored and missing trials count as not passed."""
    gates = entry.gates
    counts = _count(entry, trials)
    ran = len(trials)
    assert gates.pass_rate is not None
    assert gates.confidence is not None
    if _gate(counts.passed, counts.total, gates).decision == "pass":
        return RateDecision(verdict=Verdict(status=Status.PASSED), notes=_also(counts))
    gate = _gate(counts.passed, ran, gates)
    without_errors = _gate(counts.passed + counts.errored, ran, gates).decision
    if gate.decision == "fail" and without_errors == "fail":
        status = Status.FAILED
        why = reasons.rate_below(counts.passed, ran, gates.pass_rate, gates.confidence)
    else:
        status = Status.ERRORED if without_errors != gate.decision else Status.INCONCLUSIVE
        if counts.missing and _gate(counts.total - counts.failed, counts.total, gates).decision == "pass":
            status = Status.NOT_RUN
        why = reasons.rate_not_shown(gates, passed=counts.passed, ran=ran, more=gate.more_clean_to_pass)
    return RateDecision(verdict=Verdict(status=status, failure_reasons=(why, *_also(counts))))


def _gate(passed: int, total: int, gates: Gates) -> "GateVerdict":
    assert gates.pass_rate is not None
    assert gates.confidence is not None
    from seatrial.statistics.gates import gate_verdict

    return gate_verdict(passed, total, threshold=gates.pass_rate, confidence=gates.confidence)


class _Counts(Struct, frozen=True, kw_only=True):
    passed: int
    failed: int
    errored: int
    missing: int
    total: int


def _count(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> _Counts:
    total = max(entry.trials, len(trials))
    passed = sum(trial.status is Status.PASSED for trial in trials)
    errored = sum(trial.status is Status.ERRORED for trial in trials)
    return _Counts(
        passed=passed,
        failed=len(trials) - passed - errored,
        errored=errored,
        missing=total - len(trials),
        total=total,
    )


def _also(counts: _Counts) -> tuple[str, ...]:
    errored = (reasons.trials_errored(counts.errored),) if counts.errored else ()
    missing = (reasons.trials_not_run(counts.missing),) if counts.missing else ()
    return (*errored, *missing)


def _decide_sequentially(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> RateDecision:
    assert entry.sequential is not None
    test = read_sequential_test(entry.sequential)
    in_order = [trial for place, trial in enumerate(trials) if trial.index == place]
    from seatrial.statistics.sequential import decide_sequentially

    decision = decide_sequentially(map(answer_of, in_order), test)
    passed, used = decision.passed, decision.trials_used
    left_out = (reasons.trials_errored(decision.left_out),) if decision.left_out else ()
    if decision.verdict == "pass":
        return RateDecision(verdict=Verdict(status=Status.PASSED), notes=left_out)
    if decision.verdict == "fail":
        status, why = Status.FAILED, reasons.sequential_failed(passed, used, test.good)
    elif decision.verdict == "inconclusive":
        status, why = Status.INCONCLUSIVE, reasons.sequential_undecided(passed, used)
    elif decision.would_pass:
        status, why = Status.INCONCLUSIVE, reasons.sequential_in_doubt(passed, used)
    else:
        status = Status.ERRORED if left_out else Status.NOT_RUN
        why = reasons.sequential_unfinished(passed, used, test.max_trials)
    return RateDecision(verdict=Verdict(status=status, failure_reasons=(why, *left_out)))


def decide_history(test: HistoryTest, answers: Iterable[bool | None]) -> "ScenarioResult":
    """The decision of a scenario's test against its history. Give the answers in index order."""
    from seatrial.statistics.history_gate import History, HistoryGate, decide_scenario

    return decide_scenario(
        answers,
        History(passed=test.passed, total=test.total),
        test.boundary,
        gate=HistoryGate(drop=test.drop, beta=test.beta, max_trials=test.max_trials),
    )


def _decide_against_history(entry: ScenarioEntry, test: HistoryTest, trials: Sequence[TrialSummary]) -> RateDecision:
    in_order = [trial for place, trial in enumerate(trials) if trial.index == place]
    found = decide_history(test, map(answer_of, in_order))
    passed, used = found.passed, found.trials
    left_out = (reasons.trials_errored(found.left_out),) if found.left_out else ()
    if found.decision == "cleared":
        verdict = Verdict(status=Status.PASSED)
        return RateDecision(verdict=verdict, notes=left_out, against_history="cleared")
    before = (test.passed, test.total)
    decision: Decision = found.decision
    if decision == "worse":
        status, why = Status.FAILED, reasons.worse_than_history(passed, used, before)
    elif decision == "undecided" or (len(trials) >= entry.trials and not left_out):
        decision = "undecided"
        status, why = Status.INCONCLUSIVE, reasons.history_undecided(passed, used, before)
    else:
        status = Status.ERRORED if left_out else Status.NOT_RUN
        why = reasons.sequential_unfinished(passed, used, test.max_trials)
    return RateDecision(verdict=Verdict(status=status, failure_reasons=(why, *left_out)), against_history=decision)


def read_sequential_test(settings: Mapping[str, float]) -> "SequentialTest":
    """The sequential test that is stored with the run; runs of earlier versions have no `rule` and used Wald's test."""
    from seatrial.statistics.sequential import SequentialTest

    return SequentialTest(
        good=settings["good"],
        bad=settings["bad"],
        alpha=settings["alpha"],
        beta=settings["beta"],
        max_trials=int(settings["max_trials"]),
        optimal=settings.get("rule", 1) >= 2,
    )


_AGENTS_OWN = (ErrorKind.AGENT, ErrorKind.LIMIT)


def is_agents_error(kind: ErrorKind | None, *, counts_as_failed: bool) -> bool:
    """Whether an error counts against the agent; otherwise it is an instrument error."""
    return kind in _AGENTS_OWN or counts_as_failed


def answer_of(trial: Trial | TrialSummary) -> bool | None:
    """Whether the agent passed the trial; None for an instrument error.

    Rates, intervals, sequential tests and comparisons all count trials with this function.
    """
    if trial.status is Status.PASSED:
        return True
    agents = is_agents_error(trial.error_kind, counts_as_failed=trial.counts_as_failed)
    return False if trial.status is Status.FAILED or agents else None


_ROUNDING = 1e-9


def reaches(passed: int, total: int, threshold: float) -> bool:
    """Whether passed/total reaches the threshold, compared in integers.

    4 of 5 reach 0.8 and 2 of 3 reach 2/3, although neither is exact in binary; 2 of 3 do not reach 0.67.
    """
    return total > 0 and passed >= ceil(threshold * total - _ROUNDING)

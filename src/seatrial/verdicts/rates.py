"""Whether enough trials passed: by share, by gate with confidence, or by sequential test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.statistics import SequentialTest, decide_sequentially, gate_verdict
from seatrial.vocabulary.conversation import ErrorKind
from seatrial.vocabulary.run import ScenarioEntry, Status, TrialSummary, Verdict

from . import reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDecision:
    verdict: Verdict
    notes: tuple[str, ...] = ()


def decide_rate(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> RateDecision:
    """The verdict on the trials' pass rate alone, by the rule that the scenario names. Trials in index order."""
    if entry.sequential is not None:
        return RateDecision(verdict=_decide_sequentially(entry, trials))
    share = _decide_share(entry, trials)
    if entry.gates.pass_rate is None or share.verdict.status is Status.FAILED:
        return share
    gate = _decide_gate(entry, trials)
    return share if gate.passed else RateDecision(verdict=gate, notes=share.notes)


def _decide_share(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> RateDecision:
    threshold = entry.gates.threshold
    total = max(entry.trials, len(trials))
    passed = sum(trial.status is Status.PASSED for trial in trials)
    errored = sum(trial.status is Status.ERRORED for trial in trials)
    missing = total - len(trials)
    if reaches(passed, total, threshold):
        notes = (reasons.errors_tolerated(errored, threshold),) if errored else ()
        return RateDecision(verdict=Verdict(status=Status.PASSED), notes=notes)
    if errored and reaches(passed + errored, total, threshold):
        status = Status.ERRORED
    elif missing and reaches(passed + errored + missing, total, threshold):
        status = Status.NOT_RUN
    else:
        status = Status.FAILED
    if total == 1 and trials:
        return RateDecision(verdict=Verdict(status=status, failure_reasons=trials[0].failure_reasons))
    why = [reasons.trials_passed(passed, total, threshold)]
    if errored:
        why.append(reasons.trials_errored(errored))
    if missing:
        why.append(reasons.trials_not_run(missing))
    return RateDecision(verdict=Verdict(status=status, failure_reasons=tuple(why)))


def _decide_gate(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> Verdict:
    """By one-sided exact bound; instrument errors count against."""
    pass_rate, confidence = entry.gates.pass_rate, entry.gates.confidence
    assert pass_rate is not None
    assert confidence is not None
    passed = sum(trial.status is Status.PASSED for trial in trials)
    gate = gate_verdict(passed, len(trials), threshold=pass_rate, confidence=confidence)
    if gate.decision == "pass":
        return Verdict(status=Status.PASSED)
    if gate.decision == "fail":
        why = reasons.rate_below(passed, len(trials), pass_rate, confidence)
        return Verdict(status=Status.FAILED, failure_reasons=(why,))
    needed = None if gate.more_clean_to_pass is None else len(trials) + gate.more_clean_to_pass
    why = reasons.rate_not_shown(pass_rate, confidence, needed, len(trials))
    return Verdict(status=Status.INCONCLUSIVE, failure_reasons=(why,))


def _decide_sequentially(entry: ScenarioEntry, trials: Sequence[TrialSummary]) -> Verdict:
    assert entry.sequential is not None
    test = read_sequential_test(entry.sequential)
    in_order = [trial for place, trial in enumerate(trials) if trial.index == place]
    decision = decide_sequentially((answer_of(trial.status, trial.error_kind) for trial in in_order), test)
    if decision.verdict == "pass":
        return Verdict(status=Status.PASSED)
    passed, used = decision.passed, decision.trials_used
    if decision.verdict == "fail":
        why = reasons.sequential_failed(passed, used, test.bad)
        return Verdict(status=Status.FAILED, failure_reasons=(why,))
    if decision.verdict == "inconclusive":
        return Verdict(status=Status.INCONCLUSIVE, failure_reasons=(reasons.sequential_undecided(passed, used),))
    if decision.left_out:
        return Verdict(status=Status.ERRORED, failure_reasons=(reasons.trials_errored(decision.left_out),))
    why = reasons.sequential_unfinished(passed, used, test.max_trials)
    return Verdict(status=Status.NOT_RUN, failure_reasons=(why,))


def read_sequential_test(settings: Mapping[str, float]) -> SequentialTest:
    """The test as it was stored with the run."""
    return SequentialTest(
        good=settings["good"],
        bad=settings["bad"],
        alpha=settings["alpha"],
        beta=settings["beta"],
        max_trials=int(settings["max_trials"]),
    )


_AGENTS_OWN = (ErrorKind.AGENT, ErrorKind.LIMIT)


def answer_of(status: Status, error_kind: ErrorKind | None) -> bool | None:
    """Whether the agent passed a trial; None where an instrument failed and nobody knows."""
    if status is Status.PASSED:
        return True
    if status is Status.FAILED or error_kind in _AGENTS_OWN:
        return False
    return None


_BILLION = 10**9


def reaches(passed: int, total: int, threshold: float) -> bool:
    """Whether passed/total reaches the threshold: in integers, exact for thresholds of up to nine decimals."""
    return total > 0 and passed * _BILLION >= round(threshold * _BILLION) * total

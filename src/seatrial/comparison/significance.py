"""The tests of a comparison: the word of each scenario, and the evidence for the suite.

Each scenario gets one word from its pass counts:

- worse, better: the change is larger than noise (Fisher's exact test, adjusted for the number of scenarios: at most 5 %
  of the flags are false on average).
- cannot tell: it mostly passed before and does not now, and even if every trial of the candidate had failed, the change
  would not be larger than noise. More trials decide it.
- within noise: the counts differ, and noise explains it. same: the rates are equal.

The suite is worse if the exact test of all scenarios together has a mid-p value of at most 5 %. The mid-p value counts
the probability of the observed result half: the plain exact test is conservative. Simulated false alarms of the suite
test are at most 5.6 %, and those of suite and scenarios together at most 8 % (benchmarks/gate.py).

Only trials whose number was fixed in advance count (`aggregates.fixed_trials`).
"""

from collections.abc import Sequence
from dataclasses import replace as replace_counts
from math import fsum
from typing import Final

from msgspec.structs import replace

from seatrial.model.comparison import Evidence, Regression, RegressionReason, ScenarioChange, Word
from seatrial.model.run import ScenarioKey, TrialSummary
from seatrial.statistics.distributions import reaches
from seatrial.statistics.significance import (
    PairedValues,
    ScenarioCounts,
    fisher_test,
    flag_scenarios,
    flag_strongest,
    ratio_test,
    score_test,
    smallest_p_value,
    stratified_test,
)

from . import messages
from .aggregates import LATENCY_NOISE_MS, RunSide
from .planning import ALPHA, visible_drop

Q: Final = 0.05
"""The share of false flags among the scenarios called worse, on average."""
_MOST_PLANNED: Final = 100


def counts_of(change: ScenarioChange) -> ScenarioCounts | None:
    """Passed and tested trials of both runs, the baseline's with the pooled ones; None if a run has none."""
    base, candidate = change.base, change.candidate
    if base is None or candidate is None:
        return None
    (base_passed, base_total), (passed, total) = base.counts, candidate.counts
    if not base_total + change.pooled or not total:
        return None
    return ScenarioCounts(
        base_passed=base_passed + change.pooled_passed,
        base_total=base_total + change.pooled,
        candidate_passed=passed,
        candidate_total=total,
    )


def p_values(counts: ScenarioCounts) -> tuple[float, float]:
    """The exact p-values for worse and better."""
    return fisher_test(counts), fisher_test(counts, direction="improvement")


def with_tests(changes: Sequence[ScenarioChange]) -> list[ScenarioChange]:
    """The changes with their p-values and words."""
    tested = [(place, counts) for place, change in enumerate(changes) if (counts := counts_of(change)) is not None]
    every = [counts for _, counts in tested]
    better = flag_scenarios(every, direction="improvement", q=Q)
    words = find_words(every)
    made = list(changes)
    for (place, one), word, is_better in zip(tested, words, better, strict=True):
        p_worse, p_better = p_values(one)
        word = "better" if is_better and word != "worse" else word
        beyond = word if word in ("worse", "better") else None
        luck = messages.luck(p_worse) if word == "within noise" and p_worse < p_better else ""
        made[place] = replace(
            made[place], p_worse=p_worse, p_better=p_better, beyond_noise=beyond, word=word, luck=luck
        )
    return made


def find_words(scenarios: Sequence[ScenarioCounts]) -> list[Word]:
    """The word of each scenario, except that improvements are only within noise."""
    p_worse = [fisher_test(one) for one in scenarios]
    smallest = [smallest_p_value(one) for one in scenarios]
    worse = flag_strongest(p_worse, smallest, q=Q)
    words: list[Word] = []
    for place, counts in enumerate(scenarios):
        if worse[place]:
            words.append("worse")
        elif not counts.difference:
            words.append("same")
        elif _failed_now(counts) and not _could_be_worse(place, counts, p_worse, smallest):
            words.append("cannot tell")
        else:
            words.append("within noise")
    return words


def _failed_now(counts: ScenarioCounts) -> bool:
    """Whether it passed in most trials before and does not now."""
    return 2 * counts.base_passed > counts.base_total and 2 * counts.candidate_passed <= counts.candidate_total


def _could_be_worse(place: int, counts: ScenarioCounts, p_worse: list[float], smallest: list[float]) -> bool:
    """Whether it would be flagged if every trial of the candidate had failed."""
    broken = replace_counts(counts, candidate_passed=0)
    p_values, lowest = list(p_worse), list(smallest)
    p_values[place], lowest[place] = fisher_test(broken), smallest_p_value(broken)
    return flag_strongest(p_values, lowest, q=Q)[place]


def trials_to_decide(scenarios: Sequence[ScenarioCounts], *, lower: int) -> int:
    """Trials in each run with which a complete break of these scenarios is larger than noise.

    `lower`: the number of scenarios that passed less often, for which the tests are adjusted.
    """
    return max(_trials_to_decide(one, lower) for one in scenarios)


def _trials_to_decide(counts: ScenarioCounts, lower: int) -> int:
    rate = counts.base_passed / counts.base_total
    for trials in range(min(counts.base_total, counts.candidate_total) + 1, _MOST_PLANNED):
        passed = round(rate * trials)
        broken = ScenarioCounts(base_passed=passed, base_total=trials, candidate_passed=0, candidate_total=trials)
        if reaches(fisher_test(broken) * lower, Q):
            return trials
    return _MOST_PLANNED


def make_evidence(changes: Sequence[ScenarioChange], *, pooled_runs: tuple[str, ...]) -> Evidence:
    """The evidence of tested changes (`with_tests`)."""
    shared = [change for change in changes if change.base is not None and change.candidate is not None]
    pairs = [(change, counts) for change in shared if (counts := counts_of(change)) is not None]
    untested = tuple(change.key for change in shared if counts_of(change) is None)
    left_out = sum(side.not_judged for one in shared for side in (one.base, one.candidate) if side is not None)
    if not pairs:
        return Evidence(
            sentence=messages.NO_ANSWERS, testable=False, untested=untested, left_out=left_out, pooled_runs=pooled_runs
        )
    tested = [counts for _, counts in pairs]
    test = stratified_test(tested)
    unseen = visible_drop(tested)
    worse, cannot_tell = _keys(changes, "worse"), _keys(changes, "cannot tell")
    suite = reaches(test.mid_p_regression, ALPHA)
    return Evidence(
        sentence=messages.summary(pairs, worse, cannot_tell, suite_p=test.mid_p_regression if suite else None)
        + f" {messages.noticeable(pairs, unseen)}",
        details=messages.details(pairs, untested=untested, left_out=left_out, pooled_runs=pooled_runs),
        numbers=messages.numbers(test),
        regression=bool(worse) or suite,
        p_worse=test.p_regression,
        p_better=test.p_improvement,
        mid_p_worse=test.mid_p_regression,
        expected=test.expected,
        observed=test.observed,
        worse=worse,
        better=_keys(changes, "better"),
        cannot_tell=cannot_tell,
        untested=untested,
        left_out=left_out,
        unseen_drop=unseen,
        pooled_runs=pooled_runs,
    )


def _keys(changes: Sequence[ScenarioChange], word: Word) -> tuple[ScenarioKey, ...]:
    return tuple(change.key for change in changes if change.word == word)


def find_dependence(base: RunSide, candidate: RunSide) -> str | None:
    """Why the trials of the two runs are not independent; None if they are."""
    for side in (base, candidate):
        if side.run.replayed:
            return messages.replayed(side.run.id)
    return messages.regraded() if base.conversations == candidate.conversations else None


def measure_values(evidence: Evidence, base: RunSide, candidate: RunSide) -> Evidence:
    """The evidence with the tests of score, latency and cost, over the scenarios that both runs have."""
    before, now = base.trials(), candidate.trials()
    pairs = [(before[key], trials) for key, trials in now.items() if key in before]
    scores = [(_scores(old), _scores(new)) for old, new in pairs]
    differences = [fsum(new) / len(new) - fsum(old) / len(old) for old, new in scores if old and new]
    latency = ratio_test([_values(old, new, "median_latency_ms") for old, new in pairs], offset=LATENCY_NOISE_MS)
    cost = ratio_test([_values(old, new, "cost_usd") for old, new in pairs])
    return replace(evidence, p_score=score_test(differences).p_lower, p_latency=latency.p_higher, p_cost=cost.p_higher)


def _scores(trials: Sequence[TrialSummary]) -> list[float]:
    return [trial.overall_score for trial in trials if trial.overall_score is not None]


def _values(base: Sequence[TrialSummary], candidate: Sequence[TrialSummary], name: str) -> PairedValues:
    before, now = (
        tuple(value for trial in side if (value := getattr(trial, name)) is not None) for side in (base, candidate)
    )
    return PairedValues(base=before, candidate=now)


def with_noise(regressions: Sequence[Regression], evidence: Evidence) -> tuple[Regression, ...]:
    """The exceeded limits with whether the change is larger than noise."""
    p_of = {
        RegressionReason.PASS_RATE: evidence.mid_p_worse,
        RegressionReason.AVG_SCORE: evidence.p_score,
        RegressionReason.AVG_LATENCY: evidence.p_latency,
        RegressionReason.AVG_COST: evidence.p_cost,
    }
    return tuple(
        replace(one, beyond_noise=None if (p := p_of[one.reason]) is None else reaches(p, ALPHA)) for one in regressions
    )

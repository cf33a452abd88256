"""From a scenario's trials to its verdict: shares, gates, sequential tests, metrics, severities, xfail."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.conversation import ErrorKind
from seatrial.model.results import MetricScore, Severity
from seatrial.model.run import Gates, ScenarioEntry, ScenarioKey, ScenarioOutcome, Status, TrialSummary
from seatrial.statistics.intervals import always_valid_interval
from seatrial.verdicts.rates import can_still_pass, reaches
from seatrial.verdicts.scenario import decide_scenario

KEY = ScenarioKey("suite", "scenario")
AUTO = {"good": 0.9, "bad": 0.7, "alpha": 0.05, "beta": 0.05, "max_trials": 60, "rule": 2}


def a_trial(index: int, mark: str, **fields: Any) -> TrialSummary:
    """`.` passed, `F` failed, `A` errored by the agent, `L` by a limit, `J` by the judge, `E` by an evaluator."""
    kinds = {"A": ErrorKind.AGENT, "L": ErrorKind.LIMIT, "J": ErrorKind.JUDGE, "E": ErrorKind.EVALUATOR}
    status = {".": Status.PASSED, "F": Status.FAILED}.get(mark, Status.ERRORED)
    why = () if mark == "." else (f"reason {index}",)
    defaults: dict[str, Any] = {"failure_reasons": why, "turns": 1, "error_kind": kinds.get(mark)}
    return TrialSummary(
        key=KEY, index=index, status=status, started_at=datetime(2026, 1, 1, tzinfo=UTC), **{**defaults, **fields}
    )


def decide(marks: str | Sequence[TrialSummary], *, trials: int | None = None, **fields: Any) -> ScenarioOutcome:
    played = [a_trial(i, mark) for i, mark in enumerate(marks)] if isinstance(marks, str) else list(marks)
    entry_fields = {name: fields.pop(name) for name in ("xfail", "skip", "sequential") if name in fields}
    entry = ScenarioEntry(
        key=KEY,
        position=0,
        fingerprint="f",
        trials=len(played) if trials is None else trials,
        gates=Gates(**fields),
        **entry_fields,
    )
    return decide_scenario(entry, played)


# Shares.


@pytest.mark.parametrize(
    ("passed", "total", "threshold", "enough"),
    [
        (2, 3, 0.67, False),
        (2, 3, 0.66, True),
        (4, 5, 0.8, True),
        (3, 5, 0.6, True),
        (7, 10, 0.7, True),
        (29, 100, 0.29, True),
        (1, 3, 1 / 3, True),
        (2, 3, 2 / 3, True),
        (0, 5, 0.0, True),
        (0, 0, 0.0, False),
        (9_999, 10_000, 1.0, False),
        (333_333_333, 10**9, 1 / 3, False),
    ],
)
def test_rates_are_compared_exactly(passed: int, total: int, threshold: float, enough: bool) -> None:
    assert reaches(passed, total, threshold) is enough


def test_a_scenario_passes_when_all_its_trials_passed() -> None:
    outcome = decide("...")
    assert (outcome.verdict.status, outcome.verdict.failure_reasons) == (Status.PASSED, ())
    assert (outcome.passed, outcome.failed, outcome.errored, outcome.not_run) == (3, 0, 0, 0)


def test_a_scenario_passes_when_the_share_reaches_the_threshold() -> None:
    assert decide("....F", threshold=0.8).verdict.passed


def test_a_scenario_below_the_threshold_fails_with_the_numbers() -> None:
    outcome = decide("...FF", threshold=0.8)
    assert outcome.verdict.status is Status.FAILED
    assert outcome.verdict.failure_reasons == ("3/5 trials passed (threshold: 0.8)",)


def test_a_single_trial_that_failed_gives_its_own_reasons() -> None:
    assert decide("F").verdict.failure_reasons == ("reason 0",)


def test_it_is_errored_where_the_errored_trials_alone_could_change_the_outcome() -> None:
    outcome = decide("..A")
    assert outcome.verdict.status is Status.ERRORED
    assert outcome.verdict.failure_reasons == ("2/3 trials passed (threshold: 1.0)", "1 trial errored")


def test_it_is_failed_where_the_errored_trials_could_change_nothing() -> None:
    outcome = decide(".FA")
    assert outcome.verdict.status is Status.FAILED
    assert outcome.verdict.failure_reasons == ("1/3 trials passed (threshold: 1.0)", "1 trial errored")


def test_errors_that_are_tolerated_are_told() -> None:
    outcome = decide("....J", threshold=0.8)
    assert outcome.verdict.passed
    assert outcome.notes == ("1 errored trial tolerated (threshold: 0.8)",)


def test_trials_that_were_not_run_keep_it_from_passing() -> None:
    outcome = decide("..", trials=3)
    assert outcome.verdict.status is Status.NOT_RUN
    assert outcome.verdict.failure_reasons == ("2/3 trials passed (threshold: 1.0)", "1 trial not run")
    assert outcome.not_run == 1


def test_it_is_failed_where_the_trials_that_were_not_run_could_change_nothing() -> None:
    assert decide(".F", trials=3).verdict.status is Status.FAILED


def test_it_passes_without_the_trials_that_could_change_nothing_and_says_so() -> None:
    outcome = decide("...", trials=5, threshold=0.6)
    assert outcome.verdict.passed
    assert outcome.notes == ("2 trials not run",)


def test_without_trials_nothing_was_run() -> None:
    outcome = decide("", trials=3)
    assert (outcome.verdict.status, outcome.verdict.failure_reasons) == (Status.NOT_RUN, ("nothing was run",))
    assert outcome.not_run == 3


def test_a_skipped_scenario_is_told_with_its_reason() -> None:
    outcome = decide("", trials=3, skip="not yet")
    assert outcome.skipped
    assert (outcome.verdict.status, outcome.verdict.failure_reasons) == (Status.NOT_RUN, ("skipped: not yet",))


def test_the_order_of_the_rows_does_not_matter() -> None:
    rows = [a_trial(i, mark) for i, mark in enumerate("..F.")]
    assert decide(rows) == decide(list(reversed(rows)))


@given(marks=st.text("FAJL", min_size=1, max_size=6), threshold=st.floats(0.01, 1.0))
def test_no_threshold_above_zero_passes_without_a_passed_trial(marks: str, threshold: float) -> None:
    assert not decide(marks, threshold=threshold).verdict.passed


@given(marks=st.text(".FAJ", min_size=1, max_size=8), missing=st.integers(0, 3), threshold=st.floats(0.01, 1.0))
def test_errored_means_that_passes_in_place_of_errors_would_pass(marks: str, missing: int, threshold: float) -> None:
    trials = len(marks) + missing
    outcome = decide(marks, trials=trials, threshold=threshold)
    mended = decide(marks.replace("A", ".").replace("J", "."), trials=trials, threshold=threshold)
    assert (outcome.verdict.status in (Status.ERRORED, Status.PASSED)) is mended.verdict.passed


# Intervals.


def test_the_interval_leaves_out_what_the_instruments_could_not_answer() -> None:
    with_errors, without = decide("..FJE"), decide("..F")
    assert with_errors.interval == without.interval
    assert decide("..FA").interval != without.interval
    assert decide("JJ").interval is None


# Gates.


def test_a_gate_that_is_shown_passes() -> None:
    assert decide("." * 29, pass_rate=0.9, confidence=0.95).verdict.passed


def test_a_gate_tolerates_failures_where_enough_trials_show_the_rate() -> None:
    assert decide("." * 60 + "F", pass_rate=0.9, confidence=0.95).verdict.passed


def test_a_gate_that_cannot_be_decided_says_how_many_trials_it_needs() -> None:
    outcome = decide(".....", pass_rate=0.9, confidence=0.95)
    assert outcome.verdict.status is Status.INCONCLUSIVE
    assert outcome.verdict.failure_reasons == (
        "pass rate 0.9 is not shown at 95 % confidence: 29 clean trials are needed, you ran 5",
    )


def test_a_gate_that_cannot_be_decided_after_a_failure_says_how_many_more_it_needs() -> None:
    outcome = decide("....F", pass_rate=0.9, confidence=0.95)
    assert outcome.verdict.failure_reasons == (
        "pass rate 0.9 is not shown at 95 % confidence: 4/5 trials passed, 41 more without a failure would show it",
    )


def test_a_gate_that_is_refuted_fails() -> None:
    outcome = decide("FFFFF", pass_rate=0.9, confidence=0.95)
    assert outcome.verdict.status is Status.FAILED
    assert outcome.verdict.failure_reasons == ("0/5 trials passed: below 0.9 at 95 % confidence",)


def test_a_gate_counts_errors_of_instruments_against_but_does_not_blame_the_agent() -> None:
    outcome = decide("." * 28 + "J", pass_rate=0.9, confidence=0.95)
    assert outcome.verdict.status is Status.ERRORED
    assert "1 trial errored" in outcome.verdict.failure_reasons
    assert decide("JJJJJ", pass_rate=0.9, confidence=0.95).verdict.status is Status.ERRORED


def test_a_gate_counts_trials_that_were_not_run_against() -> None:
    assert decide("." * 29, trials=40, pass_rate=0.9, confidence=0.95).verdict.status is Status.NOT_RUN
    assert decide("F" * 5, trials=29, pass_rate=0.9, confidence=0.95).verdict.status is Status.FAILED


def test_a_threshold_below_one_holds_beside_a_gate() -> None:
    marks = "." * 60 + "F"
    assert decide(marks, pass_rate=0.9, confidence=0.95, threshold=0.95).verdict.passed
    assert decide(marks, pass_rate=0.9, confidence=0.95, threshold=0.99).verdict.status is Status.FAILED


def test_a_gate_can_still_be_passed_as_long_as_enough_trials_are_left() -> None:
    entry = ScenarioEntry(key=KEY, position=0, fingerprint="f", trials=50, gates=Gates(pass_rate=0.9, confidence=0.95))
    assert [can_still_pass(entry, misses) for misses in (0, 1, 2)] == [True, True, False]


# Sequential tests.


def test_a_sequential_test_passes_fails_or_goes_on() -> None:
    assert decide("." * 12, trials=60, sequential=AUTO).verdict.passed
    failed = decide("FFF", trials=60, sequential=AUTO)
    assert failed.verdict.status is Status.FAILED
    assert failed.verdict.failure_reasons == ("0/3 trials passed (0 %): the pass rate is below the required 90 %",)
    assert failed.not_run == 0
    unfinished = decide("...", trials=60, sequential=AUTO)
    assert unfinished.verdict.status is Status.NOT_RUN
    assert unfinished.verdict.failure_reasons == (
        "3/3 trials passed: undecided so far, it stops after at most 57 more",
    )


def test_a_sequential_test_leaves_out_instrument_errors_and_tells_of_them() -> None:
    outcome = decide("J" + "." * 19, trials=60, sequential=AUTO)
    assert (outcome.verdict.passed, outcome.notes) == (True, ("1 trial errored",))
    assert decide("JJJ", trials=60, sequential=AUTO).verdict.status is Status.ERRORED


def test_a_sequential_pass_that_instrument_errors_could_have_undone_is_inconclusive() -> None:
    assert decide("." * 12, trials=60, sequential=AUTO).verdict.passed
    outcome = decide("J" + "." * 18, trials=60, sequential=AUTO)
    assert outcome.verdict.status is Status.INCONCLUSIVE
    assert outcome.verdict.failure_reasons == (
        "18/18 trials passed: not enough if the trials with instrument errors had failed",
        "1 trial errored",
    )
    assert decide("J." * 30, trials=60, sequential=AUTO).verdict.status is Status.INCONCLUSIVE


def test_a_call_that_no_mock_answers_counts_as_not_passed() -> None:
    def trial(index: int, ours: bool) -> TrialSummary:
        return a_trial(index, "T", error_kind=ErrorKind.TOOL, counts_as_failed=not ours)

    derailed, spoiled = ([a_trial(0, "."), trial(1, ours)] for ours in (False, True))
    half, whole = decide(derailed).interval, decide(spoiled).interval
    assert half == decide(".F").interval
    assert whole == decide(".").interval
    assert (decide(derailed).broken_down, decide(spoiled).broken_down) == (1, 0)
    sequence = [trial(index, ours=False) for index in range(3)]
    assert decide(sequence, trials=60, sequential=AUTO).verdict.status is Status.FAILED


def test_a_sequential_test_counts_the_agents_own_errors() -> None:
    assert decide("AAL", trials=60, sequential=AUTO).verdict.status is Status.FAILED


def test_a_sequential_test_stops_counting_at_the_first_gap() -> None:
    rows = [a_trial(index, ".") for index in range(13) if index != 5]
    assert decide(rows, trials=60, sequential=AUTO).verdict.status is Status.NOT_RUN


def test_a_sequential_test_that_used_all_its_trials_decides() -> None:
    marks = ("." * 4 + "F") * 12
    assert decide(marks, trials=60, sequential=AUTO).verdict.status is Status.FAILED
    assert decide(("." * 6 + "F") * 9, trials=60, sequential=AUTO).verdict.status is Status.PASSED


def test_a_stored_run_of_an_earlier_version_keeps_its_verdict() -> None:
    marks = ("." * 4 + "F") * 12
    earlier = {name: value for name, value in AUTO.items() if name != "rule"}
    outcome = decide(marks, trials=60, sequential=earlier)
    assert outcome.verdict.status is Status.INCONCLUSIVE
    assert outcome.verdict.failure_reasons == ("48/60 trials passed: the last allowed trial did not decide",)


def test_the_interval_after_a_sequential_test_is_the_always_valid_one() -> None:
    stopped = decide("." * 10, trials=60, sequential=AUTO).interval
    fixed = decide("." * 10, trials=10).interval
    assert stopped is not None
    assert fixed is not None
    assert (stopped.low, stopped.high) == pytest.approx(always_valid_interval(10, 10))
    assert stopped.low < fixed.low


# Metrics and severities.


def scored(index: int, *values: float, mark: str = ".", metric: str = "helpfulness") -> TrialSummary:
    scores = tuple(MetricScore(metric=metric, value=value, turn=turn) for turn, value in enumerate(values))
    return a_trial(index, mark, scores=scores, turns=max(len(values), 1))


def test_a_metric_average_below_its_threshold_fails() -> None:
    outcome = decide([scored(0, 3.0, 3.5), scored(1, 3.1)], metric_thresholds={"helpfulness": 3.5})
    assert outcome.verdict.status is Status.FAILED
    assert outcome.verdict.failure_reasons == ("helpfulness: 3.2 (threshold: 3.5)",)
    assert outcome.metric_averages == {"helpfulness": pytest.approx(3.2)}


@pytest.mark.parametrize(("value", "passed"), [(3.5, True), (3.496, False), (3.49, False), (float("nan"), False)])
def test_averages_are_compared_exactly(value: float, passed: bool) -> None:
    assert decide([scored(0, value)], metric_thresholds={"helpfulness": 3.5}).verdict.passed is passed


def test_a_metric_that_no_trial_has_a_score_for_is_errored() -> None:
    outcome = decide("..", metric_thresholds={"helpfulness": 3.5})
    assert outcome.verdict.status is Status.ERRORED
    assert outcome.verdict.failure_reasons == ("helpfulness: no trial has a score",)


def test_a_missing_score_is_errored_and_never_a_smaller_denominator() -> None:
    complete, without = scored(0, 5.0, 5.0), a_trial(1, ".")
    outcome = decide([complete, without], metric_thresholds={"helpfulness": 3.5})
    assert outcome.verdict.status is Status.ERRORED
    assert outcome.verdict.failure_reasons == ("helpfulness: scores are missing in 1 trial",)
    half = a_trial(1, ".", turns=2, scores=(MetricScore(metric="helpfulness", value=5.0, turn=0),))
    assert decide([complete, half], metric_thresholds={"helpfulness": 3.5}).verdict.status is Status.ERRORED


def test_a_tolerated_judge_error_still_leaves_its_metric_without_an_answer() -> None:
    rows = [scored(0, 5.0), a_trial(1, "J")]
    outcome = decide(rows, threshold=0.5, metric_thresholds={"helpfulness": 3.5})
    assert outcome.verdict.status is Status.ERRORED
    tolerated = [scored(0, 5.0), a_trial(1, "A")]
    assert decide(tolerated, threshold=0.5, metric_thresholds={"helpfulness": 3.5}).verdict.passed


def test_a_low_average_is_errored_where_an_errored_trial_might_have_lifted_it() -> None:
    rows = [scored(0, 3.0), a_trial(1, "A")]
    assert decide(rows, metric_thresholds={"helpfulness": 3.5}).verdict.status is Status.ERRORED


def test_a_score_of_the_whole_trial_needs_no_turns() -> None:
    score = MetricScore(metric="goal_completion", value=1.0)
    rows = [a_trial(0, ".", scores=(score,), turns=4)]
    assert decide(rows, metric_thresholds={"goal_completion": 0.8}).verdict.passed


def with_failures(*severities: str) -> TrialSummary:
    return a_trial(0, ".", failures=tuple((severity, f"label {severity}", "why", 1) for severity in severities))


def test_errors_at_or_above_the_severity_fail() -> None:
    outcome = decide([with_failures("high", "critical", "low")], fail_on_error_severity=Severity.HIGH)
    assert outcome.verdict.status is Status.FAILED
    assert outcome.verdict.failure_reasons == ("2 errors at or above high",)


def test_errors_below_the_severity_do_not_fail() -> None:
    assert decide([with_failures("low", "medium")], fail_on_error_severity=Severity.HIGH).verdict.passed
    assert decide([with_failures("critical")]).verdict.passed


def test_the_same_failure_in_several_trials_is_one_error_worst_first() -> None:
    rows = [
        a_trial(0, ".", failures=(("low", "Terse", "a", 0), ("high", "Invented", "b", 1))),
        a_trial(1, ".", failures=(("high", "Invented", "c", 2),)),
    ]
    first, second = decide(rows).unique_errors
    assert (first.severity, first.label, first.occurrences) == (Severity.HIGH, "Invented", 2)
    assert first.examples == ((0, 1), (1, 2))
    assert second.label == "Terse"


def test_failed_trajectories_are_counted() -> None:
    rows = [a_trial(0, "F", trajectory_matched=False), a_trial(1, ".", trajectory_matched=True)]
    assert decide(rows).verdict.failure_reasons == (
        "1/2 trials passed (threshold: 1.0)",
        "Trajectory assertion failed in 1 trial",
    )


def test_all_reasons_are_told_at_once() -> None:
    rows = [scored(0, 3.0, mark="F"), scored(1, 3.0)]
    outcome = decide(rows, metric_thresholds={"helpfulness": 3.5})
    assert outcome.verdict.status is Status.FAILED
    assert outcome.verdict.failure_reasons == (
        "1/2 trials passed (threshold: 1.0)",
        "helpfulness: 3 (threshold: 3.5)",
    )


# xfail.


def test_a_failure_that_was_foretold_is_marked() -> None:
    assert decide("F", xfail="known bug").xfailed
    assert decide("A", xfail="known bug").xfailed


def test_a_pass_that_was_not_foretold_fails() -> None:
    outcome = decide(".", xfail="known bug")
    assert not outcome.xfailed
    assert outcome.verdict.status is Status.FAILED
    assert outcome.verdict.failure_reasons == ("passed although xfail says 'known bug'; remove the xfail",)


@pytest.mark.parametrize("mark", ["J", "E", "L"])
def test_an_error_of_an_instrument_was_not_foretold(mark: str) -> None:
    outcome = decide(mark, xfail="known bug")
    assert (outcome.xfailed, outcome.verdict.status) == (False, Status.ERRORED)


# Averages are compared exactly, and shown so that a reader sees why.


def with_metric(*values: float, threshold: float) -> ScenarioOutcome:
    scores = [MetricScore(metric="helpfulness", value=value) for value in values]
    scored = [a_trial(index, ".", scores=(score,)) for index, score in enumerate(scores)]
    return decide(scored, metric_thresholds={"helpfulness": threshold})


def test_an_average_just_below_its_threshold_fails_and_shows_the_digits_that_say_so() -> None:
    outcome = with_metric(3.49, 3.5, threshold=3.5)
    assert outcome.verdict.status is Status.FAILED
    assert outcome.verdict.failure_reasons == ("helpfulness: 3.495 (threshold: 3.5)",)


@pytest.mark.parametrize(("values", "threshold"), [((3.4, 3.6), 3.5), ((0.1, 0.2, 0.3), 0.2), ((1, 1, 0), 2 / 3)])
def test_noise_of_floats_costs_no_pass(values: tuple[float, ...], threshold: float) -> None:
    assert with_metric(*values, threshold=threshold).verdict.passed

"""Which changes are found, which runs are refused, and what speaks against a candidate."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from seatrial.comparison.aggregates import RunSide
from seatrial.comparison.compare import BaselinePool, compare_runs
from seatrial.comparison.gate import Gate, decide_gate, find_objections
from seatrial.errors import UsageError
from seatrial.model.comparison import ChangeKind, Comparison, RegressionLimits, RegressionReason
from seatrial.model.conversation import ErrorKind
from seatrial.model.run import Gates, Run, RunState, ScenarioEntry, ScenarioKey, Status, TrialSummary
from seatrial.verdicts.run import decide_run

NOW = datetime(2025, 5, 1, tzinfo=UTC)
_STATUS = {"p": Status.PASSED, "f": Status.FAILED, "j": Status.ERRORED, "a": Status.ERRORED}
_KIND = {"j": ErrorKind.JUDGE, "a": ErrorKind.AGENT}


def a_run(
    name: str, trials: Mapping[str, str], *, suite: str = "shop", entry: Mapping[str, Any] | None = None, **run: Any
) -> RunSide:
    """A run with the trials of each scenario as letters: passed, failed, judge errored, agent errored."""
    made = Run(**{"id": name, "name": name, "state": RunState.FINISHED, "started_at": NOW, **run})
    entries, summaries = [], []
    for place, (scenario, letters) in enumerate(trials.items()):
        key = ScenarioKey(suite, scenario)
        settings = {"fingerprint": "f", "trials": max(1, len(letters)), **(entry or {})}
        entries.append(ScenarioEntry(key=key, position=place, **settings))
        summaries += [
            TrialSummary(
                key=key, index=index, status=_STATUS[letter], error_kind=_KIND.get(letter), started_at=NOW, turns=1
            )
            for index, letter in enumerate(letters)
        ]
    return RunSide(run=made, outcome=decide_run(entries, summaries), summaries=summaries)


def compared(base: Mapping[str, str], candidate: Mapping[str, str], **more: Any) -> Comparison:
    return compare_runs(a_run("base", base), a_run("cand", candidate), **more)


def test_each_scenario_gets_the_status_that_its_verdicts_say():
    found = compared(
        {"worse": "p", "better": "f", "same": "p", "broken": "p", "gone": "p"},
        {"worse": "f", "better": "p", "same": "p", "broken": "j", "added": "p"},
    )
    assert {one.key.name: one.change for one in found.scenarios} == {
        "worse": ChangeKind.REGRESSION,
        "better": ChangeKind.IMPROVEMENT,
        "same": ChangeKind.UNCHANGED,
        "broken": ChangeKind.ERROR,
        "added": ChangeKind.NEW,
        "gone": ChangeKind.MISSING,
    }


def test_an_inconclusive_scenario_that_passed_before_is_a_regression():
    gates = {"gates": Gates(threshold=0.0, pass_rate=0.9, confidence=0.95)}
    base = a_run("base", {"a": "p" * 30}, entry=gates)
    candidate = a_run("cand", {"a": "p" * 5}, entry=gates)
    [change] = compare_runs(base, candidate).scenarios
    assert change.change is ChangeKind.REGRESSION


def test_rates_are_taken_over_the_scenarios_that_both_have():
    found = compared({"a": "pp", "gone": "ff"}, {"a": "pf", "added": "pp"})
    assert (found.base_figures.pass_rate, found.candidate_figures.pass_rate) == (1.0, 0.5)
    assert [one.reason for one in found.regressions] == [RegressionReason.PASS_RATE]


def test_a_scenario_with_many_trials_weighs_no_more_than_one_with_few():
    found = compared({"a": "p" * 9, "b": "f"}, {"a": "p", "b": "f" * 9})
    assert found.base_figures.pass_rate == found.candidate_figures.pass_rate == 0.5
    assert not found.regression_detected


def test_trials_that_an_instrument_spoiled_are_left_out_of_rates_and_tests():
    found = compared({"a": "pppp"}, {"a": "ppjj"})
    assert found.candidate_figures.pass_rate == 1.0
    assert (found.candidate_figures.rated_passed, found.candidate_figures.rated) == (2, 2)
    assert found.evidence.left_out == 2
    assert found.evidence.p_worse == 1.0


def test_an_error_of_the_agent_counts_against_it_in_rates():
    assert compared({"a": "pppp"}, {"a": "ppaa"}).candidate_figures.pass_rate == 0.5


def test_a_scenario_counts_in_rates_only_where_both_sides_have_an_answer():
    found = compared({"a": "pp", "b": "pp"}, {"a": "pf", "b": "jj"})
    assert (found.base_figures.pass_rate, found.candidate_figures.pass_rate) == (1.0, 0.5)
    assert (found.base_figures.rated, found.candidate_figures.rated) == (2, 2)
    nothing = compared({"a": "pp"}, {"a": "jj"})
    assert (nothing.base_figures.pass_rate, nothing.candidate_figures.pass_rate) == (None, None)


@pytest.mark.parametrize("gate", [Gate.THRESHOLDS, Gate.BOTH])
def test_a_judge_that_is_down_in_the_candidate_is_no_regression_and_no_pass(gate):
    found = compared({"a": "pppp", "b": "pppp"}, {"a": "pppp", "b": "ppjj"})
    decided = decide_gate(found, gate=gate)
    assert not found.regression_detected
    assert (decided.verdict, decided.regressions) == ("UNDECIDED", ())
    assert decided.doubts[-1] == (
        "cannot tell: 2 trials of the candidate could not be judged (b). If they had failed, the pass rate would have "
        "fallen by 25 points (limit: 0). Repeat them: seatrial run --resume cand --retry-errors"
    )
    assert find_objections(found, gate=gate) == decided.doubts


def test_trials_that_could_not_be_judged_are_tolerated_where_they_could_not_change_the_answer():
    names = [f"s{number}" for number in range(20)]
    base = dict.fromkeys(names, "p" * 5)
    found = compared(base, {**base, "s3": "ppppj"}, limits=RegressionLimits(max_pass_rate_drop=0.1))
    assert decide_gate(found, gate=Gate.BOTH).verdict == "NO REGRESSION"


def test_a_regression_is_told_whatever_else_could_not_be_judged():
    decided = decide_gate(compared({"a": "pppp", "b": "pppp"}, {"a": "ffff", "b": "ppjj"}))
    assert (decided.verdict, decided.regressions) == ("REGRESSION", ("pass rate fell by 50 points (limit: 0)",))


def test_the_tests_cannot_tell_where_trials_that_were_not_judged_could_make_the_suite_worse():
    found = compared({"a": "p" * 8}, {"a": "p" * 2 + "j" * 6})
    decided = decide_gate(found, gate=Gate.STATISTICAL)
    assert decided.verdict == "UNDECIDED"
    assert "6 trials of the candidate could not be judged (a). If they had failed" in decided.doubts[0]
    assert decide_gate(compared({"a": "p" * 8}, {"a": "p" * 7 + "j"}), gate=Gate.STATISTICAL).verdict == "NO REGRESSION"


def test_a_regraded_candidate_is_repaired_by_another_regrade():
    base, candidate = a_run("base", {"a": "pp"}), a_run("cand", {"a": "pj"}, parent="orig")
    [doubt] = decide_gate(compare_runs(base, candidate)).doubts
    assert doubt.endswith("Repeat them: seatrial regrade orig")


def test_an_error_of_the_agent_counts_against_it_in_tests():
    assert compared({"a": "pppp"}, {"a": "aaaa"}).evidence.worse == (ScenarioKey("shop", "a"),)


def test_a_skipped_scenario_is_missing_when_the_baseline_ran_it():
    base = a_run("base", {"a": "p", "b": "f"})
    whole = a_run("cand", {"a": "p", "b": ""})
    skipped = [
        replace(one.entry, skip="not now") if one.entry.key.name == "b" else one.entry
        for one in whole.outcome.scenarios
    ]
    candidate = replace(whole, outcome=decide_run(skipped, whole.summaries))
    found = compare_runs(base, candidate)
    assert found.keys(ChangeKind.MISSING) == (ScenarioKey("shop", "b"),)
    assert found.notes == ("run cand: 1 scenario skipped",)


def test_an_edited_scenario_says_what_was_edited():
    base = a_run("base", {"a": "p"}, entry={"trial_fingerprint": "x", "gates": Gates(threshold=0.8)})
    candidate = a_run("cand", {"a": "p"}, entry={"trial_fingerprint": "y"})
    [change] = compare_runs(base, candidate).scenarios
    assert change.change is ChangeKind.UNCHANGED
    assert change.edits == ("scenario", "threshold: 0.8 → 1.0")


def test_another_agent_or_number_of_trials_is_no_edit():
    base = a_run("base", {"a": "p"}, entry={"fingerprint": "one", "trial_fingerprint": "x"})
    candidate = a_run("cand", {"a": "ppp"}, entry={"fingerprint": "two", "trial_fingerprint": "x"})
    assert not compare_runs(base, candidate).scenarios[0].edited


def test_a_missing_scenario_speaks_against_the_candidate_unless_allowed():
    found = compared({"a": "p", "b": "p"}, {"a": "p"})
    assert find_objections(found) == ("1 scenario missing: b",)
    assert find_objections(found, allow_missing=True) == ()


def test_a_latency_that_rises_by_less_than_a_few_milliseconds_is_the_machines():
    base, candidate = (a_run(name, {"a": "p"}) for name in ("base", "cand"))
    sides = [
        replace(side, summaries=[replace(one, median_latency_ms=ms) for one in side.summaries])
        for side, ms in ((base, 0.1), (candidate, 0.9))
    ]
    assert not compare_runs(*sides).regression_detected


def test_a_score_counts_only_where_both_runs_have_one():
    def scored(side: RunSide, scores: dict[str, float]) -> RunSide:
        summaries = [replace(one, overall_score=scores.get(one.key.name)) for one in side.summaries]
        outcome = decide_run([one.entry for one in side.outcome.scenarios], summaries)
        return replace(side, summaries=summaries, outcome=outcome)

    base = scored(a_run("base", {"a": "p", "b": "p"}), {"a": 90, "b": 20})
    candidate = scored(a_run("cand", {"a": "p", "b": "p"}), {"a": 80})
    found = compare_runs(base, candidate)
    assert (found.base_figures.avg_score, found.candidate_figures.avg_score) == (90, 80)
    assert [one.reason for one in found.regressions] == [RegressionReason.AVG_SCORE]


@pytest.mark.parametrize("side", ["base", "cand"])
def test_a_run_without_results_is_refused(side):
    runs = {name: a_run(name, {"a": "" if name == side else "p"}) for name in ("base", "cand")}
    with pytest.raises(UsageError, match=f"run {side}: has no results"):
        compare_runs(runs["base"], runs["cand"])


@pytest.mark.parametrize(
    ("state", "words"), [(RunState.INTERRUPTED, "was interrupted"), (RunState.RUNNING, "is not finished")]
)
def test_an_unfinished_run_is_refused_unless_allowed(state, words):
    base, candidate = a_run("base", {"a": "p"}), a_run("cand", {"a": "p"}, state=state)
    with pytest.raises(UsageError, match=f"run cand: {words}.*--allow-unfinished"):
        compare_runs(base, candidate)
    assert compare_runs(base, candidate, allow_unfinished=True).scenarios


def test_a_run_that_stopped_before_its_last_trial_is_refused_unless_allowed():
    base, candidate = a_run("base", {"a": "ppp"}), a_run("cand", {"a": "p"}, entry={"trials": 3})
    with pytest.raises(UsageError, match=r"run cand: 2 of its trials were not run \(a\)"):
        compare_runs(base, candidate)
    assert compare_runs(base, candidate, allow_unfinished=True).scenarios


def test_runs_of_different_suites_are_refused():
    with pytest.raises(UsageError, match="are of different suites: 'shop' and 'bank'"):
        compare_runs(a_run("base", {"a": "p"}), a_run("cand", {"a": "p"}, suite="bank"))


def test_runs_without_a_common_scenario_are_refused():
    with pytest.raises(UsageError, match="have no scenario in common"):
        compared({"a": "p"}, {"b": "p"})


def test_a_run_is_not_compared_with_itself():
    side = a_run("base", {"a": "p"})
    with pytest.raises(UsageError, match="was given on both sides"):
        compare_runs(side, side)


@pytest.mark.parametrize("limit", ["max_pass_rate_drop", "max_avg_score_drop", "max_latency_increase_pct"])
@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_limits_below_zero_are_refused(limit, value):
    with pytest.raises(UsageError, match=f"{limit}: .* is not 0 or more"):
        compared({"a": "p"}, {"a": "p"}, limits=RegressionLimits(**{limit: value}))


def test_the_baseline_is_pooled_for_tests_but_not_for_figures():
    pool = BaselinePool(runs=("older",), counts={ScenarioKey("shop", "a"): (17, 17)})
    found = compared({"a": "ppp"}, {"a": "fff"}, pool=pool)
    [change] = found.scenarios
    assert found.base_figures.trials == 3
    assert change.p_worse == pytest.approx(1 / 1771)
    assert found.evidence.pooled_runs == ("older",)


@pytest.mark.parametrize(
    ("base", "candidate"),
    [({"replayed": True}, {}), ({}, {"replayed": True}), ({}, {"parent": "base"}), ({"parent": "x"}, {"parent": "x"})],
)
def test_trials_that_are_not_independent_are_not_tested(base, candidate):
    found = compare_runs(a_run("base", {"a": "pppp"}, **base), a_run("cand", {"a": "ffff"}, **candidate))
    assert not found.evidence.testable
    assert found.scenarios[0].beyond_noise is None
    assert "not independent" in find_objections(found, gate=Gate.STATISTICAL)[0]
    assert found.regression_detected


def test_the_statistical_gate_does_not_pass_what_no_trial_answers():
    found = compared({"a": "pppp", "b": "pppp"}, {"a": "pppp", "b": "jjjj"})
    assert find_objections(found, gate=Gate.STATISTICAL) == ("not tested, because one side has no answer: b",)


def test_nothing_answered_at_all_is_no_pass():
    found = compared({"a": "pppp"}, {"a": "jjjj"})
    assert "Nothing can be said" in find_objections(found, gate=Gate.STATISTICAL)[0]
    assert decide_gate(found, gate=Gate.STATISTICAL).verdict == decide_gate(found).verdict == "UNDECIDED"


def test_a_candidate_without_any_answer_is_no_pass_by_limits_either():
    assert "Nothing can be said" in find_objections(compared({"a": "jj"}, {"a": "jj"}))[0]
    assert find_objections(compared({"a": "jj"}, {"a": "pp"})) == ()


def test_a_comparison_is_neither_true_nor_false():
    with pytest.raises(TypeError, match="find_objections"):
        assert compared({"a": "p"}, {"a": "p"})


def test_noise_is_a_regression_by_limits_and_none_by_tests():
    found = compared({"a": "ppppp"}, {"a": "ppppf"})
    assert find_objections(found) == ("pass rate fell by 20 points (limit: 0)",)
    assert find_objections(found, gate=Gate.STATISTICAL) == ()
    assert find_objections(found, gate=Gate.BOTH) == ("pass rate fell by 20 points (limit: 0)",)


def test_a_drop_within_the_limit_but_beyond_noise_objects_by_tests_alone():
    names = [f"s{number}" for number in range(20)]
    base = dict.fromkeys(names, "p" * 5)
    found = compared(base, {**base, "s3": "f" * 5}, limits=RegressionLimits(max_pass_rate_drop=0.1))
    assert find_objections(found) == ()
    assert find_objections(found, gate=Gate.STATISTICAL) == ("worse: s3",)
